/* loop: one turn of the guard: wait for something, then act on it */
#include "loop.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "expiry.h"
#include "phases.h"
#include "requests.h"
#include "sentinel.h"
#include "stand_in.h"
#include "tree.h"
#include "writer.h"

enum { PENDING_MAX = 8 }; /* one of each signal that we take, and some more pings */

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
 * guard holds its other side. Of two pending SIGHUP the kernel keeps the first: the SIGHUP of a person is lost if it
 * comes before we took that of the hang-up. SIGTERM is not.
 */
static bool is_hang_up_by_command(const struct signalfd_siginfo *info) {
    return info->ssi_signo == SIGHUP && info->ssi_code == SI_KERNEL;
}

static bool is_exit(int code) { return code == CLD_EXITED || code == CLD_KILLED || code == CLD_DUMPED; }

/* The signal is a ping, which the turn answers, or it comes from the kernel because our sentinel has died. */
static void note_sentinel(struct run *run) {
    const struct fact_sentinel_lost lost = {.pid = atomic_load(&sentinel->pid)};
    if (sentinel_has_died()) {
        journal_fact(&run->journal, FACT_SENTINEL_LOST, &lost, sizeof lost);
        stand_in_start(run);
    }
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

/*
 * Takes what is pending now, and no more: where children die all the time, there is a SIGCHLD after each that we take,
 * and clocks and owners would wait for ever.
 */
void loop_take_signals(struct run *run, int fd) {
    struct signalfd_siginfo pending[PENDING_MAX];
    const ssize_t got = read(fd, pending, sizeof pending);
    for (ssize_t i = 0; i < got / (ssize_t)sizeof pending[0] && run->phase != PHASE_ENDED; i++)
        loop_take_signal(run, &pending[i]);
}

static bool is_due(const struct run *run, uint64_t now) {
    const enum timer next = timers_next(&run->timers);
    return next != TIMER_COUNT && run->timers.due_ns[next] <= now;
}

/*
 * Acts on timers that are due now. A timer that is set again for now waits for the next turn: owners come before it.
 *
 * The guard may have been stopped since it looked for signals, and for long. What the kernel has to say about the order
 * of exit and deadline (witness.h) is therefore read now, before a timer reaps.
 */
static void fire_timers(struct run *run, int signals) {
    const uint64_t now = clock_now();
    if (is_due(run, now))
        loop_take_signals(run, signals);
    for (int i = 0; i < TIMER_COUNT && run->phase != PHASE_ENDED && is_due(run, now); i++)
        run_timer_is_due(run, timers_next(&run->timers));
}

#define LOOK_AT_STORAGE_NS 100000000u /* how often the guard looks whether storage that hangs answers again */

enum {
    WATCH_SIGNALS,
    WATCH_OWNER,
    WATCH_STARTER,
    WATCH_STAND_IN,
    WATCH_AGENT,
    WATCH_FOREIGN,
    WATCH_LEADER,
    WATCH_LISTENER,
    WATCH_WRITER,
    WATCH_STREAM
};
enum { WATCH_CONTROL = WATCH_STREAM + STREAM_COUNT };
enum { WATCH_COUNT = WATCH_CONTROL + OWNERS_MAX };

static void watch(struct run *run, struct pollfd *watched, int signals) {
    run->output.consumed = control_held_from(&run->control); /* an owner that held output may have gone */
    output_roll(&run->output);
    const bool waits = output_waits(&run->output);
    const struct writer *writer = run->journal.writer;
    watched[WATCH_WRITER] = (struct pollfd){writer == NULL ? -1 : writer->process, POLLIN, 0};
    watched[WATCH_SIGNALS] = (struct pollfd){signals, POLLIN, 0};
    watched[WATCH_OWNER] = (struct pollfd){run->owner_process, POLLIN, 0};
    watched[WATCH_STARTER] = (struct pollfd){run->phase < PHASE_DRAINING ? run->starter : -1, POLLIN, 0}; /* a successor may need it */
    watched[WATCH_STAND_IN] = (struct pollfd){stand_in_process(), POLLIN, 0};
    watched[WATCH_AGENT] = (struct pollfd){run->agent.fd, run->agent.unsent > 0 ? POLLIN | POLLOUT : POLLIN, 0};
    watched[WATCH_FOREIGN] = (struct pollfd){run->foreign.process, POLLIN, 0};
    watched[WATCH_LEADER] = (struct pollfd){run->leader > 0 ? run->spawned.process : -1, POLLIN, 0};
    watched[WATCH_LISTENER] = (struct pollfd){run->control.accept_paused ? -1 : run->control.listener, POLLIN, 0};
    for (int i = 0; i < STREAM_COUNT; i++) { /* -1 for a stream that has to wait: POLLHUP cannot be masked */
        const struct stream *stream = &run->output.streams[i];
        watched[WATCH_STREAM + i] = (struct pollfd){waits || stream->hung ? -1 : stream_watched(stream), POLLIN, 0};
    }
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

static void wait_for_something(struct run *run, struct pollfd *watched) {
    const enum timer timer = timers_next(&run->timers);
    const uint64_t wake = timer == TIMER_COUNT ? 0 : run->timers.due_ns[timer];
    const uint64_t due = sentinel_before_sleep(timers_next_bound(&run->timers), wake);
    struct timespec timeout = {0, 0}; /* there are more dead to reap, or storage has news: look, but do not wait */
    if (!run->reap_again && (!run_awaits_storage(run) || journal_news(&run->journal) == run->news)) {
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
    if (run->phase == PHASE_HELD && (run->spec.container == NULL || run->start_recorded))
        run_start(run);
}

/* Takes what the writer says. What waited for it goes on in this turn: the start, the wakes, the end. */
static void take_storage_news(struct run *run, const struct pollfd *watched) {
    if (watched[WATCH_WRITER].revents)
        run_revive_writer(run);
    if (run->phase < PHASE_RECORDING)
        journal_note_stall(&run->journal);
    run_end_if_recorded(run);
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

void loop_look_at_starter(struct run *run) {
    struct pollfd gone = {run->starter, POLLIN, 0};
    if (run->starter < 0 || poll(&gone, 1, 0) <= 0)
        return;
    close(run->starter);
    run->starter = -1;
    requests_starter_left(run);
}

static void serve_owners(struct run *run, const struct pollfd *watched) {
    if (watched[WATCH_OWNER].revents && run->owner_process >= 0 && run->phase != PHASE_ENDED)
        first_owner_died(run);
    for (int i = 0; i < OWNERS_MAX && run->phase != PHASE_ENDED; i++) {
        if (watched[WATCH_CONTROL + i].revents)
            requests_serve(run, i);
    }
    if (watched[WATCH_STARTER].revents && run->phase != PHASE_ENDED)
        loop_look_at_starter(run);
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

/*
 * While something waits for storage, the guard waits for that first. When storage hangs, it looks again later, and after
 * the writer, too: it may be stopped, or missing.
 */
static void wait_for_storage(struct run *run) {
    if (!run_awaits_storage(run) || journal_await_news(&run->journal, run->news))
        timer_off(&run->timers, TIMER_WRITER);
    else if (!timer_is_set(&run->timers, TIMER_WRITER))
        timer_set(&run->timers, TIMER_WRITER, clock_now() + LOOK_AT_STORAGE_NS);
}

void loop_turn(struct run *run, int signals) {
    struct pollfd watched[WATCH_COUNT];
    wait_for_storage(run);
    watch(run, watched, signals);
    wait_for_something(run, watched);
    run->news = journal_news(&run->journal); /* before anything looks at storage: later news ends the next wait */
    if (watched[WATCH_STAND_IN].revents)
        stand_in_start(run); /* the last one has died */
    take_reports(run, watched, signals);
    serve_owners(run, watched);
    take_storage_news(run, watched);
    loop_start_if_allowed(run);
    if (watched[WATCH_LISTENER].revents && run->phase != PHASE_ENDED)
        requests_welcome(run);
    const bool quiet = !take_output(run, watched);
    fire_timers(run, signals);
    if (run->phase != PHASE_ENDED)
        run_announce(run);
    if (quiet)
        output_release_buffer(&run->output);
}
