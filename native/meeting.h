/*
 * How the two processes that a runtime starts in a container find each other (agent.h): an abstract socket, and over it
 * the stdin, stdout and stderr of the one that attaches. MEETING is the socket's name, a colon, and a secret.
 */
#ifndef HOLDFAST_MEETING_H
#define HOLDFAST_MEETING_H

#include <stdbool.h>

/* A socket to wait on for the one that attaches; -1. */
int meeting_open(const char *meeting);
/* Its three descriptors, if it is of our user and knows the secret. */
bool meeting_receive(int fd, const char *meeting, int *stdio);
/* Brings ours, and waits for the command's exit code. False: there is nobody, or it went away. */
bool meeting_attach(const char *meeting, int *code);

#endif
