#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

enum { KERNEL_SIGNALS = 64 };
#define TICK_NS 10000000u /* of /proc/PID/stat: a hundredth of a second, on every architecture there is a guard for */

static _Noreturn void fail(int hold, enum spawn_step step, int error) {
    struct fact_spawn_failed failure = {.step = (int32_t)step, .error = error};
    /* If the guard is gone there is nobody left to tell. */
    if (send(hold, &failure, sizeof failure, MSG_NOSIGNAL) < 0)
        _exit(126);
    _exit(127);
}

static const char *find_path(char *const *env) {
    for (; *env != NULL; env++) {
        if (strncmp(*env, "PATH=", 5) == 0)
            return *env + 5;
    }
    return DEFAULT_PATH;
}

/* execve says ENOENT both for a missing program and for a missing interpreter of an existing one. Tell them apart. */
static void try_exec(const char *file, const struct spec *spec, enum spawn_step *step) {
    execve(file, spec->argv, spec->env);
    int error = errno;
    if (error == ENOENT && access(file, F_OK) == 0)
        *step = STEP_INTERPRETER;
    errno = error;
}

static _Noreturn void exec_program(const struct spec *spec, int hold) {
    const char *name = spec->argv[0];
    enum spawn_step step = STEP_EXEC;
    if (strchr(name, '/') != NULL || name[0] == '\0') {
        try_exec(name, spec, &step);
        fail(hold, step, errno);
    }
    char file[4096];
    int error = ENOENT;
    const size_t name_length = strlen(name);
    for (const char *at = find_path(spec->env);; at++) {
        size_t length = strcspn(at, ":");
        if (length + name_length + 2 <= sizeof file) {
            memcpy(file, at, length);
            file[length] = '/';
            memcpy(file + length + (length > 0), name, name_length + 1); /* an empty entry is the working directory */
            try_exec(file, spec, &step);
            if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
                fail(hold, STEP_EXEC, errno);
            if (step == STEP_INTERPRETER)
                fail(hold, step, errno);
            if (errno == EACCES)
                error = EACCES;
        }
        at += length;
        if (*at == '\0')
            fail(hold, STEP_EXEC, error);
    }
}

struct disposition { /* the kernel's own layout; all zeros is SIG_DFL on every architecture */
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned char mask[8];
};

void spawn_reset_signals(void) {
    const struct disposition fresh = {0};
    for (int number = 1; number <= KERNEL_SIGNALS; number++) {
        struct disposition now = {0};
        if (syscall(SYS_rt_sigaction, number, NULL, &now, sizeof now.mask) == 0 && now.handler == SIG_IGN)
            syscall(SYS_rt_sigaction, number, &fresh, NULL, sizeof fresh.mask);
    }
}

static void unblock_signals(void) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become_command(const struct spec *spec, struct child_stdio stdio, int hold, pid_t guard) {
    /* Set from the guard's only thread: it fires when that thread, and so the guard, dies. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        fail(hold, STEP_SETUP, errno);
    if (getppid() != guard)
        _exit(126); /* the guard died before the line above */
    if (setpgid(0, 0) < 0)
        fail(hold, STEP_SETUP, errno);
    if (dup2(stdio.out, 1) < 0 || dup2(stdio.err, 2) < 0)
        fail(hold, STEP_STDIO, errno);
    char go;
    if (recv(hold, &go, 1, 0) != 1)
        _exit(126); /* never told to go on: the command does not run */
    unblock_signals();
    if (spec->cwd != NULL && chdir(spec->cwd) < 0)
        fail(hold, STEP_CHDIR, errno);
    exec_program(spec, hold);
}

/* fork(), straight into the cgroup where the kernel can: entering it later takes a lock that all forks share. */
static pid_t fork_into(struct cgroup *cgroup) {
    struct clone_args arguments = {.exit_signal = SIGCHLD};
    if (cgroup->unified.leaf >= 0) {
        arguments.flags = CLONE_INTO_CGROUP;
        arguments.cgroup = (uint64_t)cgroup->unified.leaf;
        cgroup->entered_at_clone = true;
        long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
        if (pid >= 0 || errno == EAGAIN || errno == ENOMEM)
            return (pid_t)pid;
        cgroup->entered_at_clone = false;
    }
    return fork();
}

bool spawn_held(struct spawned *spawned, const struct spec *spec, struct cgroup *cgroup, struct child_stdio stdio,
                struct fact_spawn_failed *failure) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        *failure = (struct fact_spawn_failed){STEP_SETUP, errno};
        return false;
    }
    pid_t guard = getpid();
    const uint64_t before = clock_boot() / TICK_NS;
    spawned->pid = fork_into(cgroup);
    if (spawned->pid == 0) {
        close(ends[0]);
        become_command(spec, stdio, ends[1], guard);
    }
    int error = errno;
    /* The kernel stamped the child in between, with the same clock: one tick on both sides of it is its tick, too. */
    spawned->start_ticks = clock_boot() / TICK_NS == before ? before : 0;
    close(ends[1]);
    if (spawned->pid < 0) {
        close(ends[0]);
        *failure = (struct fact_spawn_failed){STEP_FORK, error};
        return false;
    }
    cgroup_take(cgroup, spawned->pid);
    spawned->hold = ends[0];
    spawned->failed = false;
    return true;
}

bool spawn_release(const struct spawned *spawned) { return send(spawned->hold, "g", 1, MSG_NOSIGNAL) == 1; }

enum spawn_news spawn_poll(struct spawned *spawned, struct fact_spawn_failed *failure) {
    if (spawned->hold < 0)
        return SPAWN_RUNNING;
    ssize_t got = recv(spawned->hold, failure, sizeof *failure, MSG_DONTWAIT);
    if (got < 0 && errno == ECONNRESET) /* it failed before it read our go-ahead; what it said is behind this */
        got = recv(spawned->hold, failure, sizeof *failure, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return SPAWN_PENDING;
    close(spawned->hold);
    spawned->hold = -1;
    spawned->failed = got == (ssize_t)sizeof *failure;
    return spawned->failed ? SPAWN_FAILED : SPAWN_RUNNING;
}
