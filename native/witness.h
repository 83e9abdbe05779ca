/* witness: lets the kernel keep the order of the command's exit and its deadline */
#ifndef HOLDFAST_WITNESS_H
#define HOLDFAST_WITNESS_H

/*
 * A guard that did not run across the deadline (stopped, starved) finds an exit and a passed deadline at once. No file
 * of /proc says when a zombie died. So the guard arms a timer in the kernel that sends it SIGCHLD, the same signal that
 * an exit sends. The kernel keeps only the first SIGCHLD of children while one is pending, and it appends the timer's
 * to those before it. Whichever comes first is what the guard reads first:
 *   - the timer: no exit was pending at the deadline, so the command was alive then;
 *   - the exit of the command: it came before the deadline, or no timer was there;
 *   - something else (another child, a stop): the order is not known. See docs/decisions/0016-exit-or-deadline.md.
 */

#include <stdint.h>

/* Arms the timer for this time of CLOCK_MONOTONIC. If the kernel has no timer for us, there is no witness. */
void witness_arm(uint64_t due_ns);
void witness_off(void);

#endif
