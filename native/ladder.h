/* ladder: how a run's tree is ended: graceful signals first, SIGKILL last */
#ifndef HOLDFAST_LADDER_H
#define HOLDFAST_LADDER_H

/*
 * All of Holdfast has this one ladder. A rung sends its signal to every process of the tree, and then SIGCONT. The
 * grace of a rung is over when its wait has passed. The ladder is over when the tree is gone, not when the leader is.
 * The last rung is always SIGKILL. The guard repeats it until waitpid says ECHILD, or until kill-wait has passed and
 * the journal names the survivors.
 */

#include <stdbool.h>
#include <stdint.h>

struct run;

/* Climbs the next rung. Does nothing after the last one. */
void ladder_climb(struct run *run);
/*
 * Makes the signal that asks for the end, SIGINT or SIGHUP, the first rung, as if the command had got it itself. That
 * signal gets the first half of the grace, SIGTERM the other half. A ladder that the user gave stays as it is.
 */
void ladder_begin_with(struct run *run, int signal);
/* The next rung to climb is the last one. */
void ladder_skip_to_last(struct run *run);
/*
 * Climbs the last rung after `grace_ns` at the latest. False: the ladder gets there sooner as it is, and nothing
 * changes. For a ladder that is being climbed, and for one that begins next.
 */
bool ladder_shorten(struct run *run, uint64_t grace_ns);
void ladder_repeat_last(struct run *run);
/* Sends nothing: only waits, as the last rung does, for what has been killed already. */
void ladder_await_last(struct run *run);

#endif
