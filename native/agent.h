/*
 * The guard's other half: the same program inside a container, where there may be nothing but a kernel.
 *
 *   holdfast-guard inside hold MEETING    the agent: keeps the command and everything it starts. Its stdin and stdout are the
 *                                       link to the guard (agent_note.h); end of file there ends all of it.
 *   holdfast-guard inside attach MEETING  brings the stdin, stdout and stderr that the runtime made, waits, and exits as the
 *                                       command does, so that the runtime knows when to stop passing output on.
 *
 *   holdfast-guard inside sweep RUN_ID  ends what carries the token of a run whose agent was killed (sweep.h).
 *
 * Two, because the command's stdio and the link need one call of the runtime each. They find each other by an abstract socket:
 * MEETING is its name, which everybody in the same network namespace can see, a colon, and a secret.
 * It keeps no clocks and climbs no ladder: that is the guard's.
 */
#ifndef HOLDFAST_AGENT_H
#define HOLDFAST_AGENT_H

int agent_main(const char *role, const char *argument);

#endif
