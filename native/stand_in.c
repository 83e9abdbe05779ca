/* stand_in: the process that takes the place of a sentinel that has died */
#include "stand_in.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent_link.h"
#include "clock.h"
#include "frame.h"
#include "sentinel.h"
#include "sweep.h"
#include "phases.h"
#include "takeover.h"
#include "writer.h"

#define LATE_NS 500000000u
enum { LOOK_MS = 500, LATE_LOOKS = 2, DIES_MS = 300, EMPTY_LOOK_MS = 5 };
enum { STARTS_MAX = 100 }; /* a process that kills every stand-in does not keep the guard busy for ever */

static int stand_in = -1; /* a pidfd, for the guard */
static int guard = -1;    /* a pidfd, for the stand-in: there is one table, so each stand-in uses the same */
static int starts, signals;

int stand_in_process(void) { return stand_in; }

/* ── the guard's side ─────────────────────────────────────────────────────────────────────────────────────────── */

/* A pidfd whose number has no meaning to a run. */
static int open_process(pid_t pid) {
    const int low = (int)syscall(SYS_pidfd_open, pid, 0);
    if (low < 0)
        return -1;
    const int fd = fcntl(low, F_DUPFD_CLOEXEC, GUARD_FD_FIRST_FREE);
    close(low);
    return fd;
}

static _Noreturn void stand_in_live(struct run *run);

void stand_in_prepare(int fd) { signals = fd; }

void stand_in_start(struct run *run) {
    if (stand_in >= 0)
        close(stand_in);
    stand_in = -1;
    if (guard < 0)
        guard = open_process(getpid());
    if (guard < 0 || starts++ >= STARTS_MAX)
        return;
    const pid_t pid = (pid_t)syscall(SYS_clone, (long)(CLONE_PARENT | CLONE_FILES), 0L, 0L, 0L, 0L);
    if (pid == 0)
        stand_in_live(run);
    if (pid > 0)
        stand_in = open_process(pid);
}

/* ── the stand-in's side ──────────────────────────────────────────────────────────────────────────────────────── */

static void send(int process, int number) { syscall(SYS_pidfd_send_signal, process, number, NULL, 0); }

static bool ends_within(int process, int milliseconds) {
    struct pollfd ended = {process, POLLIN, 0};
    return poll(&ended, 1, milliseconds) > 0;
}

/* Returns when the guard is dead, or was killed because it is late: true. */
static bool watch(void) {
    uint64_t turns = 0;
    for (int late = 0; !ends_within(guard, LOOK_MS);) {
        const uint64_t due = atomic_load(&sentinel->due_ns), now_turns = atomic_load(&sentinel->turns);
        const bool is_late = due > 0 && clock_now() >= clock_after(due, LATE_NS) && now_turns == turns;
        late = is_late ? late + 1 : 0;
        turns = now_turns;
        send(guard, SIGCONT);
        if (is_late)
            send(guard, SIGNAL_WAKE);
        if (late > LATE_LOOKS) {
            send(guard, SIGKILL);
            ends_within(guard, DIES_MS);
            return true;
        }
    }
    return false;
}

static bool leaf_is_empty(const struct run *run, uint64_t until) {
    while (!cgroup_is_empty(&run->cgroup)) {
        if (clock_now() >= until)
            return false;
        poll(NULL, 0, EMPTY_LOOK_MS);
    }
    return true;
}

/*
 * Kills what can be found of the run. A process may have left the leaf and cleared its environment, and only a parent
 * can prove its end. So the tree of a command that has run is never called gone here.
 */
static enum tree_end end_tree(struct run *run) {
    struct fact_signalled signalled = {.signal = SIGKILL, .rung = (int32_t)run->spec.rungs - 1};
    const uint64_t until = clock_after(clock_now(), run->spec.options.kill_wait_ns);
    agent_link_close(&run->agent); /* the agent in a container, if there is one, ends what it holds */
    run_announce(run);             /* GUARD_LOST is on record before the first signal */
    const int members = cgroup_kill(&run->cgroup);
    signalled.reached = members > 0 ? members : 0;
    journal_fact(&run->journal, FACT_SIGNALLED, &signalled, sizeof signalled);
    const bool is_empty = members >= 0 && leaf_is_empty(run, until);
    bool found_outside = false;
    char token[SPEC_TOKEN_SIZE];
    const bool swept = sweep(spec_token(&run->spec, token), until, &found_outside) == 0;
    const bool has_run = run->started_ns > 0 || run->spec.container != NULL;
    return is_empty && swept && !found_outside && !has_run ? TREE_GONE : TREE_UNKNOWN;
}

static _Noreturn void stand_in_live(struct run *run) {
    const struct fact_guard_lost lost = {
        .guard_pid = atomic_load(&sentinel->guard),
        .why = watch() ? GUARD_LOST_STUCK : GUARD_LOST_UNSEEN, /* only a parent sees how a process ends */
    };
    close(guard);
    if (!atomic_load(&sentinel->exits))
        takeover_as_stranger(run, signals, &lost, end_tree);
    control_close(&run->control); /* the guard is dead, and nobody waits for us any more */
    if (run->journal.writer != NULL)
        writer_reap(run->journal.writer);
    _exit(GUARD_OK);
}
