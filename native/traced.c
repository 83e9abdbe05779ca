/* traced: children under ptrace: tracees of our own, and an exit that a tracer hides */
#include "traced.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "procfs.h"

enum { FIELDS_BEFORE_STATUS = 48 }; /* of /proc/PID/stat, between the state and the exit status */

/* ── our own tracees ──────────────────────────────────────────────────────────────────────────────────────────── */

/* The SIGTRAP that the kernel sends to a tracee at its exec is not meant for it; any other signal is. */
static int meant_for(pid_t pid, int number) {
    siginfo_t info = {.si_code = 0};
    if (number != SIGTRAP || ptrace(PTRACE_GETSIGINFO, pid, NULL, &info) < 0)
        return number;
    return info.si_code == SI_USER && info.si_pid == pid ? 0 : number;
}

bool traced_let_go(pid_t pid, int wait_status) {
    if (!WIFSTOPPED(wait_status))
        return false;
    const long number = meant_for(pid, WSTOPSIG(wait_status));
    return ptrace(PTRACE_DETACH, pid, NULL, number) == 0; /* ESRCH: an ordinary stop */
}

/* ── the end that a tracer hides ──────────────────────────────────────────────────────────────────────────────── */

/* Whether /proc tells us the exit status of this zombie. It says 0 to a process that may not know it. */
static bool may_know(pid_t pid) {
    char path[40], target[2];
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    return readlink(path, target, sizeof target) < 0 && errno == ENOENT; /* EACCES: another user's */
}

static bool read_status(pid_t pid, int *wait_status) {
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (!proc_is_ours() || !may_know(pid) || read_small(AT_FDCWD, path, text, sizeof text) <= 0)
        return false;
    const char *at = strrchr(text, ')');
    if (at == NULL || strncmp(at, ") Z ", 4) != 0)
        return false;
    at += 4;
    for (int field = 0; field < FIELDS_BEFORE_STATUS && at != NULL; field++) {
        at = strchr(at, ' ');
        at += at != NULL;
    }
    if (at == NULL)
        return false;
    *wait_status = (int)strtol(at, NULL, 10);
    return true;
}

static bool has_ended(int process) {
    struct pollfd ended = {process, POLLIN, 0};
    return process >= 0 && poll(&ended, 1, 0) > 0;
}

/*
 * The order matters: the child may exit between the first wait4 and the look at its pidfd. The second wait4 comes after
 * an end that we have seen, so if it still reports nothing, a tracer hides that end.
 */
pid_t traced_wait(pid_t pid, int *process, int *wait_status, struct rusage *usage) {
    const int options = WNOHANG | WUNTRACED | WCONTINUED | __WALL;
    pid_t changed = wait4(pid, wait_status, options, usage);
    if (changed != 0 || !has_ended(*process))
        return changed;
    changed = wait4(pid, wait_status, options, usage);
    if (changed != 0)
        return changed;
    memset(usage, 0, sizeof *usage);
    close(*process);
    *process = -1;
    return read_status(pid, wait_status) ? pid : 0;
}
