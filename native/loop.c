/* loop: one turn of the guard: wait for something, then act on it */
#include "loop.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "expiry.h"
#include "phases.h"
#include "requests.h"
#include "sentinel.h"
#include "tree.h"

/*
 * A guard signals only its own tree. So a signal from a guard is a rung of an enclosing run, even where a cleared
 * environment hid that run from ours. SPEC_NESTED covers an enclosing guard that is another build of this program.
 */
static bool is_from_parent(const struct run *run, pid_t sender) {
    return (run->spec.options.flags & SPEC_NESTED) != 0 || tree_is_guard(sender);
}

/*
 * A command with privileges may hang up its own terminal (vhangup, as getty does), and the kernel tells the leader of
 * the terminal's session: the guard. That is no request to end. The terminal cannot hang up by itself, because the
 * guard holds its other side.
 */
static bool is_hang_up_by_command(const struct signalfd_siginfo *info) {
    return info->ssi_signo == SIGHUP && info->ssi_code == SI_KERNEL;
}

static bool is_exit(int code) { return code == CLD_EXITED || code == CLD_KILLED || code == CLD_DUMPED; }

/* The signal is a ping, which the turn answers, or it comes from the kernel because our sentinel has died. */
static void note_sentinel(struct run *run) {
    const struct fact_sentinel_lost lost = {.pid = atomic_load(&sentinel->pid)};
    if (sentinel_has_died())
        journal_fact(&run->journal, FACT_SENTINEL_LOST, &lost, sizeof lost);
}

void loop_take_signal(struct run *run, const struct signalfd_siginfo *info) {
    if (info->ssi_signo == SIGNAL_WAKE) {
        note_sentinel(run);
        return;
    }
    if (info->ssi_signo == SIGCHLD) {
        if (info->ssi_code == SI_TIMER)
            run_deadline_witnessed(run);
        else if ((pid_t)info->ssi_pid == run->leader && is_exit(info->ssi_code))
            run->exit_witnessed = true;
        run_reap(run);
        return;
    }
    if (is_hang_up_by_command(info))
        return;
    struct stop stop = {
        .cause = is_from_parent(run, (pid_t)info->ssi_pid) ? CAUSE_PARENT : CAUSE_USER,
        .signal = (int)info->ssi_signo,
        .by_pid = (pid_t)info->ssi_pid,
        .by_uid = info->ssi_uid,
        .reason = "",
    };
    run_stop(run, &stop);
}

void loop_take_signals(struct run *run, int fd) {
    struct signalfd_siginfo info;
    while (run->phase != PHASE_ENDED && read(fd, &info, sizeof info) == (ssize_t)sizeof info)
        loop_take_signal(run, &info);
}

/* Acts on timers that are due now. A timer that is set again for now waits for the next turn: owners come before it. */
static void fire_timers(struct run *run) {
    const uint64_t now = clock_now();
    for (int i = 0; i < TIMER_COUNT && run->phase != PHASE_ENDED; i++) {
        enum timer timer = timers_next(&run->timers);
        if (timer == TIMER_COUNT || run->timers.due_ns[timer] > now)
            return;
        run_timer_is_due(run, timer);
    }
}

enum { WATCH_SIGNALS, WATCH_OWNER, WATCH_AGENT, WATCH_FOREIGN, WATCH_LEADER, WATCH_LISTENER, WATCH_STREAM };
enum { WATCH_CONTROL = WATCH_STREAM + STREAM_COUNT };
enum { WATCH_COUNT = WATCH_CONTROL + OWNERS_MAX };

static void watch(const struct run *run, struct pollfd *watched, int signals) {
    const bool waits = output_waits_for_owner(&run->output);
    watched[WATCH_SIGNALS] = (struct pollfd){signals, POLLIN, 0};
    watched[WATCH_OWNER] = (struct pollfd){run->owner_process, POLLIN, 0};
    watched[WATCH_AGENT] = (struct pollfd){run->agent.fd, run->agent.unsent > 0 ? POLLIN | POLLOUT : POLLIN, 0};
    watched[WATCH_FOREIGN] = (struct pollfd){run->foreign.process, POLLIN, 0};
    watched[WATCH_LEADER] = (struct pollfd){run->leader > 0 ? run->spawned.process : -1, POLLIN, 0};
    watched[WATCH_LISTENER] = (struct pollfd){run->control.accept_paused ? -1 : run->control.listener, POLLIN, 0};
    for (int i = 0; i < STREAM_COUNT; i++) /* -1 for a stream that has to wait: POLLHUP cannot be masked */
        watched[WATCH_STREAM + i] =
            (struct pollfd){waits || run->output.streams[i].hung ? -1 : run->output.streams[i].fd, POLLIN, 0};
    for (int i = 0; i < OWNERS_MAX; i++)
        watched[WATCH_CONTROL + i] = (struct pollfd){run->control.owners[i].fd, POLLIN, 0};
}

