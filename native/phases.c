/* phases: how a run gets from one phase to the next; the diagram is in run.h */
#include "phases.h"

#include <signal.h>
#include <unistd.h>

#include "host.h"
#include "ladder.h"
#include "own_state.h"
#include "priority.h"
#include "tree.h"
#include "witness.h"
#include "writer.h"

enum { SURVIVORS_TEXT = 6000, READ_AT_ONCE = 8 << 20 };
#define RECORD_WAIT_NS 1000000000u /* how long an ended run waits for storage that has to take the end of its record */

/*
 * Short runs do without this: it costs them more than it is worth. A leader whose end a tracer hides is noticed
 * late by the length of a short run at most.
 */
void run_attend_closely(struct run *run) {
    priority_take_short_turns();
    if (run->leader > 0)
        spawn_watch(&run->spawned);
}

/* Every phase sets its own timers. */
static void enter(struct run *run, enum phase phase) {
    run->phase = phase;
    timers_clear(&run->timers);
    witness_off();
    run->control.accept_paused = false; /* TIMER_LISTEN, which would end the pause, is off now */
    if (phase == PHASE_STOPPING)
        run_attend_closely(run);
}

void run_wake_readers(struct run *run) {
    if (run->output.unannounced == 0)
        return;
    if (!control_has_readers(&run->control)) {
        run->output.unannounced = 0;
        return;
    }
    if (journal_committed(&run->journal) < run->output.unannounced && !journal_commit(&run->journal))
        return;
    run->output.unannounced = 0;
    control_wake_readers(&run->control, journal_committed(&run->journal));
}

void run_announce(struct run *run) {
    journal_flush(&run->journal);
    if (run->wake_owners)
        run->wake_at = run->journal.length;
    run->wake_owners = false;
    if (run->wake_at > 0 && (journal_committed(&run->journal) >= run->wake_at || journal_commit(&run->journal))) {
        run->wake_at = 0;
        control_wake(&run->control, journal_committed(&run->journal));
    }
    run_wake_readers(run);
}

void run_revive_writer(struct run *run) {
    writer_revive(run->journal.writer);
    tree_spare(run->journal.writer->pid);
}

bool run_awaits_storage(const struct run *run) {
    if (run->journal.writer == NULL)
        return false;
    return run->wake_at > 0 || run->output.unannounced > 0 || run->phase == PHASE_RECORDING ||
           (run->phase == PHASE_HELD && run->start_recorded) || output_awaits_storage(&run->output);
}

bool run_may_begin_stop(const struct run *run) { return run->phase == PHASE_RUNNING || run->phase == PHASE_LINGERING; }

enum stage run_stage(const struct run *run) {
    switch (run->phase) {
    case PHASE_HELD:
        return STAGE_HELD;
    case PHASE_RUNNING:
    case PHASE_LINGERING:
        return STAGE_ALIVE;
    case PHASE_STOPPING:
        if (run->rung >= run->spec.rungs)
            return STAGE_LAST;
        return run->person_asked ? STAGE_INSISTED : STAGE_GRACE;
    case PHASE_DRAINING:
    case PHASE_RECORDING:
    case PHASE_ENDED:
        break;
    }
    return STAGE_OVER;
}

/* ── stopping ─────────────────────────────────────────────────────────────────────────────────────────────────── */

void run_begin_stop(struct run *run) {
    const bool fence_comes_with_drain = run->location->output_is_on_its_way(run);
    const uint64_t deadline = run->timers.due_ns[TIMER_DEADLINE];
    enter(run, PHASE_STOPPING);
    if (deadline > 0 && run->leader > 0) /* a deadline that passes within the grace goes on record */
        timer_set(&run->timers, TIMER_DEADLINE, deadline);
    run->wake_owners = true;
    if (!fence_comes_with_drain)
        output_fence(&run->output);
    ladder_climb(run);
}

void run_begin_quiet_end(struct run *run) {
    enter(run, PHASE_STOPPING);
    run->wake_owners = true;
    if (run->leader > 0)
        kill(run->leader, SIGKILL);
    agent_link_close(&run->agent); /* the agent, if there is one, ends what it holds */
    ladder_await_last(run);
}

bool run_leaves_guard_reusable(const struct run *run) {
    const uint32_t flags = run->spec.options.flags;
    return (flags & SPEC_AGAIN) != 0 && (flags & (SPEC_PTY | SPEC_LISTEN)) == 0 && run->children_gone &&
           run->control.owners[0].fd >= 0 && !run->control.takes_no_more;
}

