/*
 * Starting the command in two steps. First a child is forked that has everything but the program: process group,
 * cgroup, descriptors, a parent-death signal. It waits for a word of ours. Only when STARTED, with its identity, is in the
 * journal is it told to go on; if the guard dies before that, it dies with it and the command never runs. Where guard and
 * child share that word, the child leaves the reason when exec fails, and exits. One child is held at a time.
 */
#ifndef HOLDFAST_SPAWN_H
#define HOLDFAST_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cgroup.h"
#include "frame.h"
#include "spec.h"

struct spawned {
    pid_t pid;
    bool failed; /* it has said that exec failed: the command never ran */
    uint64_t start_ticks; /* when it was forked, as /proc has it; 0: to be looked up there */
};

/* Descriptors for the command's stdout and stderr; equal when merged or a terminal. */
struct child_stdio {
    int out;
    int err;
};

/*
 * Ignored signals survive exec; Python ignores SIGPIPE, and glibc's posix_spawn leaves its two private signals ignored.
 * Commands start with a clean slate. Done once in the guard, whose own are all blocked: a fork inherits it. Asked of the
 * kernel directly, because a libc does not let go of its own.
 */
void spawn_reset_signals(void);

/* False: nothing runs, and `failure` says at which step and why. */
bool spawn_held(struct spawned *spawned, const struct spec *spec, struct cgroup *cgroup, struct child_stdio stdio,
                struct fact_spawn_failed *failure);
/* What the child that is held is told; one that is dead does not mind. */
void spawn_release(void);
void spawn_forbid(void);

/* True once, when exec has failed; the child exits then. */
bool spawn_has_failed(struct spawned *spawned, struct fact_spawn_failed *failure);

#endif
