/*
 * A run whose command is in a container: what its agent says, and what its silence means, in each phase. The way there is
 * inside.h; how any run goes on and ends is run.c's.
 */
#ifndef HOLDFAST_CONTAINER_H
#define HOLDFAST_CONTAINER_H

struct run;

/* The second half of run_reap for such a run: draws the conclusions. */
void container_reap(struct run *run);
/* TIMER_INSIDE: something that should have been said was not. */
void container_overdue(struct run *run);
/* TIMER_KILL_WAIT: nothing more can be done. */
void container_give_up(struct run *run);
/* Ends the runtime's clients on this side. */
void container_kill_clients(struct run *run);

#endif
