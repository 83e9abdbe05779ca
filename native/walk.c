/* walk: lists the processes of the tree, in parts if need be, and signals one of them without hitting a stranger */
#include "walk.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "procfs.h"
#include "tree.h"

enum { FIRST_ROOM = 4096 };
#define READ_NS 250000000u        /* how long the children of one process may take to read */
#define HURRIED_READ_NS 20000000u /* the same for a walk that acts on each process at once, and is repeated */

static pid_t leader;            /* the process that we know without /proc */
static pid_t spared; /* a child of ours that is no process of the run; 0: none */
static pid_t killed_guard;      /* 0: there is none, and the leader is a child of ours */
static bool is_outside;         /* the tree is not our own */
static struct walk outside;     /* every process outside that we have met */

void walk_set_leader(pid_t pid) { leader = pid; }

void walk_spare(pid_t pid) { spared = pid; }

void walk_set_killed_guard(pid_t pid) { killed_guard = pid; }

/* ── the list ─────────────────────────────────────────────────────────────────────────────────────────────────── */

static struct process *list_of(struct walk *walk) { return walk->room == 0 ? walk->few : walk->many; }

const struct process *walk_found(const struct walk *walk, size_t index) {
    return walk->room == 0 ? &walk->few[index] : &walk->many[index];
}

static bool has_room(struct walk *walk) {
    if (walk->count < (walk->room == 0 ? WALK_FEW : walk->room))
        return true;
    const size_t more = walk->room == 0 ? FIRST_ROOM : walk->room * 2, size = sizeof walk->many[0];
    void *larger;
    if (walk->room == 0)
        larger = mmap(NULL, more * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else
        larger = mremap(walk->many, walk->room * size, more * size, MREMAP_MAYMOVE);
    if (larger == MAP_FAILED)
        return false;
    if (walk->room == 0)
        memcpy(larger, walk->few, sizeof walk->few);
    walk->many = larger;
    walk->room = more;
    return true;
}

static bool append(struct walk *walk, const struct process *process) {
    if (!has_room(walk))
        return false;
    list_of(walk)[walk->count++] = *process;
    return true;
}

void walk_forget(struct walk *walk) {
    if (walk->room > 0)
        munmap(walk->many, walk->room * sizeof walk->many[0]);
    walk->room = walk->count = walk->next = 0;
    walk->is_under_way = false;
}

/* ── processes outside ────────────────────────────────────────────────────────────────────────────────────────── */

void walk_set_outside(pid_t root, uint64_t start_ticks) {
    is_outside = true;
    walk_forget(&outside);
    append(&outside, &(struct process){root, 0, false, start_ticks});
}

static bool is_known_outside(pid_t pid) {
    for (size_t i = 0; i < outside.count; i++) {
        if (walk_found(&outside, i)->pid == pid)
            return true;
    }
    return false;
}

/* Forgets the processes outside that have ended, and lists the others. */
static void list_known_outside(struct walk *walk) {
    struct process_stat status;
    struct process *known = list_of(&outside);
    size_t kept = 0;
    for (size_t i = 0; i < outside.count; i++) {
        if (!read_stat(known[i].pid, &status) || status.start_ticks != known[i].start_ticks || is_dead(&status))
            continue;
        known[kept++] = known[i];
        if (append(walk, &known[i]) && walk->met != NULL)
            walk->met(walk, &known[i]);
    }
    outside.count = kept;
}

static bool is_new_outside(struct process *found) {
    struct process_stat status;
    if (is_known_outside(found->pid) || !read_stat(found->pid, &status) || status.parent != found->parent)
        return false;
    found->start_ticks = status.start_ticks;
    return append(&outside, found);
}

/* ── children ─────────────────────────────────────────────────────────────────────────────────────────────────── */

static void add(struct walk *walk, pid_t pid, pid_t parent) {
    struct process found = {pid, parent, false, 0};
    if (pid == spared)
        return;
    if (is_outside && !is_new_outside(&found))
        return;
    /* Here and not after the walk: by then a process that forks and exits every 300 us would be gone. */
    if (walk->met != NULL)
        walk->met(walk, &found);
    append(walk, &found);
}

/*
 * Who races with whom: a process of the list ends, its parent reaps it, and a stranger gets its PID before we read its
 * children. What would go wrong: we would list, and signal, the children of the stranger. Why this is safe: the open
 * file stands for the process that had the PID when we opened it. If after that the PID still has the parent that we
 * know, the file is that of our process, or of one that is gone and has no children.
 */
static bool is_still_ours(const struct process *process) {
    struct process_stat status;
    return process->pid == getpid() || is_outside ||
           (read_stat(process->pid, &status) && (status.parent == process->parent || status.parent == getpid()));
}

/*
 * The file is a row of decimal PIDs, each followed by a space. It may be longer than our buffer. It may also grow as
 * fast as we read it, because new children come at its end: then we stop at some time. False: unreadable.
 */
static bool add_children_of_thread(struct walk *walk, const struct process *process, const char *thread) {
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%s/children", process->pid, thread);
    int fd = proc_is_ours() ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return false;
    pid_t child = 0;
    ssize_t got = read(fd, text, sizeof text);
    if (got > 0 && !is_still_ours(process))
        got = 0;
    const uint64_t until = clock_now() + (walk->met != NULL ? HURRIED_READ_NS : READ_NS);
    for (; got > 0; got = clock_now() < until ? read(fd, text, sizeof text) : 0) {
        for (ssize_t i = 0; i < got; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                child = child * 10 + (text[i] - '0');
            } else if (child != 0) {
                add(walk, child, process->pid);
                child = 0;
            }
        }
    }
    close(fd);
    return true;
}

