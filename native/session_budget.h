/* session_budget: adds up what the runs of a session use, and finds the run that ends when they use too much */
#ifndef HOLDFAST_SESSION_BUDGET_H
#define HOLDFAST_SESSION_BUDGET_H

/*
 * The guards of a session share a table in memory (a file of tmpfs, so that no read or write can wait for a disk). The
 * first entry has the budgets; every other entry belongs to one run. An entry is in use as long as its first byte is
 * locked: the owner locks it, and the guard inherits the lock with the descriptor. So a dead guard's entry is free.
 *
 * Each guard writes down what its own tree uses, and adds up the entries. When the sum is over a budget, the run that
 * uses most ends, and no other. Entries of runs that are ending already do not count.
 *
 * Who races with whom: two guards that both find the sum too large and themselves the largest, because each has a newer
 * number of its own than the other one knows. What would go wrong: both runs would end. Why this is safe: a guard
 * decides under the lock of the first entry, after it has read the table again, and says there that it ends. The test
 * is test_only_one_run_ends in tests/guard/test_session_budget.py.
 */

#include <stdbool.h>
#include <stdint.h>

#include "frame.h"
#include "tree.h"

struct session_budget {
    int table;     /* -1: the session of the run has no budget */
    uint32_t place; /* the entry of this run */
};

struct session_excess {
    enum limit what;
    uint64_t limit;
    uint64_t seen;
};

/* The table and our place in it, to which the owner has set the offset of the descriptor; -1: no table. */
struct session_budget session_budget_open(int table);
/* Writes down what this run uses. True when the session uses too much, and this is the run that ends. */
bool session_budget_exceeded(const struct session_budget *budget, const struct tree_usage *usage,
                             struct session_excess *excess);
/* This run is ending: its entry does not count any more. */
void session_budget_leave(const struct session_budget *budget);

#endif
