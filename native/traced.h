/* traced: children under ptrace: tracees of our own, and an exit that a tracer hides */
#ifndef HOLDFAST_TRACED_H
#define HOLDFAST_TRACED_H

/*
 * ptrace changes what a parent sees, in two ways.
 *
 * A child that calls PTRACE_TRACEME makes its parent its tracer. That is the leader, or an orphan that has fallen to us.
 * From then on each signal stops it until we let it go on, and wait4 reports that stop. It is not an end.
 *
 * A child that another process traces is hidden: when it exits, its tracer has to wait for it first. If the tracer
 * never does, wait4 reports nothing, and no SIGCHLD comes. A pidfd tells the end all the same, and /proc the status.
 */

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

/* Lets a child go on that has made us its tracer. False: this is not such a stop. */
bool traced_let_go(pid_t pid, int wait_status);

/*
 * wait4 without waiting for one child of ours, which also sees an end that a tracer hides. The child stays a zombie
 * then, and is reaped when the tracer has ended; its usage, which comes with that, is zero here. `process`: a pidfd of
 * the child, or -1. It is closed, and -1, when the end is hidden and nothing more can be learned from it.
 */
pid_t traced_wait(pid_t pid, int *process, int *wait_status, struct rusage *usage);

#endif
