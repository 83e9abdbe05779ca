/* agent: the guard's other half in a container, which keeps the command and everything that the command starts */
#ifndef HOLDFAST_AGENT_H
#define HOLDFAST_AGENT_H

/*
 * There may be nothing but a kernel in the container. The program has three roles there:
 *
 *   holdfast-guard inside hold MEETING     The agent. It keeps the command and everything that the command starts. Its
 *                                          stdin and stdout are the link to the guard (agent_note.h). At end of file
 *                                          the agent ends everything.
 *   holdfast-guard inside attach MEETING   The attaching client. It brings the stdin, stdout and stderr that the
 *                                          runtime made, waits, and exits with the command's exit code. So the runtime
 *                                          knows when to stop passing output on.
 *   holdfast-guard inside sweep TOKEN      Ends the processes that carry the token of a run whose agent was killed
 *                                          (sweep.h).
 *
 * The agent and the attaching client are two processes, because the command's stdio and the link need one call of the
 * runtime each. They find each other by an abstract socket. MEETING is the name of the socket, a colon, and a secret.
 * The name alone is not enough: every process in the same network namespace can see it. The agent keeps no clocks
 * and climbs no ladder: the guard does that.
 */

int agent_main(const char *role, const char *argument);

#endif
