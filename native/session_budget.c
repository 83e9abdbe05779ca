/* session_budget: adds up what the runs of a session use, and finds the run that ends when they use too much */
#include "session_budget.h"

#include <fcntl.h>
#include <unistd.h>

#include "clock.h"

#define ATTENTIVE_NS 1000000000u /* a guard that has not looked for so long is stopped or stuck: it cannot end its run */

/* The numbers of one resource in an entry and in the first entry. */
static uint64_t used(const struct session_entry *entry, enum limit what) {
    return what == LIMIT_SESSION_MEMORY ? entry->memory_bytes : entry->processes;
}

static struct flock byte_of(uint32_t place, short type) {
    return (struct flock){.l_type = type,
                          .l_whence = SEEK_SET,
                          .l_start = (off_t)(place * sizeof(struct session_entry)),
                          .l_len = 1};
}

static bool is_held(int table, uint32_t place) {
    struct flock lock = byte_of(place, F_WRLCK);
    return fcntl(table, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static bool set_lock(int table, short type) {
    struct flock lock = byte_of(0, type);
    return fcntl(table, F_OFD_SETLK, &lock) == 0;
}

static void write_own(const struct session_budget *budget, const struct session_entry *entry) {
    const off_t at = (off_t)(budget->place * sizeof *entry);
    if (pwrite(budget->table, entry, sizeof *entry, at) != (ssize_t)sizeof *entry)
        return; /* another process has changed the file: then there is no budget to keep */
}

struct sum {
    uint64_t used;
    bool we_use_most;
};

/* Adds up one resource. With `held_only`, entries of dead guards are left out: to know that takes a system call each. */
static struct sum add_up(const struct session_budget *budget, const struct session_entry *entries, enum limit what,
                         bool held_only) {
    struct sum sum = {0, true};
    const uint64_t now = clock_now(), ours = used(&entries[budget->place], what);
    for (uint32_t place = 1; place < SESSION_ENTRIES; place++) {
        const struct session_entry *entry = &entries[place];
        const uint64_t theirs = used(entry, what);
        if (theirs == 0 || entry->state == SESSION_ENDING)
            continue;
        if (held_only && place != budget->place && !is_held(budget->table, place))
            continue;
        sum.used += theirs;
        const bool is_attentive = entry->looked_ns + ATTENTIVE_NS > now;
        if (is_attentive && (theirs > ours || (theirs == ours && place > budget->place)))
            sum.we_use_most = false;
    }
    return sum;
}

static struct session_entry entries[SESSION_ENTRIES];

static bool read_table(const struct session_budget *budget) {
    return pread(budget->table, entries, sizeof entries, 0) == (ssize_t)sizeof entries;
}

/* Whether the sum of one resource is over its budget, and this is the run that ends. */
static bool is_over(const struct session_budget *budget, enum limit what, bool held_only,
                    struct session_excess *excess) {
    const uint64_t limit = used(&entries[0], what);
    if (limit == 0)
        return false;
    const struct sum sum = add_up(budget, entries, what, held_only);
    *excess = (struct session_excess){what, limit, sum.used};
    return sum.used > limit && sum.we_use_most;
}

static bool any_is_over(const struct session_budget *budget, bool held_only, struct session_excess *excess) {
    return is_over(budget, LIMIT_SESSION_MEMORY, held_only, excess) ||
           is_over(budget, LIMIT_SESSION_PROCESSES, held_only, excess);
}

struct session_budget session_budget_open(int table) {
    const off_t at = table < 0 ? -1 : lseek(table, 0, SEEK_CUR);
    const uint32_t place = at < 0 ? 0 : (uint32_t)(at / (off_t)sizeof(struct session_entry));
    const bool is_ours = place > 0 && place < SESSION_ENTRIES;
    return (struct session_budget){is_ours ? table : -1, place};
}

bool session_budget_exceeded(const struct session_budget *budget, const struct tree_usage *usage,
                             struct session_excess *excess) {
    struct session_entry own = {usage->memory_bytes, usage->tasks, clock_now(), SESSION_RUNNING};
    write_own(budget, &own);
    if (!read_table(budget) || !any_is_over(budget, false, excess) || !any_is_over(budget, true, excess))
        return false;
    /* Never waits: a guard that holds the lock has just decided, or is stopped. The next look is soon. */
    if (!set_lock(budget->table, F_WRLCK))
        return false;
    const bool ends = read_table(budget) && any_is_over(budget, true, excess);
    if (ends) {
        own.state = SESSION_ENDING;
        write_own(budget, &own);
    }
    set_lock(budget->table, F_UNLCK);
    return ends;
}

void session_budget_leave(const struct session_budget *budget) {
    const struct session_entry own = {0, 0, clock_now(), SESSION_ENDING};
    if (budget->table >= 0)
        write_own(budget, &own);
}
