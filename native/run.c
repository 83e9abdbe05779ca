/* run: one run, from the held child to the end of its record */
#include "run.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "budget.h"
#include "expiry.h"
#include "own_state.h"
#include "phases.h"
#include "procfs.h"
#include "traced.h"

#define REAP_SLICE_NS 10000000u
#define TERMINAL_AGAIN_NS 100000000u

/* ── children ─────────────────────────────────────────────────────────────────────────────────────────────────── */

void run_spawn_failed(struct run *run, const struct fact_spawn_failed *failure) {
    journal_fact(&run->journal, FACT_SPAWN_FAILED, failure, sizeof *failure);
    run_begin_quiet_end(run);
}

void run_never_started(struct run *run, const struct fact_spawn_failed *failure) {
    run_spawn_failed(run, failure);
    run_reap(run);
}

void run_record_exited(struct run *run, const struct fact_exited *exited) {
    run_record_budgets(run); /* out of memory, or out of processes: that came before the exit */
    if (run->phase == PHASE_RUNNING && !run->output.drops && output_will_be_over_cap(&run->output))
        run_record_output_limit(run); /* so did its output */
    journal_fact(&run->journal, FACT_EXITED, exited, sizeof *exited);
}

/* The writer may be our child. Its exit signal is 0, so without __WALL the kernel counts only the others. */
static bool only_writer_is_left(const struct run *run) {
    siginfo_t info;
    return run->journal.writer != NULL && waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

/*
 * The guard asks for the leader by its PID, so that its exit never waits behind a queue of others. It reaps the others
 * for some milliseconds at most: in a storm of forks, processes die as fast as we can count, and clocks and owners
 * must not wait for that.
 */
void run_collect(struct run *run) {
    int status;
    struct rusage usage;
    if (run->leader > 0 && traced_wait(run->leader, &run->spawned.process, &status, &usage) > 0)
        run->location->child_changed(run, run->leader, status, &usage);
    const uint64_t until = clock_now() + REAP_SLICE_NS;
    pid_t pid;
    do {
        pid = wait4(-1, &status, WNOHANG | WUNTRACED | WCONTINUED | __WALL, &usage);
        if (pid > 0)
            run->location->child_changed(run, pid, status, &usage);
    } while (pid > 0 && clock_now() < until);
    run->reap_again = pid > 0;
    run->children_gone = (pid < 0 && errno == ECHILD) || (pid == 0 && only_writer_is_left(run));
    if (run->leader == 0 && run->spawned.process > 0) {
        close(run->spawned.process);
        run->spawned.process = -1;
    }
}

void run_reap(struct run *run) {
    const bool had_leader = run->leader > 0;
    run_collect(run);
    run->location->conclude(run, had_leader && run->leader == 0);
}

/* ── the start ────────────────────────────────────────────────────────────────────────────────────────────────── */

static void record_command_started(struct run *run) {
    struct process_stat status = {.start_ticks = run->spawned.start_ticks};
    if (status.start_ticks == 0)
        read_stat(run->leader, &status);
    struct fact_started started = {
        .pid = run->leader > 0 ? run->leader : run->foreign.pid,
        .guard_pid = getpid(),
        .start_ticks = status.start_ticks,
        .containment = run->location->containment(run),
    };
    run_record_started(run, &started);
}

void run_record_started(struct run *run, const struct fact_started *started) {
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
    journal_fact_text(&run->journal, FACT_STARTED, started, sizeof *started, path, length);
}

void run_start(struct run *run) {
    if (run->leader == 0 && run->foreign.pid == 0) { /* the child was killed while it was held */
        run_never_started(run, &(struct fact_spawn_failed){STEP_SETUP, ESRCH});
        return;
    }
    if (!run->start_recorded)
        record_command_started(run);
    run->start_recorded = true;
    /* Hold before exec: the record comes first. A foreign process runs already. */
    if (!journal_commit(&run->journal) && run->foreign.pid == 0)
        return; /* the loop comes here again */
    run->phase = PHASE_RUNNING;
    run->wake_owners = (run->spec.options.flags & SPEC_LISTEN) != 0; /* no owner of a short run waits for its start */
    if (run->spec.options.flags & SPEC_AGAIN)
        own_state_note();
    run->started_ns = clock_now();
    run_arm_timers(run, run->started_ns);
    run->location->release(run);
}

/* ── output ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static void stop_over_output(struct run *run) {
    run_reap(run);
    if (!run_may_begin_stop(run))
        return;
    run_record_output_limit(run);
    run_begin_stop(run);
}

void run_output(struct run *run, int stream) {
    if (output_read(&run->output, stream)) {
        const uint64_t now = clock_now();
        if (run->spec.options.flags & SPEC_IDLE_OUTPUT)
            activity_seen(&run->activity, now);
        if (run->phase == PHASE_DRAINING)
            timer_set(&run->timers, TIMER_DRAIN_IDLE, clock_after(now, run->spec.options.drain_idle_ns));
        run_wake_readers(run);
    }
    if (run->output.streams[stream].hung)
        timer_set(&run->timers, TIMER_TERMINAL, clock_now() + TERMINAL_AGAIN_NS);
    if (output_over_cap(&run->output) && !run->output.drops && run_may_begin_stop(run))
        stop_over_output(run);
    if (run->phase == PHASE_DRAINING && output_at_end(&run->output))
        run_settle(run, DRAIN_EOF);
}
