/* tree: every process that descends from this guard: listing, signalling, killing, counting */
#include "tree.h"

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

enum { LIST_MAX = 8192, PID_MAX = 1 << 22 };
#define KILL_SLICE_NS 20000000u /* while it kills, the guard looks at clocks and owners this often */

struct process {
    pid_t pid;
    pid_t parent;
    bool is_guard; /* of a nested run; known only when the walk stops there */
    uint64_t start_ticks; /* of a process outside; see tree_set_outside */
};

/* Untouched pages of these cost nothing. A tree that is larger than the list takes several passes. */
static struct process list[LIST_MAX];
static size_t listed;
static pid_t leader; /* the process that we know without /proc */
static bool is_outside; /* the tree is not our own */
static unsigned char seen[PID_MAX / 8] __attribute__((aligned(4096)));

/* One walk through the tree: where it goes, what it does on the way, and what it found. */
struct walk {
    bool passes_nested_guards; /* goes on below the guard of a nested run */
    bool stops_the_new;        /* sends SIGSTOP to each process that no such walk has met before */
    size_t newly_stopped;
};

static int send_checked(const struct process *process, int signal);
static bool is_new(pid_t pid);

static bool is_listed(pid_t pid) {
    for (size_t i = 0; i < listed; i++) {
        if (list[i].pid == pid)
            return true;
    }
    return false;
}

static void add(struct walk *walk, pid_t pid, pid_t parent) {
    struct process found = {pid, parent, false, 0};
    struct process_stat status;
    if (is_outside) {
        if (is_listed(pid) || !read_stat(pid, &status) || status.parent != parent)
            return;
        found.start_ticks = status.start_ticks;
    }
    /* Here and not after the walk: by then a process that forks and exits every 300 us would be gone. */
    if (walk->stops_the_new && is_new(pid)) {
        send_checked(&found, SIGSTOP);
        walk->newly_stopped++;
    }
    if (listed < LIST_MAX)
        list[listed++] = found;
}

/* The file is a row of decimal PIDs, each followed by a space. It may be longer than our buffer. False: unreadable. */
static bool add_children_of_thread(struct walk *walk, pid_t pid, const char *thread) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/task/%s/children", pid, thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    pid_t child = 0;
    ssize_t got;
    while ((got = read(fd, text, sizeof text)) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                child = child * 10 + (text[i] - '0');
            } else if (child != 0) {
                add(walk, child, pid);
                child = 0;
            }
        }
    }
    close(fd);
    return true;
}

struct threads {
    struct walk *walk;
    pid_t pid;
};

static void add_children_of_entry(const char *name, bool is_directory, void *context) {
    const struct threads *threads = context;
    if (is_directory && strlen(name) < 16)
        add_children_of_thread(threads->walk, threads->pid, name);
}

static void add_children(struct walk *walk, pid_t pid) {
    char path[40];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    if (stat(path, &status) < 0)
        return;
    if (status.st_nlink == 3) { /* ".", ".." and the one thread */
        snprintf(path, sizeof path, "%d", pid);
        add_children_of_thread(walk, pid, path);
        return;
    }
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return;
    each_entry(directory, add_children_of_entry, &(struct threads){walk, pid});
    close(directory);
}

bool tree_is_guard(pid_t pid) { return pid > 0 && runs_our_program(pid); }

/* Whether this is a dead child of ours, which has no children. To ask waitid is far cheaper than to look at /proc. */
static bool is_our_zombie(const struct process *process) {
    siginfo_t info = {.si_pid = 0};
    return process->parent == getpid() &&
           waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == process->pid;
}

/* Forgets the processes outside that have ended, and stops the others if the walk does that. */
static void keep_the_living(struct walk *walk) {
    struct process_stat status;
    size_t kept = 0;
    for (size_t i = 0; i < listed; i++) {
        if (!read_stat(list[i].pid, &status) || status.start_ticks != list[i].start_ticks || is_dead(&status))
            continue;
        list[kept++] = list[i];
        if (walk->stops_the_new && is_new(list[i].pid)) {
            send_checked(&list[kept - 1], SIGSTOP);
            walk->newly_stopped++;
        }
    }
    listed = kept;
}

static void list_our_children(struct walk *walk) {
    char self[16];
    listed = 0;
    snprintf(self, sizeof self, "%d", getpid());
    if (!add_children_of_thread(walk, getpid(), self) && leader > 0)
        add(walk, leader, getpid()); /* no /proc: at least the process that we know; nothing is claimed of others */
}

/* Breadth first, so parents come before their children. */
static void walk_tree(struct walk *walk) {
    if (is_outside)
        keep_the_living(walk);
    else
        list_our_children(walk);
    for (size_t i = 0; i < listed; i++) {
        if (is_our_zombie(&list[i]))
            continue;
        list[i].is_guard = !walk->passes_nested_guards && tree_is_guard(list[i].pid);
        if (!list[i].is_guard)
            add_children(walk, list[i].pid);
    }
}

