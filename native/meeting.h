/* meeting: how the agent and the client that attaches to it find each other in a container */
#ifndef HOLDFAST_MEETING_H
#define HOLDFAST_MEETING_H

/*
 * The runtime starts the two as separate processes (agent.h). They meet on an abstract socket, over which the client
 * passes its stdin, stdout and stderr. MEETING is the name of the socket, a colon, and a secret.
 */

#include <stdbool.h>

/* Opens the socket on which the agent waits for the client. -1: that failed. */
int meeting_open(const char *meeting);
/* Receives the client's three descriptors, if it runs as our user and knows the secret. */
bool meeting_receive(int fd, const char *meeting, int *stdio);
/* Passes our three descriptors on, and waits for the command's exit code. False: no agent is there, or it went away. */
bool meeting_attach(const char *meeting, int *code);

#endif
