/* relay: the bytes between a client and a server that may be ended while nothing is said, and started again */
#ifndef HOLDFAST_RELAY_H
#define HOLDFAST_RELAY_H

/*
 * The front (front.h) usually sees no byte: the server has the client's own streams. A server that may be ended for
 * silence is different. Its client must not notice: so somebody has to read the client's next message when no server
 * is there, and to repeat the beginning of the session to the new one. For MCP that is the request `initialize` and the
 * notification `notifications/initialized`. The relay keeps these two lines in a memfd, which outlives execve. The new
 * server's answer to the repeated request is swallowed.
 *
 * The relay reads only while it has passed on everything that it read, so a slow reader slows its writer, as a pipe
 * does. It passes bytes on when they come, and waits for the end of no line.
 *
 * The server is idle when neither side owes the other an answer, no line is unfinished, and no byte passes for the given
 * time. Some requests make the server remember something that a new one would not know. After these, and in a session
 * that is not MCP, the server is never idle.
 */

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

enum { RELAY_WATCHED = 3 };

/* Opens the relay on the server's ends of its stdin and stdout, and on the kept lines. False: it cannot. */
bool relay_open(int to_server, int from_server, int memory);
/*
 * Fills RELAY_WATCHED entries for poll(). `takes_input`: whether to read the client. `client_left`: it has closed its
 * stdin, which poll() would tell again and again while what it wrote before is not passed on.
 */
void relay_watch(struct pollfd *watched, bool takes_input, bool client_left);
/* Passes on what can be passed on without waiting. */
void relay_serve(const struct pollfd *watched);
/* The client has closed its stdin, as far as poll() tells. */
bool relay_client_left(const struct pollfd *watched);
/* Nobody reads what the server writes. */
bool relay_reader_left(void);
/* Since when nothing was said, if the server may be ended now; else 0. */
uint64_t relay_silent_since(void);
/* Closes the server's stdin, which asks it to exit. */
void relay_close_server(void);
/* A server that has closed its stdout and goes on: closes the client's, once everything is passed on. */
void relay_pass_end(void);
/* The server is gone: fills one entry for poll() while something of it is to be passed on; false: nothing is. */
bool relay_watch_rest(struct pollfd *watched);
/* Passes on what the client takes of it now. */
void relay_serve_rest(void);
/* Passes on what the server has written up to now, and waits only for a client that reads. */
void relay_drain(void);
/* The server is gone for good: closes its ends. */
void relay_close(void);
/* Whether the client has something to say: 1; has closed its stdin: -1; neither: 0. */
int relay_client_news(void);

#endif
