/* tree: every process that descends from this guard: signalling, killing, counting */
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "procfs.h"
#include "walk.h"

enum { PID_MAX = 1 << 22 };
#define KILL_SLICE_NS 20000000u /* while it kills, the guard looks at clocks and owners this often */
#define LOOK_NS 1000000000u     /* a count or a sample of a huge tree takes at most this long */

bool tree_is_guard(pid_t pid) { return pid > 0 && runs_our_program(pid); }

void tree_set_leader(int pid) { walk_set_leader(pid); }

void tree_spare(int pid) { walk_spare(pid); }

void tree_set_outside(int root, uint64_t start_ticks) { walk_set_outside(root, start_ticks); }

/* ── the kill ─────────────────────────────────────────────────────────────────────────────────────────────────── */

static unsigned char seen[PID_MAX / 8] __attribute__((aligned(4096)));
static size_t newly_stopped;

static bool is_new(pid_t pid) {
    unsigned char bit = (unsigned char)(1u << (pid % 8));
    if (pid <= 0 || pid >= PID_MAX || (seen[pid / 8] & bit) != 0)
        return false;
    seen[pid / 8] |= bit;
    return true;
}

static void stop_if_new(struct walk *walk, const struct process *process) {
    if (!is_new(process->pid))
        return;
    walk_signal(walk, process, SIGSTOP);
    newly_stopped++;
}

static void send_to(const struct walk *walk, const struct process *process, int signal, struct reach *reach) {
    if (walk_signal(walk, process, signal) == 0)
        reach->reached++;
    else if (errno == EPERM)
        reach->refused++;
}

/* Sends SIGKILL to all of the list. False: it is time to look at clocks and owners, and the next call goes on. */
static bool kill_listed(struct walk *walk, size_t *sent, struct reach *reach) {
    const uint64_t until = clock_now() + KILL_SLICE_NS;
    for (size_t done = 1; *sent < walk->count; (*sent)++, done++) {
        if (done % WALK_BETWEEN_LOOKS == 0 && clock_now() >= until)
            return false;
        send_to(walk, walk_found(walk, *sent), SIGKILL, reach);
    }
    return true;
}

/* Stops the world. False: that is not done yet, and the next call goes on. */
static bool stop_all(struct walk *walk, struct reach *reach, void (*reap)(void *context), void *context) {
    const uint64_t until = clock_now() + KILL_SLICE_NS;
    do {
        if (!walk->is_under_way) {
            newly_stopped = 0;
            walk_signal_group(SIGSTOP);
            reap(context); /* a storm of forks leaves thousands of dead, and each walk would meet them all again */
        }
        if (!walk_on(walk, until))
            return false; /* nobody is killed before the whole tree has been stopped once */
        reach->found_new = newly_stopped > 0;
    } while (reach->found_new && clock_now() < until);
    madvise(seen, sizeof seen, MADV_DONTNEED); /* zero again, and no longer resident */
    return true;
}

struct reach tree_kill(void (*reap)(void *context), void *context) {
    static struct walk walk = {.passes_nested_guards = true, .met = stop_if_new};
    static struct reach reach;
    static bool is_stopped; /* the whole tree was, and `sent` of it have got SIGKILL */
    static size_t sent;
    walk.is_old = is_stopped;
    if (!is_stopped) {
        reach = (struct reach){.found_new = true};
        if (!stop_all(&walk, &reach, reap, context))
            return reach;
        sent = 0;
    }
    is_stopped = !kill_listed(&walk, &sent, &reach);
    if (is_stopped)
        return (struct reach){.found_new = true};
    walk_signal_group(SIGKILL);
    reach.is_whole = true;
    walk_forget(&walk);
    return reach;
}

/* ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef bool visitor(const struct walk *walk, const struct process *process, const struct process_stat *status,
                     void *context);

/*
 * Calls `visit` for each process, dead or alive, as the walk meets it, until `visit` has seen enough, but for a second
 * at most. False: there may be more.
 */
static bool each_process(visitor *visit, void *context) {
    struct walk walk = {.passes_nested_guards = true};
    const uint64_t until = clock_now() + LOOK_NS;
    struct process_stat status;
    bool whole = false, goes_on = true;
    for (size_t visited = 0; !whole && goes_on && clock_now() < until;) {
        whole = walk_on(&walk, 0); /* a few processes at a time */
        for (const size_t met = whole ? walk.count : walk.next; visited < met && goes_on; visited++) {
            const struct process *process = walk_found(&walk, visited);
            if (read_stat(process->pid, &status))
                goes_on = visit(&walk, process, &status, context);
        }
    }
    walk_forget(&walk);
    return whole && goes_on;
}

static bool count_one(const struct walk *walk, const struct process *process, const struct process_stat *status,
                      void *context) {
    (void)walk;
    (void)process;
    *(int *)context += !is_dead(status);
    return true;
}

int tree_count(void) {
    int count = 0;
    each_process(count_one, &count);
    return count;
}

static uint64_t private_memory(pid_t pid) {
    char path[40], text[128];
    unsigned long resident, shared;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    if (read_small(AT_FDCWD, path, text, sizeof text) <= 0 || sscanf(text, "%*u %lu %lu", &resident, &shared) != 2)
        return 0;
    return resident > shared ? (uint64_t)(resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

struct sample {
    struct tree_usage usage;
    uint64_t most_tasks;
    uint64_t most_memory;
};

static bool add_usage(const struct walk *walk, const struct process *process, const struct process_stat *status,
                      void *context) {
    struct sample *sample = context;
    (void)walk;
    sample->usage.cpu_ticks += status->cpu_ticks; /* of the dead, too, until their parent reaps them and has it */
    if (is_dead(status))
        return true;
    sample->usage.tasks += (uint64_t)status->threads;
    sample->usage.memory_bytes += private_memory(process->pid);
    return sample->usage.tasks <= sample->most_tasks && sample->usage.memory_bytes <= sample->most_memory;
}

struct tree_usage tree_usage(uint64_t most_tasks, uint64_t most_memory) {
    struct sample sample = {.most_tasks = most_tasks, .most_memory = most_memory};
    sample.usage.is_whole = each_process(add_usage, &sample);
    return sample.usage;
}

struct survivors {
    char *text;
    size_t size;
    size_t length;
    int count;
};

static bool add_survivor(const struct walk *walk, const struct process *process, const struct process_stat *status,
                         void *context) {
    struct survivors *survivors = context;
    char path[40], channel[64];
    if (is_dead(status))
        return true;
    survivors->count++;
    snprintf(path, sizeof path, "/proc/%d/wchan", process->pid);
    if (read_small(AT_FDCWD, path, channel, sizeof channel) <= 0 || strcmp(channel, "0") == 0)
        strcpy(channel, "-");
    const int error = walk_signal(walk, process, 0) == 0 ? 0 : errno;
    const size_t left = survivors->size - survivors->length;
    const int line = snprintf(survivors->text + survivors->length, left, "%d %llu %c %s %d\n", process->pid,
                              (unsigned long long)status->start_ticks, status->state, channel, error);
    if (line > 0 && (size_t)line < left)
        survivors->length += (size_t)line;
    return true;
}

int tree_survivors(char *text, size_t size, size_t *length) {
    struct survivors survivors = {.text = text, .size = size};
    each_process(add_survivor, &survivors);
    *length = survivors.length;
    return survivors.count;
}
