/*
 * How a run gets from one phase to the next: the steps of run.c that requests, clocks and containers take, too. The
 * diagram is in run.h.
 */
#ifndef HOLDFAST_PHASES_H
#define HOLDFAST_PHASES_H

#include "run.h"

/* Whether no fact has ended it yet, or only the command has ended and not its stragglers. */
bool run_is_deciding(const struct run *run);
void run_begin_stop(struct run *run);
/* The command never ran: nothing to ask for gracefully. */
void run_begin_quiet_end(struct run *run);
void run_begin_drain(struct run *run, enum tree_end how);
/* It has taken long enough: what is there is taken, and the run ends. */
void run_end_drain(struct run *run, enum drain_end how);
/* From now on clocks may end it: timing.c. */
void run_arm_clocks(struct run *run, uint64_t now);
/* Records what the kernel, or our own sample, says of the budgets. True when one is spent. */
bool run_record_budgets(struct run *run);
/* Records that it could not be started, and ends it quietly. */
void run_spawn_failed(struct run *run, const struct fact_spawn_failed *failure);
/* Records how the command ended, and before it what ended it. */
void run_record_exited(struct run *run, const struct fact_exited *exited);

#endif
