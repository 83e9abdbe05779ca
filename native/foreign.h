/* foreign: a run whose process another program started; the guard watches it and can end it, but is not its parent */
#ifndef HOLDFAST_FOREIGN_H
#define HOLDFAST_FOREIGN_H

/*
 * The guard holds a pidfd of the process, opened before it compared the start time: so the descriptor means the process
 * that was registered, never a later one with its PID. Three things are different from a command of our own:
 *   - The exit status belongs to the parent. The kernel tells it to a holder of a pidfd since Linux 6.15, once the
 *     parent has reaped. Without that answer the guard records VANISHED, and no exit code.
 *   - The descendants are known as far as /proc showed them when the guard looked, beginning with the first rung. A
 *     descendant that was orphaned before that is not known. So the tree is never called gone.
 *   - There is no output, no budget and no stdin.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "location.h"
#include "spec.h"

struct foreign {
    pid_t pid; /* 0: the run has a command of its own */
    uint64_t start_ticks;
    int process; /* pidfd; -1: none, or the process has ended */
    bool ended;  /* its end is on record */
};

/*
 * Opens the process that the spec names. False with errno: we may not watch or signal it. A process that has ended
 * since it was registered is no failure: the guard records that it did not see the end.
 */
bool foreign_open(struct foreign *foreign, const struct spec *spec);

extern const struct location foreign_location;

#endif
