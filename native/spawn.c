/* spawn: starting the command in two steps, first a held child, then its program when the start is on record */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <termios.h>
#include <unistd.h>

#include "clock.h"
#include "entry.h"
#include "fork_sharing.h"
#include "raw_syscall.h"
#include "shared_memory.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

#define BUSY_LAST_PAUSE_NS 512000000
enum { KERNEL_SIGNALS = 64, SIGNAL_SET_SIZE = KERNEL_SIGNALS / 8 };
#define TICK_NS 10000000u /* of /proc/PID/stat: a hundredth of a second on every architecture that has a guard */

/* ── the child: in the guard's memory, so it calls nothing that sets errno ────────────────────────────────────── */

struct errand {
    const struct spec *spec;
    struct child_stdio stdio;
    pid_t guard;
    bool on_terminal; /* stdin is the terminal of our session */
};

enum word { WAIT, GO, NEVER };

/* What guard and child tell each other, shared also with the sentinel and with a child that has a copy of our memory. */
static struct {
    _Atomic uint32_t word;
    _Atomic bool failed;
    struct fact_spawn_failed failure; /* valid when `failed` is true */
} *held;

static _Noreturn void leave(int code) {
    for (;;)
        RAW_SYSCALL(SYS_exit_group, code);
}

/* Dies as the guard's death would have killed it: an exit code would be taken for the command's own. */
static _Noreturn void die_with_guard(void) {
    RAW_SYSCALL(SYS_kill, RAW_SYSCALL(SYS_getpid, 0), SIGKILL);
    leave(126);
}

static _Noreturn void fail(enum spawn_step step, long error) {
    held->failure = (struct fact_spawn_failed){.step = (int32_t)step, .error = (int32_t)-error};
    entry_tell_failure(&held->failure);
    atomic_store(&held->failed, true);
    leave(127);
}

static bool may_go(void) {
    uint32_t word;
    while ((word = atomic_load(&held->word)) == WAIT)
        RAW_SYSCALL(SYS_futex, (long)&held->word, FUTEX_WAIT, WAIT);
    return word == GO;
}

static const char *find_path(char *const *env) {
    for (; *env != NULL; env++) {
        if (strncmp(*env, "PATH=", 5) == 0)
            return *env + 5;
    }
    return DEFAULT_PATH;
}

/*
 * A program that was written a moment ago may be busy: a fork of the writer, in another of its threads, still has the
 * file open for writing until its own exec. The child tries again for about a second.
 */
static long exec_when_written(const char *file, const struct spec *spec) {
    long error = -ETXTBSY;
    for (long pause_ns = 1000000; error == -ETXTBSY && pause_ns <= BUSY_LAST_PAUSE_NS; pause_ns *= 2) {
        error = RAW_SYSCALL(SYS_execve, (long)file, (long)spec->argv, (long)spec->env);
        const struct timespec pause = {0, pause_ns};
        if (error == -ETXTBSY)
            RAW_SYSCALL(SYS_nanosleep, (long)&pause, 0);
    }
    return error;
}

/* Executes a file. For ENOENT it finds out whether the program is missing, or only the interpreter of the program. */
static long try_exec(const char *file, const struct spec *spec, enum spawn_step *step) {
    const long error = exec_when_written(file, spec);
    if (error == -ENOENT && RAW_SYSCALL(SYS_faccessat, AT_FDCWD, (long)file, F_OK) == 0)
        *step = STEP_INTERPRETER;
    return error;
}

static _Noreturn void exec_program(const struct spec *spec, const char *name) {
    enum spawn_step step = STEP_EXEC;
    if (strchr(name, '/') != NULL || name[0] == '\0') {
        const long refused = try_exec(name, spec, &step);
        fail(step, refused);
    }
    char file[4096];
    long error = -ENOENT;
    const size_t name_length = strlen(name);
    for (const char *at = find_path(spec->env);; at++) {
        size_t length = strcspn(at, ":");
        if (length + name_length + 2 <= sizeof file) {
            memcpy(file, at, length);
            file[length] = '/';
            memcpy(file + length + (length > 0), name, name_length + 1); /* an empty entry is the working directory */
            const long refused = try_exec(file, spec, &step);
            if (refused != -ENOENT && refused != -ENOTDIR && refused != -EACCES)
                fail(STEP_EXEC, refused);
            if (step == STEP_INTERPRETER)
                fail(step, refused);
            if (refused == -EACCES)
                error = -EACCES;
        }
        at += length;
        if (*at == '\0')
            fail(STEP_EXEC, error);
    }
}

static void check(long result, enum spawn_step step) {
    if (result < 0)
        fail(step, result);
}

static _Noreturn void become_command(const void *context) {
    const struct errand errand = *(const struct errand *)context;
    const struct spec *spec = errand.spec;
    /* Our parent is the guard's only thread: the signal comes when that thread, and so the guard, dies. */
    check(RAW_SYSCALL(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL), STEP_SETUP);
    if (RAW_SYSCALL(SYS_getppid, 0) != errand.guard)
        die_with_guard(); /* it died before the line above */
    /* A session of its own, where it can be: there it does not share the guard's part of the processor. */
    check(errand.on_terminal ? RAW_SYSCALL(SYS_setpgid, 0, 0) : RAW_SYSCALL(SYS_setsid, 0), STEP_SETUP);
    check(RAW_SYSCALL(SYS_dup3, errand.stdio.out, 1, 0), STEP_STDIO);
    check(RAW_SYSCALL(SYS_dup3, errand.stdio.err, 2, 0), STEP_STDIO);
    if (!may_go())
        leave(126); /* the guard forbids the command to run */
    const unsigned char none[SIGNAL_SET_SIZE] = {0};
    RAW_SYSCALL(SYS_rt_sigprocmask, SIG_SETMASK, (long)none, 0, sizeof none);
    if (spec->cwd != NULL)
        check(RAW_SYSCALL(SYS_chdir, (long)spec->cwd), STEP_CHDIR);
    const char *program = spec->argv[0];
    if (entry_is_given()) {
        check(entry_take(&program), STEP_SETUP);
        /* A change of the user or the group takes the parent-death signal back. */
        check(RAW_SYSCALL(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL), STEP_SETUP);
        if (RAW_SYSCALL(SYS_getppid, 0) != errand.guard)
            die_with_guard();
    }
    exec_program(spec, program);
}

