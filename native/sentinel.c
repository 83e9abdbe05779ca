/* sentinel: the process above a guard, which watches it and ends the run when the guard cannot */
#include "sentinel.h"

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "frame.h"
#include "priority.h"
#include "procfs.h"
#include "run.h"
#include "shared_memory.h"
#include "takeover.h"

#define LATE_NS 500000000u      /* how late the guard may be before the sentinel pings it */
#define FROZEN_NS 500000000u    /* how long a guard that uses no CPU time may take to answer */
#define BUSY_NS 1000000000u     /* how long a guard that works may take to answer */
#define DIES_NS 300000000u      /* how long a killed guard may take to die before the sentinel goes on without that */
#define CONTINUE_EVERY_NS 1000000000u /* how often the guard continues its sentinel */
#define STOP_EVERY_NS 1000000000u /* a guard that is stopped once in this time is continued for ever */
enum { STOPS_MAX = 100 };         /* a guard that is stopped so many times more than that is replaced */

struct sentinel *sentinel;
static bool is_alone; /* we are a guard that could not be given a sentinel */

bool sentinel_prepare(void) {
    sentinel = shared_memory(sizeof *sentinel);
    return sentinel != NULL;
}

/* ── the guard's side ─────────────────────────────────────────────────────────────────────────────────────────── */

/* A new process with our descriptors, but with memory of its own: all zeros is a fork for every other argument. */
static pid_t fork_with_our_descriptors(void) {
    return (pid_t)syscall(SYS_clone, (long)(CLONE_FILES | SIGCHLD), 0L, 0L, 0L, 0L);
}

bool sentinel_fork_guard(void) {
    const pid_t self = getpid();
    atomic_store(&sentinel->pid, self);
    const pid_t pid = fork_with_our_descriptors();
    if (pid > 0) {
        atomic_store(&sentinel->guard, pid);
        return false;
    }
    atomic_store(&sentinel->guard, getpid());
    if (pid < 0) { /* no process is free: perhaps there is one for the command */
        atomic_store(&sentinel->pid, 0);
        is_alone = true;
        return true;
    }
    /* A session of its own: a terminal needs a session leader. */
    if (setsid() < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        _exit(GUARD_NO_SETUP);
    prctl(PR_SET_PDEATHSIG, SIGNAL_WAKE); /* cannot fail with a valid signal */
    if (getppid() != self)
        kill(getpid(), SIGNAL_WAKE); /* it died before the line above */
    return true;
}

pid_t sentinel_parent(void) {
    const pid_t pid = atomic_load(&sentinel->pid);
    struct process_stat status;
    if (pid == 0) /* we could fork no guard, or we have not yet; or the sentinel has died */
        return atomic_load(&sentinel->guard) == 0 || is_alone ? getppid() : 0;
    return read_stat(pid, &status) ? status.parent : 0;
}

bool sentinel_has_died(void) {
    const pid_t pid = atomic_load(&sentinel->pid);
    if (pid == 0 || pid == getpid() || getppid() == pid)
        return false;
    atomic_store(&sentinel->pid, 0);
    return true;
}

/* Continues a stopped sentinel. SIGCONT is in no signalfd, so a sentinel that is not stopped does not even wake up. */
static uint64_t continue_sentinel(pid_t pid, uint64_t now) {
    static uint64_t last_ns;
    if (now >= last_ns + CONTINUE_EVERY_NS) {
        last_ns = now;
        kill(pid, SIGCONT);
    }
    return last_ns + CONTINUE_EVERY_NS;
}

void sentinel_let_go(void) {
    const pid_t pid = atomic_load(&sentinel->pid);
    atomic_store(&sentinel->exits, true);
    if (pid != 0 && pid != getpid())
        kill(pid, SIGCONT);
}

uint64_t sentinel_before_sleep(uint64_t due_ns, uint64_t wake_ns) {
    const pid_t pid = atomic_load(&sentinel->pid);
    atomic_store(&sentinel->due_ns, due_ns);
    atomic_fetch_add(&sentinel->turns, 1);
    if (pid == 0 || pid == getpid())
        return wake_ns;
    /* The sentinel says when it looks again, and then looks at `due_ns` once more: so one of us sees the other's. */
    const uint64_t looks_ns = atomic_load(&sentinel->sleeps_to_ns);
    if (due_ns > 0 && (looks_ns == 0 || due_ns + LATE_NS < looks_ns))
        kill(pid, SIGNAL_WAKE);
    if (!atomic_load(&sentinel->keeps_run))
        return wake_ns;
    const uint64_t again = continue_sentinel(pid, clock_now());
    return wake_ns > 0 && wake_ns < again ? wake_ns : again;
}

/* ── the sentinel's side ──────────────────────────────────────────────────────────────────────────────────────── */

struct watching {
    pid_t guard;
    uint64_t turns;     /* of the guard, when we last looked */
    uint64_t pinged_ns; /* 0: no answer is awaited */
    uint64_t cpu_ns;    /* of the guard, at the ping */
    uint64_t forgiven_ns; /* up to this time, stops are forgiven: one in STOP_EVERY_NS */
    int unforgiven;       /* stops */
    int stops;            /* all of them */
};

static uint64_t cpu_time_of(pid_t pid) {
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
        return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void ping(struct watching *watching, uint64_t now) {
    watching->pinged_ns = now;
    watching->cpu_ns = cpu_time_of(watching->guard);
    kill(watching->guard, SIGCONT);
    kill(watching->guard, SIGNAL_WAKE);
}

/* Passes a request on to the guard with its sender, because the guard judges who asks. */
static void forward(struct watching *watching, const struct signalfd_siginfo *got) {
    siginfo_t info = {.si_signo = (int)got->ssi_signo, .si_code = SI_QUEUE};
    info.si_pid = (pid_t)got->ssi_pid;
    info.si_uid = got->ssi_uid;
    kill(watching->guard, SIGCONT);
    syscall(SYS_rt_sigqueueinfo, watching->guard, info.si_signo, &info);
    if (watching->pinged_ns == 0) {
        watching->pinged_ns = clock_now(); /* the request is a ping, too */
        watching->cpu_ns = cpu_time_of(watching->guard);
    }
}

static void take_signals(struct watching *watching, int signals) {
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD && info.ssi_signo != SIGNAL_WAKE)
            forward(watching, &info);
    }
}

