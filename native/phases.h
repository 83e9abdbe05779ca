/*
 * How a run gets from one phase to the next: the steps of run.c that container.c takes, too. The diagram is in run.h.
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
/* Records that it could not be started, and ends it quietly. */
void run_spawn_failed(struct run *run, const struct fact_spawn_failed *failure);
/* Records how the command ended, and before it what ended it. */
void run_record_exited(struct run *run, const struct fact_exited *exited);

#endif
