/* clock: the two clocks of the guard, and the timers of a run */
#include "clock.h"

static uint64_t read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t); /* cannot fail with these clocks and a valid pointer */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t clock_now(void) { return read_clock(CLOCK_MONOTONIC); }

uint64_t clock_boot(void) { return read_clock(CLOCK_BOOTTIME); }

uint64_t clock_after(uint64_t from, uint64_t duration_ns) {
    return duration_ns > UINT64_MAX - from ? UINT64_MAX : from + duration_ns;
}

void timer_set(struct timers *timers, enum timer timer, uint64_t due_ns) { timers->due_ns[timer] = due_ns; }

void timer_off(struct timers *timers, enum timer timer) { timers->due_ns[timer] = 0; }

void timers_clear(struct timers *timers) { *timers = (struct timers){0}; }

int timer_is_set(const struct timers *timers, enum timer timer) { return timers->due_ns[timer] != 0; }

enum timer timers_next(const struct timers *timers) {
    enum timer next = TIMER_COUNT;
    for (int i = 0; i < TIMER_COUNT; i++) {
        if (timers->due_ns[i] != 0 && (next == TIMER_COUNT || timers->due_ns[i] < timers->due_ns[next]))
            next = (enum timer)i;
    }
    return next;
}

uint64_t timers_next_bound(const struct timers *timers) {
    static const enum timer bounds[] = {TIMER_DEADLINE,  TIMER_IDLE,       TIMER_RUNG,
                                        TIMER_KILL_WAIT, TIMER_DRAIN_IDLE, TIMER_DRAIN};
    uint64_t next = 0;
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        const uint64_t due = timers->due_ns[bounds[i]];
        if (due != 0 && (next == 0 || due < next))
            next = due;
    }
    return next;
}
