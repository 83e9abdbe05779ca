/*
 * The run's own cgroup: one leaf in cgroup v2 where a writable place was found, and, when there are budgets to keep and
 * the v2 leaf has no controllers, a leaf in the v1 memory and pids hierarchies.
 *
 * The leaf is one more way to reach the tree, never the proof that it is gone: that is waitpid's ECHILD. It makes the
 * kill atomic, and it lets others finish the job should this guard be killed.
 */
#ifndef HOLDFAST_CGROUP_H
#define HOLDFAST_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "spec.h"

struct group {
    int base; /* -1: there is none */
    int leaf;
};

struct cgroup {
    struct group unified; /* v2 */
    struct group memory;  /* where the memory budget is kept: a v1 leaf */
    struct group pids;
    bool controls; /* the v2 leaf keeps the budgets */
    bool entered_at_clone;
    char name[96];
    char base_path[256]; /* where the leaf is; empty: not to be kept */
};

/* No cgroup at all: what everything else here copes with. */
void cgroup_none(struct cgroup *cgroup);
/* Makes the leaves, or takes the one that was kept. */
void cgroup_make(struct cgroup *cgroup, const struct spec *spec);
/*
 * Puts the held child into what clone3 could not put it into. A leaf that it cannot enter is given up: the report then
 * says `subreaper`, and budgets are sampled.
 */
void cgroup_add_child(struct cgroup *cgroup, int pid);
bool cgroup_keeps_memory(const struct cgroup *cgroup);
bool cgroup_keeps_pids(const struct cgroup *cgroup);
/* How often the kernel killed for memory, or refused a fork, in this run. */
uint64_t cgroup_oom_kills(const struct cgroup *cgroup);
uint64_t cgroup_refused_forks(const struct cgroup *cgroup);
/*
 * SIGKILL to every member at once; returns how many there were. -1 when that cannot be done here. The leaf is not kept after
 * that: from then on the kernel (seen on 6.18) kills whatever is cloned straight into it.
 */
int cgroup_kill(struct cgroup *cgroup);
/* Stragglers that are to be left alone go where the guard itself is. */
void cgroup_move_members_out(const struct cgroup *cgroup);
/*
 * A guard that keeps one run after another keeps its leaf, too: the tree is gone, so it is empty. Not one with budgets,
 * whose counts begin anew with every run, nor one with leaves of nested runs inside. The next one has the same name.
 */
void cgroup_keep(struct cgroup *cgroup, const struct spec *spec);
/* Removes the leaves, with what nested runs may have left inside. */
void cgroup_remove(struct cgroup *cgroup);

#endif
