/* takeover: the end of a run whose guard is dead, by its sentinel */
#ifndef HOLDFAST_TAKEOVER_H
#define HOLDFAST_TAKEOVER_H

/*
 * The sentinel goes on with the loop of the guard, on the guard's own `struct run`. The guard may have died between any
 * two instructions. So nothing here relies on more than single values: the journal is brought to a whole frame first
 * (journal_take_over), the phase says which steps are left, and a step that the guard had begun is done again. Doing it
 * again is harmless: signals, closing, TREE and DRAINED may come twice.
 *
 * The command dies with its guard (parent-death signal), so there is no grace: the takeover begins with the last rung.
 *
 * What decides the outcome: a fact that the guard recorded before; else the exit of a command that ended by itself, or
 * the deadline, if it has passed; else GUARD_LOST.
 */

#include "frame.h"
#include "run.h"

/* Ends the run, if there is one. Returns the exit code of the sentinel. */
int takeover(struct run *run, int signals, const struct fact_guard_lost *lost);
/* The same by a process to which the processes of the run do not fall: `kill_tree` ends them, and says what is known. */
void takeover_as_stranger(struct run *run, int signals, const struct fact_guard_lost *lost,
                          enum tree_end (*kill_tree)(struct run *run));

#endif
