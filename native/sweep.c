/* sweep: the last resort, which kills every process that carries the run's token */
#include "sweep.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "procfs.h"
#include "shared_memory.h"
#include "spec.h"

enum { LEAST_PASSES = 3, PAUSE_MS = 50, LOOK_MS = 2, PIECE = 1 << 16 };
#define STUCK_NS 500000000u /* how long a reader may look at one process */
#define FIRST_NS 500000000u /* how long the first pass may take at least */

/* In memory that the reader shares with the process that it reads for. */
struct search {
    char token[SPEC_TOKEN_SIZE]; /* NAME=value */
    pid_t owner;           /* the process that sweeps: it may carry the token itself */
    _Atomic int found;
    _Atomic int at; /* the process that is being looked at */
    _Atomic unsigned steps; /* how many pieces were read so far: a reader that hangs makes none */
    int after;      /* the reader begins behind this one */
};

/* A comparison of one variable after another with the token, which may be cut into pieces anywhere. */
struct comparison {
    size_t equal; /* how many bytes of this variable are those of the token */
    bool differs;
};

/* True when a variable that ends in this piece is the token. */
static bool compare(struct comparison *so_far, const char *piece, ssize_t length, const char *token) {
    for (ssize_t i = 0; i < length; i++) {
        if (piece[i] == '\0') {
            if (!so_far->differs && token[so_far->equal] == '\0')
                return true;
            *so_far = (struct comparison){0};
        } else if (so_far->differs || token[so_far->equal] != piece[i]) {
            so_far->differs = true;
        } else {
            so_far->equal++;
        }
    }
    return false;
}

/* Whether the token is in the environment of the process, however long that is: it may hold six megabytes. */
static bool is_marked(const char *pid, struct search *search) {
    static char piece[PIECE];
    struct comparison so_far = {0};
    char path[40];
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool found = false;
    ssize_t got = fd < 0 ? 0 : 1;
    while (got > 0 && !found) {
        got = read(fd, piece, sizeof piece);
        atomic_fetch_add(&search->steps, 1);
        found = compare(&so_far, piece, got, search->token);
    }
    if (fd >= 0)
        close(fd);
    return found;
}

/* Kills a process that carries the token. The pidfd is opened before the second check, so it is the checked process. */
static void kill_if_marked(const char *name, bool is_directory, void *context) {
    struct search *search = context;
    const int pid = (int)strtol(name, NULL, 10);
    if (!is_directory || pid <= 1 || pid <= search->after || pid == search->owner || strlen(name) > 10)
        return;
    atomic_store(&search->at, pid);
    if (!is_marked(name, search))
        return;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return;
    if (is_marked(name, search)) {
        atomic_fetch_add(&search->found, 1);
        syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    }
    close(fd);
}

/* ── the reader ───────────────────────────────────────────────────────────────────────────────────────────────── */

static _Noreturn void read_all(struct search *search) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int processes = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (processes < 0)
        _exit(1);
    each_entry(processes, kill_if_marked, search);
    _exit(0);
}

/* Waits for the reader as long as it goes on. True: it has looked at every process. */
static bool reader_ends(pid_t reader, const struct search *search) {
    int status;
    unsigned steps = 0;
    for (uint64_t stuck_at = 0;;) {
        const pid_t ended = waitpid(reader, &status, WNOHANG);
        if (ended != 0)
            return ended == reader && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        const uint64_t now = clock_now();
        const unsigned now_steps = atomic_load(&search->steps);
        if (now_steps != steps || stuck_at == 0)
            stuck_at = now + STUCK_NS;
        else if (now >= stuck_at)
            return false;
        steps = now_steps;
        poll(NULL, 0, LOOK_MS);
    }
}

/* The wait that a reader hangs in ends with SIGKILL, but nothing here relies on that. */
static void end_reader(pid_t reader) {
    const uint64_t until = clock_now() + STUCK_NS;
    kill(reader, SIGKILL);
    while (waitpid(reader, NULL, WNOHANG) == 0 && clock_now() < until)
        poll(NULL, 0, LOOK_MS);
}

/* One pass, by as many readers as it takes. False: some process was not looked at. */
static bool look_at_all(struct search *search, uint64_t until) {
    bool whole = true;
    search->after = 0;
    for (;;) {
        const pid_t reader = fork();
        if (reader == 0)
            read_all(search);
        if (reader > 0 && reader_ends(reader, search))
            return whole;
        if (reader > 0)
            end_reader(reader);
        if (clock_now() >= until)
            return false;
        if (reader > 0)
            search->after = atomic_load(&search->at); /* this one kept its reader waiting, or killed it */
        else
            poll(NULL, 0, PAUSE_MS); /* no process is free */
        whole = reader < 0 && whole;
    }
}

int sweep(const char *token, uint64_t until, bool *found_any) {
    struct search *search = shared_memory(sizeof *search);
    const uint64_t first_until = clock_now() + FIRST_NS;
    if (search == NULL || !proc_is_ours())
        return 1;
    snprintf(search->token, sizeof search->token, "%s", token);
    search->owner = getpid();
    until = until > first_until ? until : first_until;
    for (int pass = 1;; pass++) {
        atomic_store(&search->found, 0);
        const bool whole = look_at_all(search, until);
        *found_any = *found_any || atomic_load(&search->found) > 0;
        if (atomic_load(&search->found) == 0)
            return whole ? 0 : 1;
        if (pass >= LEAST_PASSES && clock_now() >= until)
            return 1;
        poll(NULL, 0, PAUSE_MS); /* the dead have no environment: a process that is found again is alive */
    }
}
