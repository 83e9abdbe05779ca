/* clock: the two clocks of the guard, and the timers of a run */
#ifndef HOLDFAST_CLOCK_H
#define HOLDFAST_CLOCK_H

/*
 * There are two clocks on purpose. Timers run on CLOCK_MONOTONIC: it counts the time in which the run could work, so a
 * suspended laptop does not use up a deadline. Facts are stamped with CLOCK_BOOTTIME: it goes on through suspend, so
 * the wall-clock anchor in the journal's header stays right. Neither follows the wall clock, so setting that clock
 * changes nothing here.
 */

#include <stdint.h>
#include <time.h>

enum timer {
    TIMER_LASTS, /* the run needs what a short run does without */
    TIMER_WARN,
    TIMER_DEADLINE,
    TIMER_IDLE,
    TIMER_SAMPLE,
    TIMER_TERMINAL,  /* look again at a terminal that no process had open */
    TIMER_LISTEN,    /* accept owners again after the descriptors had run out */
    TIMER_RUNG,      /* the current rung's grace is over */
    TIMER_KILL_PASS, /* repeat the last rung */
    TIMER_KILL_WAIT, /* give up on what SIGKILL cannot end */
    TIMER_WALK,      /* go on with a walk through a huge tree */
    TIMER_AGENT,     /* the agent in a container has not said what it should have said */
    TIMER_DRAIN_IDLE,
    TIMER_DRAIN,
    TIMER_RECORD, /* storage has not taken the end of the record */
    TIMER_WRITER, /* the writer has not said anything for a while */
    TIMER_COUNT
};

struct timers {
    uint64_t due_ns[TIMER_COUNT]; /* 0: off */
};

uint64_t clock_now(void);  /* CLOCK_MONOTONIC */
uint64_t clock_boot(void); /* CLOCK_BOOTTIME */

/* `from` plus a duration that a caller asked for; never wraps round. */
uint64_t clock_after(uint64_t from, uint64_t duration_ns);

void timer_set(struct timers *timers, enum timer timer, uint64_t due_ns);
void timer_off(struct timers *timers, enum timer timer);
void timers_clear(struct timers *timers);
int timer_is_set(const struct timers *timers, enum timer timer);
/* The timer that is due first, or TIMER_COUNT when none is set. On a tie the order of the enum decides. */
enum timer timers_next(const struct timers *timers);
/* When the first timer is due that keeps a bound of the run: an end that it has to come to in time. 0: none. */
uint64_t timers_next_bound(const struct timers *timers);

#endif