/* Polls only the open descriptors: the kernel refuses more entries than a process may have open files. */
static void poll_present(struct pollfd *watched, const struct timespec *timeout) {
    struct pollfd present[WATCH_COUNT];
    int place[WATCH_COUNT], count = 0;
    for (int i = 0; i < WATCH_COUNT; i++) {
        if (watched[i].fd >= 0) {
            place[count] = i;
            present[count++] = watched[i];
        }
    }
    if (ppoll(present, (nfds_t)count, timeout, NULL) < 0)
        return; /* nothing is ready then, and the clocks go on */
    for (int i = 0; i < count; i++)
        watched[place[i]].revents = present[i].revents;
}

static void wait_for_something(const struct run *run, struct pollfd *watched) {
    const enum timer timer = timers_next(&run->timers);
    const uint64_t wake = timer == TIMER_COUNT ? 0 : run->timers.due_ns[timer];
    const uint64_t due = sentinel_before_sleep(timers_next_bound(&run->timers), wake);
    struct timespec timeout = {0, 0}; /* there are more dead to reap: look, but do not wait */
    if (!run->reap_again) {
        if (due == 0) {
            poll_present(watched, NULL);
            return;
        }
        const uint64_t now = clock_now();
        const uint64_t left = due > now ? due - now : 0;
        timeout = (struct timespec){(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    }
    poll_present(watched, &timeout);
}

void loop_start_if_allowed(struct run *run) {
    if (run->phase == PHASE_HELD && run->spec.container == NULL && !run->awaits_go)
        run_start(run);
}

/* Takes what the kernel and the agent in a container report: a failed exec, signals, processes that have ended. */
static void take_reports(struct run *run, const struct pollfd *watched, int signals) {
    run->location->check_exec(run); /* the guard does not wait for exec: SIGCHLD follows a failure */
    if (watched[WATCH_SIGNALS].revents)
        loop_take_signals(run, signals);
    const bool hidden = watched[WATCH_LEADER].revents && run->leader > 0; /* it ended, and no SIGCHLD came */
    const bool reports = watched[WATCH_AGENT].revents || watched[WATCH_FOREIGN].revents || hidden;
    if ((run->reap_again || reports) && run->phase != PHASE_ENDED)
        run_reap(run);
}

static void first_owner_died(struct run *run) {
    close(run->owner_process);
    run->owner_process = -1;
    if (run->control.owners[0].fd >= 0)
        requests_serve(run, 0); /* its last packets come first: it may have asked for something before it died */
    if (run->control.owners[0].fd >= 0)
        requests_owner_left(run, 0);
}

static void serve_owners(struct run *run, const struct pollfd *watched) {
    if (watched[WATCH_OWNER].revents && run->owner_process >= 0 && run->phase != PHASE_ENDED)
        first_owner_died(run);
    for (int i = 0; i < OWNERS_MAX && run->phase != PHASE_ENDED; i++) {
        if (watched[WATCH_CONTROL + i].revents)
            requests_serve(run, i);
    }
}

/* Reads the streams that have output. True when there was something to read. */
static bool take_output(struct run *run, const struct pollfd *watched) {
    bool taken = false;
    for (int i = 0; i < STREAM_COUNT && run->phase != PHASE_ENDED; i++) {
        if (watched[WATCH_STREAM + i].revents) {
            run_output(run, i);
            taken = true;
        }
    }
    return taken;
}

void loop_turn(struct run *run, int signals) {
    struct pollfd watched[WATCH_COUNT];
    watch(run, watched, signals);
    wait_for_something(run, watched);
    take_reports(run, watched, signals);
    serve_owners(run, watched);
    loop_start_if_allowed(run);
    if (watched[WATCH_LISTENER].revents && run->phase != PHASE_ENDED)
        requests_welcome(run);
    const bool quiet = !take_output(run, watched);
    fire_timers(run);
    if (run->phase != PHASE_ENDED)
        run_announce(run);
    if (quiet)
        output_release_buffer(&run->output);
}
