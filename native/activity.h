/* activity: whether a command is idle, by its output, its CPU time or its heartbeat file */
#ifndef HOLDFAST_ACTIVITY_H
#define HOLDFAST_ACTIVITY_H

/*
 * The guard polls nothing that it can ask for at the moment it matters. Output moves a timestamp. The guard looks at
 * the other signs of life only when the idle clock is about to run out. CPU time must be sampled; the guard does that
 * four times in each idle time.
 */

#include <stdint.h>
#include <time.h>

#include "frame.h"

struct activity {
    uint64_t last_ns;     /* the newest sign of life */
    uint64_t sampled_ns;  /* when the guard last looked at CPU time */
    uint64_t cpu_ticks;
    int heartbeat;        /* a file that the command touches; -1: none */
    uint64_t looked_ns;   /* when the guard last looked at that file */
    struct timespec beat; /* its modification time at the last look */
};

void activity_start(struct activity *activity, int heartbeat, uint64_t now);
/*
 * Looks at every sign of life that counts. Afterwards last_ns is the newest one. `reaped_us` is the CPU time of the
 * processes that have ended. Returns when to look again.
 */
uint64_t activity_check(struct activity *activity, const struct spec_options *options, uint64_t reaped_us,
                        uint64_t now);
/* There is a sign of life now. */
void activity_seen(struct activity *activity, uint64_t now);

#endif
