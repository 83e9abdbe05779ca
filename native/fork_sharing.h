/* fork_sharing: a fork that copies no memory; the child is in the guard's memory until it executes a program */
#ifndef HOLDFAST_FORK_SHARING_H
#define HOLDFAST_FORK_SHARING_H

/*
 * The kernel copies no page tables, it copies no page when either process writes, and exec has nothing to take down.
 * That saves a fortieth of a short run. Unlike with vfork(), the guard goes on meanwhile: a program on a file system
 * that does not answer must not stop the clocks.
 *
 * So the child runs on a stack of its own, writes to no other memory, and makes its system calls with `RAW_SYSCALL`,
 * which leaves errno alone. There is one such stack: before a second fork the first child must be gone, or have
 * executed its program. A child that stays brings another stack, in `arguments`.
 */

#include <linux/sched.h>
#include <sys/types.h>

#if defined(__SANITIZE_ADDRESS__) /* it knows only one stack per thread */
#define FORK_MAY_SHARE false
#else
#define FORK_MAY_SHARE true
#endif

/* Runs child(context), which does not return, in a new process. Returns its PID, or -1 with errno. */
pid_t fork_sharing(struct clone_args arguments, void (*child)(const void *context), const void *context);

#endif
