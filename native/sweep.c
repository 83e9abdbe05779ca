/* sweep: the last resort in a container, which kills every process that carries the run's token */
#include "sweep.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "procfs.h"

enum { PASSES = 40, PAUSE_MS = 50, TOKEN_MAX = 128, PIECE = 1 << 16 };

struct search {
    char token[TOKEN_MAX]; /* NAME=value */
    int found;
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
static bool is_marked(const char *pid, const char *token) {
    static char piece[PIECE];
    struct comparison so_far = {0};
    char path[40];
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool found = false;
    ssize_t got = fd < 0 ? 0 : 1;
    while (got > 0 && !found) {
        got = read(fd, piece, sizeof piece);
        found = compare(&so_far, piece, got, token);
    }
    if (fd >= 0)
        close(fd);
    return found;
}

/* Kills a process that carries the token. The pidfd is opened before the second check, so it is the checked process. */
static void kill_if_marked(const char *name, bool is_directory, void *context) {
    struct search *search = context;
    const int pid = (int)strtol(name, NULL, 10);
    if (!is_directory || pid <= 1 || pid == getpid() || strlen(name) > 10 || !is_marked(name, search->token))
        return;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return;
    if (is_marked(name, search->token)) {
        search->found++;
        syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    }
    close(fd);
}

int sweep(const char *run_id) {
    struct search search;
    snprintf(search.token, sizeof search.token, "HOLDFAST_RUN_ID=%s", run_id);
    for (int pass = 0; pass < PASSES && proc_is_ours(); pass++) {
        int processes = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (processes < 0)
            return 1;
        search.found = 0;
        each_entry(processes, kill_if_marked, &search);
        close(processes);
        if (search.found == 0)
            return 0;
        poll(NULL, 0, PAUSE_MS); /* the dead have no environment: a process that is found again is alive */
    }
    return 1;
}