struct threads {
    struct walk *walk;
    const struct process *process;
};

static void add_children_of_entry(const char *name, bool is_directory, void *context) {
    const struct threads *threads = context;
    if (is_directory && strlen(name) < 16)
        add_children_of_thread(threads->walk, threads->process, name);
}

/*
 * A kernel without the files of children (CONFIG_PROC_CHILDREN is not set): one look at all processes, and their
 * parents, takes their place. It is slower, and misses more of what is forked meanwhile; the proof stays ECHILD.
 */
static struct walk census;
static bool takes_census;

static void count_process(const char *name, bool is_directory, void *context) {
    struct process_stat status;
    const pid_t pid = (pid_t)strtol(name, NULL, 10);
    (void)context;
    if (is_directory && pid > 0 && read_stat(pid, &status))
        append(&census, &(struct process){pid, status.parent, false, 0});
}

static bool take_census(void) {
    struct process_stat self;
    census.count = 0;
    int processes = read_stat(getpid(), &self) ? open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (processes < 0)
        return false;
    each_entry(processes, count_process, NULL);
    close(processes);
    return true;
}

static void add_children_of_census(struct walk *walk, const struct process *process) {
    for (size_t i = 0; i < census.count; i++) {
        const struct process *found = walk_found(&census, i);
        if (found->parent == process->pid)
            add(walk, found->pid, found->parent);
    }
}

static void add_children(struct walk *walk, const struct process *process) {
    if (takes_census) {
        add_children_of_census(walk, process);
        return;
    }
    char path[40];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/task", process->pid);
    if (!proc_is_ours() || stat(path, &status) < 0)
        return;
    if (status.st_nlink == 3) { /* ".", ".." and the one thread */
        snprintf(path, sizeof path, "%d", process->pid);
        add_children_of_thread(walk, process, path);
        return;
    }
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return;
    each_entry(directory, add_children_of_entry, &(struct threads){walk, process});
    close(directory);
}

/* Whether this is a dead child of ours, which has no children. To ask waitid is far cheaper than to look at /proc. */
static bool is_our_zombie(const struct process *process) {
    siginfo_t info = {.si_pid = 0};
    return process->parent == getpid() &&
           waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == process->pid;
}

static bool is_our_child(pid_t pid) {
    siginfo_t info;
    return pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void list_our_children(struct walk *walk) {
    char self[16];
    const struct process us = {.pid = getpid()};
    snprintf(self, sizeof self, "%d", us.pid);
    const bool is_read = add_children_of_thread(walk, &us, self);
    takes_census = !is_read && take_census();
    if (takes_census)
        add_children_of_census(walk, &us);
    else if (!is_read && is_our_child(leader))
        add(walk, leader, us.pid); /* no /proc of ours: at least the process that we know; nothing is claimed */
}

/* ── the walk ─────────────────────────────────────────────────────────────────────────────────────────────────── */

static void begin(struct walk *walk) {
    walk->is_under_way = true;
    walk->count = walk->next = 0;
    if (is_outside)
        list_known_outside(walk);
    else
        list_our_children(walk);
}

bool walk_on(struct walk *walk, uint64_t until) {
    walk->is_old = walk->is_under_way;
    if (!walk->is_under_way)
        begin(walk);
    for (size_t done = 1; walk->next < walk->count; walk->next++, done++) {
        if (done % WALK_BETWEEN_LOOKS == 0 && clock_now() >= until)
            return false;
        struct process process = *walk_found(walk, walk->next); /* a copy: the list may move */
        if (is_our_zombie(&process))
            continue;
        process.is_guard = !walk->passes_nested_guards && tree_is_guard(process.pid);
        list_of(walk)[walk->next].is_guard = process.is_guard;
        if (!process.is_guard)
            add_children(walk, &process);
    }
    walk->is_under_way = false;
    return true;
}

/* A process outside is known by its start time: it may get another parent at any time. */
static bool is_still(const struct process *process, const struct process_stat *status) {
    return is_outside ? status->start_ticks == process->start_ticks
                      : status->parent == process->parent || status->parent == getpid();
}

int walk_signal(const struct walk *walk, const struct process *process, int signal) {
    if (process->parent == getpid() && !walk->is_old && !is_outside)
        return kill(process->pid, signal);
    int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    if (fd < 0)
        return -1; /* it is gone, or no descriptor is free to make sure of it: never signal on a guess */
    struct process_stat status;
    int result = -1;
    if (read_stat(process->pid, &status) && is_still(process, &status))
        result = (int)syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
    else
        errno = ESRCH;
    int error = errno;
    close(fd);
    errno = error;
    return result;
}

/*
 * Who races with whom: a guard that was killed, and not yet died, with us, who take its tree over. It dies at its next
 * turn on the processor, and a tree that starves it puts that turn off; or it is frozen, and has none. Until then the
 * tree is below it and no child of ours. What would go wrong: we would not stop the tree that starves both of us. Why
 * this is safe: a killed guard reaps nobody, so its child keeps its number. Then the child falls to us. The guard keeps
 * its own number until we reap it.
 */
static bool leads_below_killed_guard(void) {
    struct process_stat status;
    return is_our_child(killed_guard) && read_stat(leader, &status) && status.parent == killed_guard;
}

/*
 * Signals the command's process group with one call, however many processes are in it, and also without /proc. While a
 * child of ours is in the group, dead or alive, no other group can have its number. Only processes of the same session
 * can be in it.
 */
void walk_signal_group(int signal) {
    siginfo_t info = {.si_pid = 0};
    if (leader <= 0 || is_outside)
        return;
    if (waitid(P_PGID, (id_t)leader, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || leads_below_killed_guard())
        kill(-leader, signal);
}
