/*
 * Everything that descends from this guard.
 *
 * The guard is a child subreaper, so whatever is orphaned below it becomes its own child: no double fork, setsid or
 * cleared environment leads out. That gives one proof and one rule:
 *   - the tree is gone when, and only when, waitpid says ECHILD;
 *   - /proc/PID/task/TID/children is a source of candidates. It may miss a process that is just being forked, so whoever must
 *     reach everybody repeats until the proof holds.
 *
 * A PID we read may belong to a stranger by the time we signal it. A direct child cannot: it stays ours until we reap
 * it. For anyone else a pidfd is opened first and the parent compared again through it.
 */
#ifndef HOLDFAST_TREE_H
#define HOLDFAST_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reach {
    int reached;
    int refused;  /* EPERM: a process of another user */
    bool found_new; /* of tree_kill: the last walk still met somebody new */
};

struct tree_usage {
    uint64_t tasks;        /* processes and their threads, as the pids controller counts */
    uint64_t memory_bytes; /* resident less shared, added up: a page shared by fork counts for each */
    uint64_t cpu_ticks;
};

/* Whom to signal when there is no /proc. */
void tree_set_leader(int leader);
/*
 * A rung: the signal to every process, parents first, and SIGCONT after it, so that a stopped process can act on it. A
 * nested guard gets it (or SIGTERM, if it is one that guards do not take) but the tree below it does not: the nested
 * guard runs its own ladder there, and its record can say `parent`.
 */
struct reach tree_ask(int signal);
/* One signal to every process, nested runs included. */
struct reach tree_signal(int signal);
/* The signal only to those that have a handler for it. */
struct reach tree_warn(int signal);
/*
 * Stop the world: SIGSTOP until nobody new appears, taking away the dead between the walks, then SIGKILL to all. Returns
 * after some milliseconds in any case; to be repeated until ECHILD.
 */
struct reach tree_kill(void (*reap)(void *context), void *context);
/* Live processes; zombies that nobody has waited for yet are not counted. */
int tree_count(void);
struct tree_usage tree_usage(void);
/* One line per live process: "PID START_TICKS STATE WAIT_CHANNEL ERRNO\n". Returns how many there are in all. */
int tree_survivors(char *text, size_t size, size_t *length);

#endif
