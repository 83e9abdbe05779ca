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

enum { PASSES = 40, PAUSE_MS = 50, TOKEN_MAX = 128, ENVIRON_MAX = 1 << 20 };

struct search {
    char token[TOKEN_MAX]; /* NAME=value */
    int found;
};

/* Whether the token is in the environment of the process. The part beyond our buffer is not looked at. */
static bool is_marked(const char *pid, const char *token) {
    static char environment[ENVIRON_MAX];
    char path[40];
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    const ssize_t length = read_small(AT_FDCWD, path, environment, sizeof environment);
    for (ssize_t at = 0; at < length; at += (ssize_t)strlen(environment + at) + 1) {
        if (strcmp(environment + at, token) == 0)
            return true;
    }
    return false;
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
    for (int pass = 0; pass < PASSES; pass++) {
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
