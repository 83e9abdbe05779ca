/* cgroup: the run's own leaf in the cgroup file system, and the budgets that the kernel keeps there */
#ifndef HOLDFAST_CGROUP_H
#define HOLDFAST_CGROUP_H

/*
 * The guard makes one leaf in cgroup v2 where there is a writable directory for it. When there are budgets and the v2
 * leaf has no controllers, it also makes a leaf in the v1 memory and pids hierarchies.
 *
 * The leaf is one more way to reach the tree. It never proves that the tree is gone: only waitpid's ECHILD does. The
 * leaf makes the kill atomic, and it lets others finish the job if this guard is killed.
 */

#include <stdbool.h>
#include <stdint.h>

#include "leaf_settings.h"
#include "spec.h"

struct group {
    int base; /* the directory that holds the leaf; -1: no group */
    int leaf;
};

struct cgroup {
    struct group unified; /* v2 */
    struct group memory;  /* a v1 leaf that keeps the memory budget */
    struct group pids;    /* a v1 leaf that keeps the process budget */
    bool controls; /* the v2 leaf keeps the budgets */
    bool entered_at_clone;
    struct leaf_settings settings; /* of the v2 leaf, when it was made */
    char name[96];
    char base_path[256]; /* the directory that holds the v2 leaf; empty: the leaf is not kept for the next run */
};

/* Sets up a run without a cgroup. Every function here accepts that. */
void cgroup_none(struct cgroup *cgroup);
/* Makes the leaves, or takes the leaf that was kept after the last run. */
void cgroup_make(struct cgroup *cgroup, const struct spec *spec);
/*
 * Puts the held child into the leaves that clone3 could not put it into. The guard gives up a leaf that the child
 * cannot enter: the report then says `subreaper`, and the guard samples the budgets.
 */
void cgroup_add_child(struct cgroup *cgroup, int pid);
bool cgroup_keeps_memory(const struct cgroup *cgroup);
bool cgroup_keeps_pids(const struct cgroup *cgroup);
/* How often in this run the kernel killed a process for memory, or refused a fork. */
uint64_t cgroup_oom_kills(const struct cgroup *cgroup);
uint64_t cgroup_refused_forks(const struct cgroup *cgroup);
/* CPU time of all processes that were ever in the v2 leaf or in a leaf of a nested run; 0: there is no leaf. */
uint64_t cgroup_cpu_us(const struct cgroup *cgroup);
/*
 * Sends SIGKILL to all members at once. Returns how many there were, or -1 when that is not possible here. The leaf is
 * not kept after that: from then on the kernel (seen on 6.18) kills every process that is cloned straight into it.
 */
int cgroup_kill(struct cgroup *cgroup);
/* Whether no process is in the v2 leaf or in a leaf of a nested run. Zombies do not count. */
bool cgroup_is_empty(const struct cgroup *cgroup);
/*
 * Lets no member of the leaf run until cgroup_thaw. Waits a moment for that: a process that cannot be frozen, because
 * it waits for a device, does not hold up the rest.
 */
void cgroup_freeze(const struct cgroup *cgroup);
void cgroup_thaw(const struct cgroup *cgroup);
/* Moves stragglers that the run leaves alone into the group above the leaf. */
void cgroup_move_members_out(const struct cgroup *cgroup);
/*
 * Keeps the leaf, with its name, for the next run of this guard. The tree is gone, so the leaf is empty. Three kinds of
 * leaf are not kept: a leaf with budgets, because its counts must begin anew with every run, a leaf that holds leaves of
 * nested runs, and a leaf whose settings the run has changed.
 */
void cgroup_keep(struct cgroup *cgroup, const struct spec *spec);
/* Removes the leaves, and what nested runs may have left in them. */
void cgroup_remove(struct cgroup *cgroup);

#endif