static void list_tree(void) { walk_tree(&(struct walk){.passes_nested_guards = true}); }

static void list_down_to_nested_guards(void) { walk_tree(&(struct walk){.passes_nested_guards = false}); }

void tree_set_leader(int pid) { leader = pid; }

void tree_set_outside(int root, uint64_t start_ticks) {
    is_outside = true;
    list[0] = (struct process){root, 0, false, start_ticks};
    listed = 1;
}

/* A process outside is known by its start time: it may get another parent at any time. */
static bool is_still(const struct process *process, const struct process_stat *status) {
    return is_outside ? status->start_ticks == process->start_ticks
                      : status->parent == process->parent || status->parent == getpid();
}

static int send_checked(const struct process *process, int signal) {
    if (process->parent == getpid())
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

static void send_to(const struct process *process, int signal, struct reach *reach) {
    if (send_checked(process, signal) == 0)
        reach->reached++;
    else if (errno == EPERM)
        reach->refused++;
}

struct reach tree_ask(int signal) {
    struct reach reach = {0};
    const bool understood = signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
    list_down_to_nested_guards();
    for (size_t i = 0; i < listed; i++) {
        send_to(&list[i], list[i].is_guard && !understood ? SIGTERM : signal, &reach);
        send_checked(&list[i], SIGCONT);
    }
    return reach;
}

struct reach tree_signal(int signal) {
    struct reach reach = {0};
    list_tree();
    for (size_t i = 0; i < listed; i++)
        send_to(&list[i], signal, &reach);
    return reach;
}

struct reach tree_warn(int signal) {
    struct reach reach = {0};
    list_tree();
    for (size_t i = 0; i < listed; i++) {
        if (catches_signal(list[i].pid, signal))
            send_to(&list[i], signal, &reach);
    }
    return reach;
}

static bool is_new(pid_t pid) {
    unsigned char bit = (unsigned char)(1u << (pid % 8));
    if (pid <= 0 || pid >= PID_MAX || (seen[pid / 8] & bit) != 0)
        return false;
    seen[pid / 8] |= bit;
    return true;
}

/* True when there was a new process. */
static bool stop_the_new(void) {
    struct walk walk = {.passes_nested_guards = true, .stops_the_new = true};
    walk_tree(&walk);
    return walk.newly_stopped > 0;
}

struct reach tree_kill(void (*reap)(void *context), void *context) {
    struct reach reach = {0};
    const uint64_t until = clock_now() + KILL_SLICE_NS;
    /* The dead are reaped first: a storm of forks leaves thousands, and each walk would meet them all again. */
    do {
        reap(context);
        reach.found_new = stop_the_new();
    } while (reach.found_new && clock_now() < until);
    madvise(seen, sizeof seen, MADV_DONTNEED); /* zero again, and no longer resident */
    for (size_t i = 0; i < listed; i++)
        send_to(&list[i], SIGKILL, &reach);
    return reach;
}

int tree_count(void) {
    struct process_stat status;
    int count = 0;
    list_tree();
    for (size_t i = 0; i < listed; i++)
        count += read_stat(list[i].pid, &status) && !is_dead(&status);
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

struct tree_usage tree_usage(void) {
    struct tree_usage usage = {0};
    struct process_stat status;
    list_tree();
    for (size_t i = 0; i < listed; i++) {
        if (!read_stat(list[i].pid, &status))
            continue;
        usage.cpu_ticks += status.cpu_ticks; /* of the dead, too, until their parent reaps them and has it */
        if (is_dead(&status))
            continue;
        usage.tasks += (uint64_t)status.threads;
        usage.memory_bytes += private_memory(list[i].pid);
    }
    return usage;
}

int tree_survivors(char *text, size_t size, size_t *length) {
    struct process_stat status;
    char path[40], channel[64];
    int count = 0;
    *length = 0;
    list_tree();
    for (size_t i = 0; i < listed; i++) {
        if (!read_stat(list[i].pid, &status) || is_dead(&status))
            continue;
        count++;
        snprintf(path, sizeof path, "/proc/%d/wchan", list[i].pid);
        if (read_small(AT_FDCWD, path, channel, sizeof channel) <= 0 || strcmp(channel, "0") == 0)
            strcpy(channel, "-");
        int error = send_checked(&list[i], 0) == 0 ? 0 : errno;
        int line = snprintf(text + *length, size - *length, "%d %llu %c %s %d\n", list[i].pid,
                            (unsigned long long)status.start_ticks, status.state, channel, error);
        if (line > 0 && (size_t)line < size - *length)
            *length += (size_t)line;
    }
    return count;
}
