/* phases: how a run gets from one phase to the next */
#ifndef HOLDFAST_PHASES_H
#define HOLDFAST_PHASES_H

#include "run.h"

/* Whether the ladder has not begun, so that a clock, a request or a limit may begin it: RUNNING or LINGERING. */
bool run_may_begin_stop(const struct run *run);
void run_begin_stop(struct run *run);
/* The command never ran: nothing to ask for gracefully. */
void run_begin_quiet_end(struct run *run);
void run_begin_drain(struct run *run, enum tree_end how);
/* It has taken long enough: what is there is taken, and the run ends. */
void run_end_drain(struct run *run, enum drain_end how);
/* Output is drained: writes the last facts. The run has ended. */
void run_settle(struct run *run, enum drain_end how);
/* Whether its guard may keep another run: it is as good as new. No child, no terminal, no directory, and an owner. */
bool run_leaves_guard_reusable(const struct run *run);
/* Writes down what has happened and wakes whoever waits for it. */
void run_announce(struct run *run);

#endif