/* Continues a stopped guard. False: it is stopped too often to get anything done. */
static bool continue_guard(struct watching *watching, uint64_t now) {
    const uint64_t since = watching->forgiven_ns == 0 ? 0 : (now - watching->forgiven_ns) / STOP_EVERY_NS;
    watching->forgiven_ns = watching->forgiven_ns == 0 ? now : watching->forgiven_ns + since * STOP_EVERY_NS;
    watching->unforgiven = since >= (uint64_t)watching->unforgiven ? 0 : watching->unforgiven - (int)since;
    watching->stops++;
    kill(watching->guard, SIGCONT);
    return ++watching->unforgiven <= STOPS_MAX;
}

enum news { WELL, DEAD, STOPPED_TOO_OFTEN, STUCK };

static enum news look_at_process(struct watching *watching, int *wait_status, uint64_t now) {
    while (waitpid(watching->guard, wait_status, WNOHANG | WUNTRACED) > 0) {
        if (!WIFSTOPPED(*wait_status))
            return DEAD;
        if (!continue_guard(watching, now))
            return STOPPED_TOO_OFTEN;
    }
    waitpid(-1, NULL, WNOHANG | __WCLONE); /* the writer of a run that has a successor; ECHILD is no failure here */
    return WELL;
}

/* Whether the guard is late, and when to look again. */
static enum news look_at_clock(struct watching *watching, uint64_t now, uint64_t *again_ns) {
    const uint64_t turns = atomic_load(&sentinel->turns);
    if (turns != watching->turns)
        watching->pinged_ns = 0;
    watching->turns = turns;
    const uint64_t due = atomic_load(&sentinel->due_ns);
    if (watching->pinged_ns == 0 && due > 0 && now >= clock_after(due, LATE_NS))
        ping(watching, now);
    if (watching->pinged_ns == 0) {
        *again_ns = due == 0 ? 0 : clock_after(due, LATE_NS);
        return WELL;
    }
    const bool works = now >= watching->pinged_ns + FROZEN_NS && cpu_time_of(watching->guard) != watching->cpu_ns;
    *again_ns = watching->pinged_ns + (works ? BUSY_NS : FROZEN_NS);
    return now < *again_ns ? WELL : STUCK;
}

static void sleep_until(int signals, uint64_t again_ns) {
    struct pollfd watched = {signals, POLLIN, 0};
    const uint64_t now = clock_now(), left = again_ns > now ? again_ns - now : 0;
    const struct timespec timeout = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    ppoll(&watched, 1, again_ns == 0 ? NULL : &timeout, NULL);
}

/* Kills the guard and waits until it is dead, but not for ever. Once SIGKILL is on its way, it runs no more code. */
static void kill_guard(const struct watching *watching, int signals, int *wait_status) {
    const uint64_t until = clock_now() + DIES_NS;
    kill(watching->guard, SIGKILL);
    struct signalfd_siginfo info;
    while (waitpid(watching->guard, wait_status, WNOHANG) == 0 && clock_now() < until) {
        sleep_until(signals, until);
        while (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
            continue; /* whoever asks for the end of the run gets it now */
    }
}

static enum guard_lost_why why_of(enum news news) {
    return news == DEAD ? GUARD_LOST_DIED : news == STUCK ? GUARD_LOST_STUCK : GUARD_LOST_STOPPED;
}

/* Watches until the guard is dead, or of no use any more. */
static enum news watch(struct watching *watching, int signals, int *wait_status) {
    for (;;) {
        const uint64_t now = clock_now();
        uint64_t again;
        enum news news = look_at_process(watching, wait_status, now);
        if (news == WELL)
            news = look_at_clock(watching, now, &again);
        if (news != WELL)
            return news;
        atomic_store(&sentinel->sleeps_to_ns, again);
        if (watching->pinged_ns == 0 && atomic_load(&sentinel->turns) != watching->turns)
            continue; /* the guard may not have seen when we look again */
        sleep_until(signals, again);
        take_signals(watching, signals);
    }
}

int sentinel_watch(struct run *run, int signals) {
    priority_take_short_turns(); /* a tree that starves the guard must not starve us */
    struct watching watching = {.guard = atomic_load(&sentinel->guard)};
    int wait_status = 0;
    const enum news news = watch(&watching, signals, &wait_status);
    if (news == DEAD && atomic_load(&sentinel->exits) && WIFEXITED(wait_status))
        return WEXITSTATUS(wait_status);
    if (news != DEAD)
        kill_guard(&watching, signals, &wait_status);
    const struct fact_guard_lost lost = {watching.guard, wait_status, why_of(news), watching.stops};
    return takeover(run, signals, &lost);
}
