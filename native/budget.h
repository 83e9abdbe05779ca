/* budget: records when a run has spent its memory, its processes or its output */
#ifndef HOLDFAST_BUDGET_H
#define HOLDFAST_BUDGET_H

#include "run.h"

#define SAMPLE_EVERY_NS 100000000u

/* Records what the kernel, or the guard's own sample, says of memory and processes. True when one budget is spent. */
bool run_record_budgets(struct run *run);
/* The same for the budgets of the whole session. True when they are spent, and this is the run that ends. */
bool run_record_session_budget(struct run *run);
void run_record_output_limit(struct run *run);

#endif
