/* sweep: the last resort, which kills every process that carries the run's token */
#ifndef HOLDFAST_SWEEP_H
#define HOLDFAST_SWEEP_H

/*
 * The sweep is for a run whose guard and sentinel, or whose agent in a container, was killed. Then nobody knows which
 * processes descend from the command. The sweep finds only processes that kept the token in their environment. So the
 * tree is `unknown` afterwards, never `gone`.
 *
 * An environment lies in the memory of its process. To read it, the kernel takes the lock of that memory, and a process
 * that maps a file of a file system which does not answer holds that lock for as long as it likes. Only SIGKILL ends
 * the wait. So a process of its own, the reader, looks at environments. A reader that hangs is killed, and the next one
 * goes on behind the process that it hung at.
 */

#include <stdbool.h>
#include <stdint.h>

/*
 * `token`: NAME=value, see spec_token. Repeats until a pass finds nobody, and returns 0. Gives up at `until`, or when some process could not be looked at,
 * and returns 1, but not before the third pass. Says if there were any.
 */
int sweep(const char *token, uint64_t until, bool *found_any);

#endif
