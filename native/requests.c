/* requests: what owners ask of a run, and what the run does about it */
#include "requests.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "expiry.h"
#include "ladder.h"
#include "phases.h"
#include "procfs.h"
#include "stop.h"

enum { REQUESTS_AT_ONCE = 64, ANCESTORS_MAX = 4096 };
#define LISTEN_AGAIN_NS 1000000000u

/* ── stop, extend, signal ─────────────────────────────────────────────────────────────────────────────────────── */

/*
 * A rung of an enclosing run reaches this guard, and also the `holdfast run` that started it. That process cannot see
 * who sent it a signal, and might take the second rung for a person who insists. The guard knows the sender. So after a
 * parent's rung, a request that a signal caused is the parent's, too.
 */
static enum asker asker_of(const struct run *run, const struct stop *stop) {
    if (stop->cause == CAUSE_PARENT || (run->parent_asked && stop->signal != 0))
        return ASKER_PARENT;
    if (stop->now)
        return ASKER_NOW;
    if (stop->cause == CAUSE_OWNER)
        return ASKER_OWNER;
    return stop->person ? ASKER_PERSON : ASKER_PROGRAM;
}

static void do_act(struct run *run, enum act act) {
    switch (act) {
    case ACT_QUIET:
        run_begin_quiet_end(run);
        break;
    case ACT_BEGIN_LAST:
        ladder_skip_to_last(run);
        run_begin_stop(run);
        break;
    case ACT_BEGIN:
        run_begin_stop(run);
        break;
    case ACT_CLIMB_LAST:
        ladder_skip_to_last(run);
        ladder_climb(run);
        break;
    case ACT_CLIMB:
        ladder_climb(run);
        break;
    case ACT_NONE:
    case ACT_JOIN:
    case ACT_REFUSE:
        break;
    }
}

/* A grace of the request's own may shorten the ladder's, and never makes it longer. The record says who did it. */
static void shorten_grace(struct run *run, const struct stop *stop) {
    if (!stop->has_grace || !ladder_shorten(run, stop->grace_ns))
        return;
    const struct fact_grace_shortened shortened = {stop->by_pid, (int32_t)stop->by_uid, stop->grace_ns};
    repeats_fact(&run->repeats, &run->journal, REPEATED_GRACE_SHORTENED, &shortened, sizeof shortened);
}

int run_stop(struct run *run, const struct stop *stop) {
    run_reap(run);
    const enum asker asker = asker_of(run, stop);
    const enum act act = stop_act(asker, run_stage(run));
    if (act == ACT_REFUSE)
        return ESRCH;
    struct fact_stop_asked asked = {(int32_t)stop->cause, stop->signal, stop->by_pid, (int32_t)stop->by_uid};
    repeats_fact_text(&run->repeats, &run->journal, REPEATED_STOP_ASKED, &asked, sizeof asked, stop->reason,
                      stop->reason_length);
    if (act == ACT_BEGIN)
        ladder_begin_with(run, stop->signal);
    if (act == ACT_BEGIN || act == ACT_JOIN || act == ACT_CLIMB)
        shorten_grace(run, stop);
    run->parent_asked = run->parent_asked || asker == ASKER_PARENT;
    run->person_asked = run->person_asked || asker == ASKER_PERSON;
    do_act(run, act);
    return 0;
}

/*
 * Whether a process of this run's own tree asks: its ancestors lead to this guard. A peer that has exited counts as one,
 * because an honest peer waits for the answer, and so does a peer whose parent exits meanwhile: it may ask again. Where
 * /proc hides the processes of other users (hidepid), such an ancestor is outside. PID 0 is a process outside of our
 * PID namespace, and the whole tree is inside of it. The tree cannot reach the first owner's socket.
 */
static bool asks_from_inside(const struct run *run, int index) {
    struct process_stat status;
    if (index == 0)
        return false;
    pid_t pid = run->control.owners[index].pid;
    for (int depth = 0; depth < ANCESTORS_MAX; depth++) {
        if (pid <= 0)
            return false;
        if (pid == getpid())
            return true;
        if (!read_stat(pid, &status))
            return depth == 0 || (kill(pid, 0) < 0 && errno == ESRCH);
        pid = status.parent;
    }
    return true;
}

