/* phases: how a run gets from one phase to the next; the diagram is in run.h */
#ifndef HOLDFAST_PHASES_H
#define HOLDFAST_PHASES_H

#include "run.h"
#include "stop.h"

/* TIMER_LASTS, or the run is to end: the guard takes short turns on the processor, and watches the leader. */
void run_attend_closely(struct run *run);
/* Whether the ladder has not begun, so that a clock, a request or a limit may begin it: RUNNING or LINGERING. */
bool run_may_begin_stop(const struct run *run);
/* How far the end of the run has come. */
enum stage run_stage(const struct run *run);
/* The verdict is in the journal: puts the fence into the output and begins the ladder. */
void run_begin_stop(struct run *run);
/* The command never ran: there is no ladder to climb, only our own child to wait for. */
void run_begin_quiet_end(struct run *run);
/* The tree is gone, given up on, or left alone: only its output still matters. */
void run_begin_drain(struct run *run, enum tree_end how);
/* The time for the drain is over: reads what is there, and settles the run. */
void run_end_drain(struct run *run, enum drain_end how);
/* The output is drained: writes the last facts, up to END. */
void run_settle(struct run *run, enum drain_end how);
/* Whether the guard may keep another run: it has no child, no terminal and no directory, an owner, and is unchanged. */
bool run_leaves_guard_reusable(const struct run *run);
/* Writes the gathered facts, and wakes owners for those that they wait for, as soon as the file has them. */
void run_announce(struct run *run);
/* Wakes owners that wait for output, as soon as the file has some. */
void run_wake_readers(struct run *run);
/* Whether something waits until storage has answered: the start, a wake, the reading of output, the end. */
bool run_awaits_storage(const struct run *run);
/* Continues the writer, or starts another one if it has died. It may be our child then, but it is not of the tree. */
void run_revive_writer(struct run *run);
/* END is made: brings the record to its end, and waits for the file to have it. */
void run_end_record(struct run *run);
/* Ends a run whose whole record is in the file. */
void run_end_if_recorded(struct run *run);
/* Ends a run whose record storage does not take: gives the owners the rest, and leaves the file to the writer. */
void run_end_unrecorded(struct run *run);

#endif
