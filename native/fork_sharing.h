/*
 * fork(), without the copy: until it executes a program, the child is in our memory. No page tables are copied, no page
 * is copied when either writes, and exec has nothing to take down; a fortieth of a short run. We go on meanwhile, unlike
 * with vfork(): a program on a file system that does not answer must not stop our clocks.
 *
 * So the child runs on a stack of its own, writes to no memory but that, and makes its system calls with `RAW_SYSCALL`, whose
 * errors are not in errno. There is one such stack: a second child needs the first one gone, or executing.
 */
#ifndef HOLDFAST_FORK_SHARING_H
#define HOLDFAST_FORK_SHARING_H

#include <linux/sched.h>
#include <sys/types.h>

/* Runs child(context), which does not return, in a new process; its number, or -1 with errno. */
pid_t fork_sharing(struct clone_args arguments, void (*child)(const void *context), const void *context);

#endif
