/* spawn: starting the command in two steps, first a held child, then its program when the start is on record */
#ifndef HOLDFAST_SPAWN_H
#define HOLDFAST_SPAWN_H

/*
 * First the guard forks a child that has everything but the program: session, cgroup, descriptors and a parent-death
 * signal. The child waits for a word of the guard. When STARTED, with the child's identity, is in the
 * journal, the guard tells the child to go on. If the guard dies before that, the child dies with it, and the command
 * never runs. When exec fails, the child leaves the reason in the memory that it shares with the guard, and exits. The
 * guard holds one child at a time.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cgroup.h"
#include "frame.h"
#include "spec.h"

struct spawned {
    pid_t pid;
    int process;          /* pidfd of the child; -1: it is not watched */
    bool failed;          /* the child has said that exec failed: the command never ran */
    uint64_t start_ticks; /* when it was forked, as in /proc/PID/stat; 0: look there */
};

/* Descriptors for the command's stdout and stderr; equal when merged or a terminal. */
struct child_stdio {
    int out;
    int err;
};

/*
 * Gives every ignored signal its default action, so that commands start with a clean slate. Ignored signals survive
 * exec: Python ignores SIGPIPE, and glibc's posix_spawn leaves its two private signals ignored. Once in the guard is
 * enough, because a fork inherits it, and the guard's own signals are all blocked. The guard asks the kernel directly,
 * because a libc hides its own signals.
 */
void spawn_reset_signals(void);

/* Takes the memory in which guard and child talk. False: there is none. */
bool spawn_prepare(void);

/* Forks the held child. False: nothing runs, and `failure` says at which step and why. */
bool spawn_held(struct spawned *spawned, const struct spec *spec, struct cgroup *cgroup, struct child_stdio stdio,
                struct fact_spawn_failed *failure);
/* Opens a pidfd of the child, which is not reaped: it tells an end that a tracer hides. */
void spawn_watch(struct spawned *spawned);
/* Tells the held child to execute the command, or never to do so. A dead child does not mind. */
void spawn_release(void);
void spawn_forbid(void);

/* True once, when exec has failed; then the child exits. */
bool spawn_has_failed(struct spawned *spawned, struct fact_spawn_failed *failure);

#endif