/*
 * A command may move its deadline by a nanosecond at a time, up to its ceiling. So after a thousand moves the guard
 * records only one that moves the deadline by a hundredth since the last one on record, which is what readers show.
 */
static void record_extended(struct run *run, uint64_t limit) {
    const struct fact_extended extended = {limit};
    const uint64_t last = run->recorded_deadline_ns;
    if (limit - last > last / 100)
        journal_fact(&run->journal, FACT_EXTENDED, &extended, sizeof extended);
    else if (!repeats_fact(&run->repeats, &run->journal, REPEATED_EXTENDED, &extended, sizeof extended))
        return;
    run->recorded_deadline_ns = limit;
}

static int extend(struct run *run, int owner, uint64_t by_ns) {
    run_reap(run);
    const struct spec_options *options = &run->spec.options;
    if (!run_may_begin_stop(run))
        return ESRCH;
    if (run->deadline_ns == 0)
        return EINVAL;
    /* A ceiling is the right to use the time up to it, also for the command itself. */
    if (options->ceiling_ns == 0 && asks_from_inside(run, owner))
        return EPERM;
    uint64_t limit = run->deadline_ns + by_ns;
    if (limit < run->deadline_ns || limit > UINT64_MAX / 4 || (options->ceiling_ns > 0 && limit > options->ceiling_ns))
        return ERANGE;
    run->deadline_ns = limit;
    record_extended(run, limit);
    run_set_deadline(run, run->started_ns + limit);
    if (options->warn_before_ns > 0 && limit > options->warn_before_ns)
        timer_set(&run->timers, TIMER_WARN, run->started_ns + limit - options->warn_before_ns);
    return 0;
}

static int send_signal(struct run *run, int number, enum signal_scope scope) {
    run_reap(run);
    if (number < 1 || number >= NSIG)
        return EINVAL;
    const bool leaderless = run->leader == 0 && run->foreign.pid == 0;
    if (run->phase >= PHASE_DRAINING || run->phase == PHASE_HELD || (scope == SCOPE_LEADER && leaderless))
        return ESRCH;
    return run->location->signal(run, number, scope);
}

static void owner_gone(struct run *run, pid_t pid, uid_t uid) {
    struct fact_owner owner = {.pid = pid, .uid = (int32_t)uid};
    run_reap(run);
    if (run->phase >= PHASE_DRAINING)
        return;
    journal_fact(&run->journal, FACT_OWNER_GONE, &owner, sizeof owner);
    if ((run->spec.options.flags & SPEC_OWNED) && stop_act(ASKER_OWNER, run_stage(run)) != ACT_JOIN) {
        struct stop stop = {.cause = CAUSE_OWNER, .by_pid = pid, .by_uid = uid, .reason = ""};
        run_stop(run, &stop);
    }
}

void requests_starter_left(struct run *run) {
    static const char reason[] = "the process that started holdfast is gone";
    const struct stop stop = {.cause = CAUSE_OWNER, .reason = reason, .reason_length = sizeof reason - 1};
    run_reap(run);
    if (run->phase < PHASE_DRAINING && stop_act(ASKER_OWNER, run_stage(run)) != ACT_JOIN)
        run_stop(run, &stop);
}

/* ── packets ──────────────────────────────────────────────────────────────────────────────────────────────────── */

static int stop_requested(struct run *run, const struct request *request) {
    const struct owner *owner = &run->control.owners[request->owner];
    const bool within = request->frame.type == PACKET_STOP_WITHIN;
    const size_t fixed = within ? sizeof request->body.stop_within : sizeof request->body.stop;
    struct stop stop = {
        .cause = (enum stop_cause)request->body.stop.cause,
        .now = request->body.stop.now != 0,
        .person = request->body.stop.person != 0,
        .has_grace = within,
        .grace_ns = within ? request->body.stop_within.grace_ns : 0,
        .signal = request->body.stop.signal,
        .by_pid = owner->pid,
        .by_uid = owner->uid,
        .reason = request->body.bytes + fixed,
        .reason_length = request->frame.length > fixed ? request->frame.length - fixed : 0,
    };
    if (stop.cause < CAUSE_USER || stop.cause > CAUSE_SUPERSEDED)
        return EINVAL;
    return run_stop(run, &stop);
}