/* ── the guard ────────────────────────────────────────────────────────────────────────────────────────────────── */

struct disposition { /* the kernel's own layout; all zeros is SIG_DFL on every architecture */
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned char mask[SIGNAL_SET_SIZE];
};

void spawn_reset_signals(void) {
    const struct disposition fresh = {0};
    for (int number = 1; number <= KERNEL_SIGNALS; number++) {
        struct disposition now = {0};
        if (syscall(SYS_rt_sigaction, number, NULL, &now, sizeof now.mask) == 0 && now.handler == SIG_IGN)
            syscall(SYS_rt_sigaction, number, &fresh, NULL, sizeof fresh.mask);
    }
}

static pid_t fork_copying(struct clone_args arguments, const struct errand *errand) {
    const long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid == 0)
        become_command(errand);
    return (pid_t)pid;
}

/* Before Linux 5.16 a signal that dumps core ends every process in the same memory, not only the one that got it. */
static bool kernel_spares_us(void) {
    static enum { UNKNOWN, SPARES, ENDS } known;
    struct utsname host;
    unsigned major = 0, minor = 0;
    if (known == UNKNOWN) {
        char *rest = uname(&host) == 0 ? host.release : NULL;
        if (rest != NULL)
            major = (unsigned)strtoul(rest, &rest, 10);
        if (rest != NULL && *rest == '.')
            minor = (unsigned)strtoul(rest + 1, NULL, 10);
        known = major > 5 || (major == 5 && minor >= 16) ? SPARES : ENDS;
    }
    return known == SPARES;
}

/*
 * The child shares our memory where that is safe. In a cgroup with a memory limit there may be no memory left before
 * exec. Then the kernel kills every process that shares the memory of the process it has chosen.
 */
static pid_t fork_with(struct clone_args arguments, const struct errand *errand) {
    const bool shares = FORK_MAY_SHARE && errand->spec->options.memory_bytes == 0 && kernel_spares_us();
    return shares ? fork_sharing(arguments, become_command, errand) : fork_copying(arguments, errand);
}

/* Forks the child into the cgroup, if the kernel can do that. To enter it after the fork takes a lock of all forks. */
static pid_t fork_into(struct cgroup *cgroup, const struct errand *errand) {
    struct clone_args arguments = {.exit_signal = SIGCHLD};
    cgroup->entered_at_clone = cgroup->unified.leaf >= 0;
    if (cgroup->entered_at_clone) {
        arguments.flags = CLONE_INTO_CGROUP;
        arguments.cgroup = (uint64_t)cgroup->unified.leaf;
    }
    pid_t pid = fork_with(arguments, errand);
    if (pid >= 0 || errno == EAGAIN || errno == ENOMEM)
        return pid;
    cgroup->entered_at_clone = false; /* an old kernel, or a container that forbids clone3 */
    pid = fork();
    if (pid == 0)
        become_command(errand);
    return pid;
}

bool spawn_prepare(void) {
    held = shared_memory(sizeof *held);
    return held != NULL;
}

bool spawn_held(struct spawned *spawned, const struct spec *spec, struct cgroup *cgroup, struct child_stdio stdio,
                struct fact_spawn_failed *failure) {
    atomic_store(&held->word, WAIT);
    atomic_store(&held->failed, false);
    entry_expect((spec->options.flags & SPEC_WITH_ENTRY) != 0);
    /* Static, because the child may read it after this function has returned. */
    static struct errand errand;
    errand = (struct errand){.spec = spec, .stdio = stdio, .guard = getpid(), .on_terminal = tcgetsid(0) == getsid(0)};
    const uint64_t before = clock_boot() / TICK_NS;
    spawned->pid = fork_into(cgroup, &errand);
    int error = errno;
    /* The kernel stamped the child in between, with the same clock. If both readings are equal, so is its tick. */
    spawned->start_ticks = clock_boot() / TICK_NS == before ? before : 0;
    spawned->failed = false;
    spawned->process = -1;
    if (spawned->pid < 0) {
        *failure = (struct fact_spawn_failed){STEP_FORK, error};
        return false;
    }
    cgroup_add_child(cgroup, spawned->pid);
    return true;
}

void spawn_watch(struct spawned *spawned) {
    if (spawned->process < 0)
        spawned->process = (int)syscall(SYS_pidfd_open, spawned->pid, 0);
}

static void tell(enum word word) {
    atomic_store(&held->word, word);
    syscall(SYS_futex, &held->word, FUTEX_WAKE, 1);
}

void spawn_release(void) { tell(GO); }

void spawn_forbid(void) { tell(NEVER); }

bool spawn_has_failed(struct spawned *spawned, struct fact_spawn_failed *failure) {
    if (spawned->failed || !atomic_load(&held->failed))
        return false;
    spawned->failed = true;
    *failure = held->failure;
    return true;
}
