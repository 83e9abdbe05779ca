#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ladder.h"
#include "phases.h"
#include "procfs.h"

enum { SURVIVORS_TEXT = 6000, READ_AT_ONCE = 8 << 20 };
#define REAP_SLICE_NS 10000000u
#define TERMINAL_AGAIN_NS 100000000u

void run_announce(struct run *run) {
    journal_flush(&run->journal);
    if (run->wake_owners)
        control_wake(&run->control, run->journal.length);
    run->wake_owners = false;
}

bool run_can_be_followed(const struct run *run) {
    const uint32_t flags = run->spec.options.flags;
    return (flags & SPEC_AGAIN) != 0 && (flags & (SPEC_PTY | SPEC_LISTEN)) == 0 && run->children_gone &&
           run->control.owners[0].fd >= 0;
}

/* ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────── */

static void finish(struct run *run, enum drain_end how) {
    struct fact_drained drained = {
        .how = (int32_t)how,
        .stdout_bytes = run->output.streams[0].bytes,
        .stderr_bytes = run->output.streams[1].bytes,
        .late_bytes = run->output.late_bytes,
        .dropped_bytes = run->output.dropped_bytes,
    };
    output_close(&run->output);
    journal_fact(&run->journal, FACT_DRAINED, &drained, sizeof drained);
    if (run_can_be_followed(run))
        cgroup_keep(&run->cgroup, &run->spec);
    else
        cgroup_remove(&run->cgroup);
    if (run->journal.error != 0) {
        struct fact_recording_failed failed = {.error = run->journal.error};
        journal_fact(&run->journal, FACT_RECORDING_FAILED, &failed, sizeof failed);
    }
    if (run->control.listener >= 0) /* before the end is on record: a run that is over has no socket */
        unlinkat(GUARD_FD_DIRECTORY, "guard.sock", 0);
    journal_fact(&run->journal, FACT_END, &run->usage, sizeof run->usage);
    journal_close(&run->journal);
    run->wake_owners = true;
    run_announce(run);
    run->phase = PHASE_ENDED;
}

void run_end_drain(struct run *run, enum drain_end how) {
    output_read_all(&run->output, READ_AT_ONCE); /* what came while we slept was in time */
    finish(run, output_at_end(&run->output) ? DRAIN_EOF : how);
}

/* The tree is gone, given up on, or to be left alone: only output is still of interest. */
void run_begin_drain(struct run *run, enum tree_end how) {
    char survivors[SURVIVORS_TEXT];
    size_t length = 0;
    struct fact_tree tree = {.how = (int32_t)how};
    if (how == TREE_SURVIVORS) {
        tree.count = run->location->survivors(run, survivors, sizeof survivors, &length);
        if (tree.count == 0)
            tree.how = TREE_UNKNOWN; /* no ECHILD, but nobody to be seen either */
    }
    output_fence(&run->output);
    run->output.final = true;
    journal_fact_text(&run->journal, FACT_TREE, &tree, sizeof tree, survivors, length);
    run->phase = PHASE_DRAINING;
    memset(&run->timers, 0, sizeof run->timers);
    const struct spec_options *options = &run->spec.options;
    const uint64_t now = clock_now(), idle = clock_after(now, options->drain_idle_ns);
    timer_set(&run->timers, TIMER_DRAIN_IDLE, idle);
    /* Behind a normal exit the whole of it has one bound, stragglers included. */
    uint64_t bound = run->bound_ns == 0 ? clock_after(now, options->drain_ns) : run->bound_ns;
    timer_set(&run->timers, TIMER_DRAIN, bound > idle ? bound : idle);
    output_read_all(&run->output, READ_AT_ONCE);
    control_wake_readers(&run->control, run->journal.length);
    if (output_at_end(&run->output))
        finish(run, DRAIN_EOF);
}

/* ── the verdict ──────────────────────────────────────────────────────────────────────────────────────────────── */

void run_begin_stop(struct run *run) {
    const bool fence_comes_with_drain = run->location->output_is_on_its_way(run);
    run->phase = PHASE_STOPPING;
    run->wake_owners = true;
    memset(&run->timers, 0, sizeof run->timers);
    if (!fence_comes_with_drain)
        output_fence(&run->output);
    ladder_climb(run);
}

/* The command never ran, or is ending by itself: nothing to ask for gracefully, only our own child to wait for. */
void run_begin_quiet_end(struct run *run) {
    run->phase = PHASE_STOPPING;
    run->wake_owners = true;
    memset(&run->timers, 0, sizeof run->timers);
    if (run->leader > 0)
        kill(run->leader, SIGKILL);
    inside_close(&run->inside); /* the agent, when there is one, ends whatever it holds */
    ladder_await_last(run);
}

static void record_output_limit(struct run *run) {
    struct fact_limit limit = {.what = LIMIT_OUTPUT, .limit = run->output.cap, .seen = run->output.seen_bytes};
    journal_fact(&run->journal, FACT_LIMIT, &limit, sizeof limit);
}

void run_spawn_failed(struct run *run, const struct fact_spawn_failed *failure) {
    journal_fact(&run->journal, FACT_SPAWN_FAILED, failure, sizeof *failure);
    run_begin_quiet_end(run);
}

