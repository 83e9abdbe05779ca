/* tree: every process that descends from this guard: signalling, killing, counting */
#ifndef HOLDFAST_TREE_H
#define HOLDFAST_TREE_H

/*
 * The guard is a child subreaper: a process that is orphaned below it becomes its own child. No double fork, setsid or
 * cleared environment leads out. That gives one proof and one rule:
 *   - the tree is gone when, and only when, waitpid says ECHILD;
 *   - /proc/PID/task/TID/children is a source of candidates. It may miss a process that is being forked. So a function
 *     that must reach every process repeats until the proof holds.
 *
 * A PID that we have read may belong to a stranger by the time we signal it. The PID of a direct child cannot: it
 * stays the child's until we reap it. For any other process we open a pidfd first, and then compare the parent again.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reach {
    int reached;
    int refused;    /* EPERM: a process of another user */
    bool found_new; /* of tree_kill: the last walk still found a new process, or is not over */
    bool is_whole;  /* of tree_kill: every process that was found has got SIGKILL */
};

struct tree_usage {
    uint64_t tasks;        /* processes and their threads, as the pids controller counts */
    uint64_t memory_bytes; /* resident less shared, added up: a page shared by fork counts for each process */
    uint64_t cpu_ticks;
    bool is_whole; /* the whole tree was seen: nothing was over its limit, and it took less than a second */
};

/* Whether this process is a guard, of the same build as ours. */
bool tree_is_guard(int pid);
/* The process to signal when there is no /proc, and the number of the command's process group. */
void tree_set_leader(int leader);
/* This child of ours is no process of the run: no walk meets it. */
void tree_spare(int pid);
/*
 * From now on the tree is that of a process which another program started (foreign.h), not our own. The list then
 * remembers every process it has met, by its start time, because an orphan of that tree becomes another process's
 * child, where no walk finds it. Whatever was orphaned before the first walk is not known.
 */
void tree_set_outside(int root, uint64_t start_ticks);
/*
 * Stops the world: sends SIGSTOP until no new process appears, and reaps the dead between the walks. Then it sends
 * SIGKILL to all. It returns after some milliseconds in any case, and the next call goes on where it was; the caller
 * repeats it until ECHILD.
 */
struct reach tree_kill(void (*reap)(void *context), void *context);
/*
 * Counts live processes. Zombies that nobody has waited for yet do not count. This and the next two look for a second
 * at most: of a tree that takes longer they tell what they have seen.
 */
int tree_count(void);
/* What the tree uses. It looks no further when a limit is exceeded; UINT64_MAX: no limit. */
struct tree_usage tree_usage(uint64_t most_tasks, uint64_t most_memory);
/* Writes a line per live process: "PID START_TICKS STATE WAIT_CHANNEL ERRNO\n". Returns how many there are in all. */
int tree_survivors(char *text, size_t size, size_t *length);

#endif
