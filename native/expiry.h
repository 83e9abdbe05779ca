/* expiry: the timers of a run, and what happens when one is due */
#ifndef HOLDFAST_EXPIRY_H
#define HOLDFAST_EXPIRY_H

/* A timer that could end the run reaps first: see the rule in run.h. */

#include "run.h"

/* The command has started: sets the timers that may end it. */
void run_arm_timers(struct run *run, uint64_t now);
void run_timer_is_due(struct run *run, enum timer timer);

#endif