static bool has_successor(const struct run *run) { return run->successor.files[KEEP_JOURNAL] >= 0; }

/* ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────── */

void run_settle(struct run *run, enum drain_end how) {
    output_conclude(&run->output);
    struct fact_drained drained = {
        .how = run->output.interrupted ? DRAIN_INTERRUPTED : (int32_t)how,
        .stdout_bytes = run->output.streams[0].bytes,
        .stderr_bytes = run->output.streams[1].bytes,
        .late_bytes = run->output.late_bytes,
        .dropped_bytes = run->output.dropped_bytes,
    };
    if (has_successor(run))
        output_keep_open(&run->output, run->successor.streams);
    output_close(&run->output);
    repeats_conclude(&run->repeats, &run->journal);
    journal_fact(&run->journal, FACT_DRAINED, &drained, sizeof drained);
    priority_give_back_turns();
    /* Before END is on record: after it the owner may send the next run. */
    if (run_leaves_guard_reusable(run) && !own_state_is_as_noted())
        control_take_no_more(&run->control);
    if (run_leaves_guard_reusable(run))
        cgroup_keep(&run->cgroup, &run->spec);
    else if (!has_successor(run))
        cgroup_remove(&run->cgroup);
    if (run->journal.error != 0) {
        struct fact_recording_failed failed = {.error = run->journal.error};
        journal_fact(&run->journal, FACT_RECORDING_FAILED, &failed, sizeof failed);
    }
    if (run->control.listener >= 0 && run->journal.writer == NULL)
        unlinkat(GUARD_FD_DIRECTORY, "guard.sock", 0); /* before END is on record: a run that has ended has no socket */
    journal_note_stall(&run->journal);
    journal_fact(&run->journal, FACT_END, &run->usage, sizeof run->usage);
    run_end_record(run);
}

void run_end_record(struct run *run) {
    journal_close(&run->journal);
    run->wake_owners = true;
    enter(run, PHASE_RECORDING);
    timer_set(&run->timers, TIMER_RECORD, clock_now() + RECORD_WAIT_NS);
    journal_commit(&run->journal);
    run_end_if_recorded(run);
}

void run_end_if_recorded(struct run *run) {
    if (run->phase != PHASE_RECORDING || journal_committed(&run->journal) < run->journal.length)
        return;
    run_announce(run);
    run->phase = PHASE_ENDED;
}

void run_end_unrecorded(struct run *run) {
    const struct writer *writer = run->journal.writer;
    const struct packet_unrecorded rest = {
        .kept_from = atomic_load(&writer->kept_from),
        .length = run->journal.length,
        .stalled_ns = writer_busy_for(writer, clock_now()),
    };
    control_tell_unrecorded(&run->control, &rest, writer->memory);
    run->phase = PHASE_ENDED;
}

void run_end_drain(struct run *run, enum drain_end how) {
    output_end_drain(&run->output);
    output_read_all(&run->output, READ_AT_ONCE); /* what came while the guard slept was in time */
    run_settle(run, output_at_end(&run->output) ? DRAIN_EOF : how);
}

void run_begin_drain(struct run *run, enum tree_end how) {
    char survivors[SURVIVORS_TEXT];
    size_t length = 0;
    struct fact_tree tree = {.how = (int32_t)how};
    if (how == TREE_SURVIVORS) {
        tree.count = run->location->survivors(run, survivors, sizeof survivors, &length);
        if (tree.count == 0)
            tree.how = TREE_UNKNOWN; /* waitpid does not say ECHILD, but no process is to be seen */
    }
    output_fence(&run->output);
    output_begin_drain(&run->output);
    host_end_signals(run);
    journal_fact_text(&run->journal, FACT_TREE, &tree, sizeof tree, survivors, length);
    enter(run, PHASE_DRAINING);
    const struct spec_options *options = &run->spec.options;
    const uint64_t now = clock_now(), idle = clock_after(now, options->drain_idle_ns);
    timer_set(&run->timers, TIMER_DRAIN_IDLE, idle);
    /* After a normal exit one bound covers the stragglers and the drain. */
    uint64_t bound = run->bound_ns == 0 ? clock_after(now, options->drain_ns) : run->bound_ns;
    timer_set(&run->timers, TIMER_DRAIN, bound > idle ? bound : idle);
    output_read_all(&run->output, READ_AT_ONCE);
    run_wake_readers(run);
    if (output_at_end(&run->output))
        run_settle(run, DRAIN_EOF);
}
