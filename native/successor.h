/* successor: the run in which the stragglers of a finished command go on (stragglers policy `session`) */
#ifndef HOLDFAST_SUCCESSOR_H
#define HOLDFAST_SUCCESSOR_H

/*
 * The guard is the parent of the stragglers, and nobody can give them another one. So the same guard keeps a second run:
 *
 *   exit ──▶ STRAGGLERS on record ──▶ LINGERING ──PACKET_KEEP──▶ the first run drains and ends ──▶ the successor runs
 *                                        └── no packet in time, or no owner: the stragglers are ended
 *
 * The owner makes the directory of the successor, because that may wait for a disk, and sends its descriptors with
 * PACKET_KEEP. The successor has the tree, the cgroup, the pipes, the ladder, the budgets and the starter of the first
 * run. It has no owner, no deadline and no leader. Its command has ended when its last process has.
 */

#include <stdbool.h>

#include "spec.h"

struct request;
struct run;

enum { SUCCESSOR_ID_MAX = 64 };

struct successor {
    int files[KEEP_COUNT]; /* above GUARD_FD_FIRST_FREE; [KEEP_JOURNAL] is -1: there is no successor */
    int streams[2];        /* the pipes from which the stragglers are read; -1: at their end */
    char run_id[SUCCESSOR_ID_MAX + 1];
};

void successor_none(struct successor *successor);
/* PACKET_KEEP: the stragglers go on. Returns 0 or an errno for the owner, and closes what came with a refused packet. */
int successor_take(struct run *run, const struct request *request);
/* The first run has ended: makes `run` the successor, and starts it. False: it cannot be kept, and its tree is ended. */
bool successor_begin(struct run *run);
/* Kills the stragglers of a run whose record has ended. Returns when they are gone, or after kill-wait. */
void successor_end_tree(struct run *run);

#endif
