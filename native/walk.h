/* walk: lists the processes of the tree, in parts if need be, and signals one of them without hitting a stranger */
#ifndef HOLDFAST_WALK_H
#define HOLDFAST_WALK_H

/*
 * A huge tree, or a guard that gets little of the processor, makes a walk long. So a walk has an end in time and can go
 * on later; in between, the guard looks at clocks and owners. The list grows with the tree. Without memory for that, a
 * walk lists what fits, and a caller that must reach every process walks again.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { WALK_FEW = 64, WALK_BETWEEN_LOOKS = 8 };

struct process {
    pid_t pid;
    pid_t parent;
    bool is_guard; /* of a nested run; known only when the walk stops there */
    uint64_t start_ticks; /* of a process outside; see walk_set_outside */
};

/* One walk through the tree: where it goes, what it does on the way, what it has found. All zeros is a fresh one. */
struct walk {
    bool passes_nested_guards; /* goes on below the guard of a nested run */
    void (*met)(struct walk *walk, const struct process *process); /* called for each process as soon as it is found */
    bool is_under_way;
    bool is_old;       /* the guard may have reaped since: a PID of the list may be a stranger's by now */
    size_t next;       /* the first process whose children are not listed yet */
    size_t count;
    size_t room;       /* 0: `few` is the list */
    struct process *many;
    struct process few[WALK_FEW];
};

/* The process to list when there is no /proc, and the number of the command's process group. */
void walk_set_leader(pid_t leader);
/* This child of ours is no process of the run: no walk meets it. */
void walk_spare(pid_t pid);
/* This child of ours is the guard, which was killed. It may need a turn on the processor before it is dead. */
void walk_set_killed_guard(pid_t pid);
/* As tree_set_outside. */
void walk_set_outside(pid_t root, uint64_t start_ticks);

/*
 * Begins the walk, or goes on with it. Parents come before their children. True when the whole tree is listed; false
 * when it is `until` and some processes have been looked at.
 */
bool walk_on(struct walk *walk, uint64_t until);
const struct process *walk_found(const struct walk *walk, size_t index);
/* Gives the memory of the list back. */
void walk_forget(struct walk *walk);
/* Signals a process of the list, if it still is that process. Returns 0, or -1 with errno. */
int walk_signal(const struct walk *walk, const struct process *process, int signal);
/* Signals the command's process group, if a child of ours, or of the killed guard, is in it. */
void walk_signal_group(int signal);

#endif
