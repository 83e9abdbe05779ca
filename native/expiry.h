/* expiry: the timers of a run, and what happens when one is due */
#ifndef HOLDFAST_EXPIRY_H
#define HOLDFAST_EXPIRY_H

/* A timer that could end the run reaps first: see the rule in run.h. The kernel's witness goes before it: witness.h. */

#include "run.h"

/* Sets the deadline, for the guard's own clock and for the kernel's. */
void run_set_deadline(struct run *run, uint64_t due_ns);
/* The command has started: sets the timers that may end it. */
void run_arm_timers(struct run *run, uint64_t now);
/* The kernel's timer told of the deadline before any exit: the deadline comes first, whatever has happened since. */
void run_deadline_witnessed(struct run *run);
/* Whether the deadline has passed and the guard has not acted on it yet. */
bool run_deadline_has_passed(const struct run *run);
/* The guard cannot know whether the exit came before the deadline: the record says so, and the deadline decides. */
void run_count_exit_as_late(struct run *run);
void run_timer_is_due(struct run *run, enum timer timer);

#endif
