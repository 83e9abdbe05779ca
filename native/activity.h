/*
 * Is the run doing something?
 *
 * Nothing is polled that can be asked at the moment it matters: output moves a timestamp, and only when the idle clock is
 * about to run out are the others looked at. CPU time has to be sampled: a quarter of the idle time apart.
 */
#ifndef HOLDFAST_ACTIVITY_H
#define HOLDFAST_ACTIVITY_H

#include <stdint.h>
#include <time.h>

#include "frame.h"

struct activity {
    uint64_t last_ns;     /* the newest sign of life */
    uint64_t sampled_ns;  /* when CPU time was last looked at */
    uint64_t cpu_ticks;
    int heartbeat;        /* a file the command touches; -1 */
    struct timespec beat; /* its modification time when last looked at */
};

void activity_start(struct activity *activity, int heartbeat, uint64_t now);
/*
 * Looks at what counts; afterwards last_ns is the newest sign of life. `reaped_us` is the CPU time of those who have ended.
 * Returns when to look again.
 */
uint64_t activity_check(struct activity *activity, const struct spec_options *options, uint64_t reaped_us,
                        uint64_t now);
void activity_seen(struct activity *activity, uint64_t now);

#endif
