/* own_state: whether this guard still is as it was before its first command, which may have changed it */
#ifndef HOLDFAST_OWN_STATE_H
#define HOLDFAST_OWN_STATE_H

/*
 * A command may change its parent: `renice`, `prlimit`, `taskset`, `ionice` and `choom` take a PID, and so do cgroups
 * and the session keyring. A later command of this guard would inherit that. So the guard notes what it passes on before
 * it releases its first command, and looks again after each run. A guard that was changed takes no more runs.
 *
 * What only a process itself can change (credentials, namespaces, directories, filters) is not looked at. A command that
 * may trace its guard can do anything to it, and to its owner; this is not a sandbox.
 */

#include <stdbool.h>

/* Notes what a command inherits from this guard, once. */
void own_state_note(void);
/* False: something has changed since then. Before the first command there was nobody to change it. */
bool own_state_is_as_noted(void);

#endif