void run_never_started(struct run *run, const struct fact_spawn_failed *failure) {
    run_spawn_failed(run, failure);
    run_reap(run);
}

bool run_is_deciding(const struct run *run) { return run->phase == PHASE_RUNNING || run->phase == PHASE_LINGERING; }

/* Records what the kernel, or our own sample, says of the budgets. True when one is spent. */
bool run_record_budgets(struct run *run) {
    struct fact_limit limit;
    struct fact_oom oom;
    switch (budget_check(&run->cgroup, &run->spec.options, &limit)) {
    case BUDGET_OVER:
        journal_fact(&run->journal, FACT_LIMIT, &limit, sizeof limit);
        return true;
    case BUDGET_OOM:
        oom.kills = cgroup_oom_kills(&run->cgroup);
        journal_fact(&run->journal, FACT_OOM, &oom, sizeof oom);
        return true;
    case BUDGET_KEPT:
    default:
        return false;
    }
}

void run_record_exited(struct run *run, const struct fact_exited *exited) {
    run_record_budgets(run); /* the kernel killed it for memory, or it gave up without forks: that came before the exit */
    if (run->phase == PHASE_RUNNING && !run->output.drops && output_will_be_over_cap(&run->output))
        record_output_limit(run); /* so did what it wrote */
    journal_fact(&run->journal, FACT_EXITED, exited, sizeof *exited);
}

/*
 * The leader is asked for by name, so that its exit is never behind a queue of others. Those are taken for some
 * milliseconds at most: a storm of forks may die as fast as we can count, and clocks and owners must not wait for that.
 */
void run_collect(struct run *run) {
    int status;
    struct rusage usage;
    if (run->leader > 0 && wait4(run->leader, &status, WNOHANG | WUNTRACED | WCONTINUED | __WALL, &usage) > 0)
        run->location->child_changed(run, run->leader, status, &usage);
    const uint64_t until = clock_now() + REAP_SLICE_NS;
    pid_t pid;
    do {
        pid = wait4(-1, &status, WNOHANG | WUNTRACED | WCONTINUED | __WALL, &usage);
        if (pid > 0)
            run->location->child_changed(run, pid, status, &usage);
    } while (pid > 0 && clock_now() < until);
    run->reap_again = pid > 0;
    run->children_gone = pid < 0 && errno == ECHILD;
}

void run_reap(struct run *run) {
    const bool had_leader = run->leader > 0;
    run_collect(run);
    run->location->conclude(run, had_leader && run->leader == 0);
}

/* ── the start ────────────────────────────────────────────────────────────────────────────────────────────────── */

static void record_started(struct run *run) {
    struct process_stat status = {.start_ticks = run->spawned.start_ticks};
    if (status.start_ticks == 0)
        read_stat(run->leader, &status);
    struct fact_started started = {
        .pid = run->leader,
        .guard_pid = getpid(),
        .start_ticks = status.start_ticks,
        .containment = run->location->containment(run),
    };
    char path[4096];
    size_t length = 0;
    if (run->cgroup.unified.leaf >= 0) {
        size_t base = strnlen(run->spec.cgroup, sizeof path - sizeof run->cgroup.name - 1);
        size_t name = strlen(run->cgroup.name);
        memcpy(path, run->spec.cgroup, base);
        path[base] = '/';
        memcpy(path + base + 1, run->cgroup.name, name);
        length = base + 1 + name;
    }
    journal_fact_text(&run->journal, FACT_STARTED, &started, sizeof started, path, length);
}

void run_start(struct run *run) {
    if (run->leader == 0) { /* somebody killed it while it was held */
        run_never_started(run, &(struct fact_spawn_failed){STEP_SETUP, ESRCH});
        return;
    }
    record_started(run);
    journal_flush(&run->journal); /* hold before exec: the record comes first */
    run->phase = PHASE_RUNNING;
    run->wake_owners = (run->spec.options.flags & SPEC_LISTEN) != 0; /* of short runs nobody waits for the start */
    run->started_ns = clock_now();
    run_arm_clocks(run, run->started_ns);
    run->location->release(run);
}

/* ── output ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static void stop_over_output(struct run *run) {
    run_reap(run);
    if (!run_is_deciding(run))
        return;
    record_output_limit(run);
    run_begin_stop(run);
}

void run_output(struct run *run, int stream) {
    if (output_read(&run->output, stream)) {
        const uint64_t now = clock_now();
        if (run->spec.options.flags & SPEC_IDLE_OUTPUT)
            activity_seen(&run->activity, now);
        if (run->phase == PHASE_DRAINING)
            timer_set(&run->timers, TIMER_DRAIN_IDLE, clock_after(now, run->spec.options.drain_idle_ns));
        control_wake_readers(&run->control, run->journal.length);
    }
    if (run->output.streams[stream].hung)
        timer_set(&run->timers, TIMER_TERMINAL, clock_now() + TERMINAL_AGAIN_NS);
    if (output_over_cap(&run->output) && !run->output.drops && run_is_deciding(run))
        stop_over_output(run);
    if (run->phase == PHASE_DRAINING && output_at_end(&run->output))
        finish(run, DRAIN_EOF);
}