/*
 * The order matters: the owner reads, asks, reads again, sleeps. It has seen what we recorded before its last read. We
 * announce what we record after this request. And here we announce what we recorded in between, while the request was
 * on its way.
 */
static void read_requested(struct run *run, const struct request *request) {
    if (request->body.read.seen != READ_NO_WAKE) {
        run->control.owners[request->owner].wants_output = true;
        if (run->output.recorded_to > request->body.read.seen && run->output.unannounced == 0)
            run->output.unannounced = request->body.read.seen + 1; /* as soon as the file has anything beyond it */
        run_wake_readers(run);
    }
    const uint64_t consumed = request->body.read.consumed;
    if (consumed == READ_HOLDS_NOTHING)
        run->control.owners[request->owner].holds_from = 0;
    else if (consumed > 0 && run->output.window > 0 && consumed <= run->journal.length)
        run->control.owners[request->owner].holds_from = consumed;
    else
        return;
    run->output.consumed = control_held_from(&run->control);
    if (!run->output.rolls)
        journal_release(&run->journal, run->output.consumed);
}

static void give_input(struct run *run, const struct request *request) {
    control_answer(&run->control, request, run->input < 0 ? ENOENT : 0, run->input);
}

static int close_input(struct run *run) {
    if (run->input < 0)
        return ENOENT;
    close(run->input);
    run->input = -1;
    return 0;
}

static void handle(struct run *run, const struct request *request) {
    int error = 0;
    switch (request->frame.type) {
    case PACKET_READ:
        read_requested(run, request);
        return;
    case PACKET_GIVE_INPUT:
        give_input(run, request);
        return;
    case PACKET_STOP:
    case PACKET_STOP_WITHIN:
        error = stop_requested(run, request);
        break;
    case PACKET_SIGNAL:
        error = send_signal(run, request->body.signal.signal, (enum signal_scope)request->body.signal.scope);
        break;
    case PACKET_EXTEND:
        error = extend(run, request->owner, request->body.extend.by_ns);
        break;
    case PACKET_CLOSE_INPUT:
        error = close_input(run);
        break;
    case PACKET_KEEP:
        error = successor_take(run, request);
        break;
    case PACKET_HEARTBEAT:
        activity_seen(&run->activity, clock_now());
        break;
    default:
        error = EINVAL;
    }
    journal_commit(&run->journal); /* an owner may rely on an answer: what it confirms is on record */
    control_answer(&run->control, request, error, -1);
}

void requests_owner_left(struct run *run, int index) {
    const struct owner owner = run->control.owners[index];
    control_drop(&run->control, index);
    if (index == 0)
        owner_gone(run, owner.pid, owner.uid);
}

void requests_serve(struct run *run, int index) {
    static struct request request;
    /* Only up to the end of the run: the packet after it may be the next run. */
    for (int served = 0; served < REQUESTS_AT_ONCE && run->control.owners[index].fd >= 0 && run->phase != PHASE_ENDED;
         served++) {
        switch (control_receive(&run->control, index, &request)) {
        case CONTROL_NOTHING:
            return;
        case CONTROL_GONE:
            requests_owner_left(run, index);
            return;
        case CONTROL_REQUEST:
            handle(run, &request);
        }
    }
}

void requests_welcome(struct run *run) {
    requests_serve(run, OWNER_NEWEST); /* what it has asked for comes before the owner that may replace it */
    if (run->phase == PHASE_ENDED)
        return;
    int index = control_accept(&run->control);
    if (run->control.accept_paused)
        timer_set(&run->timers, TIMER_LISTEN, clock_now() + LISTEN_AGAIN_NS);
    if (index < 0)
        return;
    const struct owner *owner = &run->control.owners[index];
    struct fact_owner came = {.pid = owner->pid, .uid = (int32_t)owner->uid};
    repeats_fact(&run->repeats, &run->journal, REPEATED_OWNER_CAME, &came, sizeof came);
}
