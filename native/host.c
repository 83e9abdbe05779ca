/* host: a run whose command runs on this host, below the guard itself */
#include "host.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "clock.h"
#include "expiry.h"
#include "phases.h"
#include "priority.h"
#include "procfs.h"
#include "run.h"
#include "traced.h"
#include "tree.h"

#define LAST_PASS_NS 50000000u
#define WALK_SLICE_NS 20000000u /* while it walks, the guard looks at clocks and owners this often */

/* ── the start ────────────────────────────────────────────────────────────────────────────────────────────────── */

static enum containment host_containment(const struct run *run) {
    return run->cgroup.unified.leaf >= 0 ? CONTAINMENT_CGROUP : CONTAINMENT_SUBREAPER;
}

static void host_release(struct run *run) {
    (void)run;
    spawn_release(); /* if the child is dead already, its SIGCHLD is on the way, and its end will be recorded */
}

/* Records a failed exec, unless the outcome is decided. A child can fail before it is released, so HELD counts, too. */
static bool exec_has_failed(struct run *run) {
    struct fact_spawn_failed failure;
    if (!spawn_has_failed(&run->spawned, &failure) || (run->phase != PHASE_RUNNING && run->phase != PHASE_HELD))
        return false;
    run_spawn_failed(run, &failure);
    return true;
}

static void host_check_exec(struct run *run) { exec_has_failed(run); }

/* ── children ─────────────────────────────────────────────────────────────────────────────────────────────────── */

static int64_t microseconds(struct timeval time) { return (int64_t)time.tv_sec * 1000000 + time.tv_usec; }

/* Records how the leader ended. */
static void leader_exited(struct run *run, int wait_status, const struct rusage *usage) {
    run->leader = 0;
    if (exec_has_failed(run))
        return;
    if (run->started_ns == 0 || run->spawned.failed)
        return; /* it was the held child, or exec failed: the command never ran */
    struct fact_exited exited = {
        .wait_status = wait_status,
        .user_us = microseconds(usage->ru_utime),
        .system_us = microseconds(usage->ru_stime),
        .max_rss_kib = usage->ru_maxrss,
    };
    if (run->phase == PHASE_RUNNING && !run->exit_witnessed && run_deadline_has_passed(run))
        run_count_exit_as_late(run);
    run_record_exited(run, &exited);
}

static void leader_changed(struct run *run, int wait_status, const struct rusage *usage) {
    if (WIFSTOPPED(wait_status)) {
        struct fact_stopped stopped = {.signal = WSTOPSIG(wait_status)};
        run->wake_owners |= repeats_fact(&run->repeats, &run->journal, REPEATED_STOPPED, &stopped, sizeof stopped);
    } else if (WIFCONTINUED(wait_status)) {
        run->wake_owners |= repeats_fact(&run->repeats, &run->journal, REPEATED_CONTINUED, "", 0);
    } else {
        leader_exited(run, wait_status, usage);
    }
}

/* Adds up the usage of the run. RUSAGE_CHILDREN would be wrong: it counts for the life of the guard, not of the run. */
static void add_usage(struct fact_end *total, const struct rusage *usage) {
    total->user_us += microseconds(usage->ru_utime);
    total->system_us += microseconds(usage->ru_stime);
    if (usage->ru_maxrss > total->max_rss_kib)
        total->max_rss_kib = usage->ru_maxrss;
}

static void host_child_changed(struct run *run, pid_t pid, int wait_status, const struct rusage *usage) {
    if (WIFEXITED(wait_status) || WIFSIGNALED(wait_status))
        add_usage(&run->usage, usage);
    if (traced_let_go(pid, wait_status)) /* an orphan, too: it would stand still until the deadline */
        return;
    if (pid == run->leader)
        leader_changed(run, wait_status, usage);
}

static void leader_left(struct run *run) {
    run->wake_owners = true;
    if (run->children_gone) {
        run_begin_drain(run, TREE_GONE);
        return;
    }
    if (run->exit_is_late) { /* its tree is ended as after any deadline */
        run_begin_stop(run);
        return;
    }
    struct fact_stragglers stragglers = {.count = tree_count(), .policy = run->spec.options.stragglers};
    if (stragglers.count == 0 && !proc_is_ours())
        stragglers.count = 1; /* at least: we have children, and cannot see how many processes there are */
    if (stragglers.count > 0)
        journal_fact(&run->journal, FACT_STRAGGLERS, &stragglers, sizeof stragglers);
    switch ((enum stragglers)stragglers.policy) {
    case STRAGGLERS_WAIT:
        run->phase = PHASE_LINGERING;
        break;
    case STRAGGLERS_LEAVE:
        cgroup_move_members_out(&run->cgroup);
        run_begin_drain(run, TREE_SURVIVORS);
        break;
    case STRAGGLERS_KILL:
    default:
        run->bound_ns = clock_after(clock_now(), run->spec.options.drain_ns);
        run_begin_stop(run);
    }
}

/* Nothing on the host sets TIMER_AGENT. */
static void host_overdue(struct run *run) { (void)run; }

static void host_conclude(struct run *run, bool leader_has_left) {
    if (run->phase == PHASE_RUNNING && leader_has_left)
        leader_left(run);
    else if (run->children_gone && (run->phase == PHASE_STOPPING || run->phase == PHASE_LINGERING))
        run_begin_drain(run, TREE_GONE);
}

bool host_output_is_on_its_way(const struct run *run) {
    (void)run;
    return false; /* the command writes straight into our pipes, so after its exit all output is in them */
}

/* ── signals ──────────────────────────────────────────────────────────────────────────────────────────────────── */

bool host_is_reachable(const struct run *run) {
    (void)run;
    return true;
}

static void record_signalled(struct run *run, int number, int rung, struct reach reach) {
    struct fact_signalled signalled = {number, rung, reach.reached, reach.refused};
    if (rung >= 0)
        journal_fact(&run->journal, FACT_SIGNALLED, &signalled, sizeof signalled);
    else
        repeats_fact(&run->repeats, &run->journal, REPEATED_SIGNALLED, &signalled, sizeof signalled);
}

/* A rung whose walk may take several turns of the guard. It is recorded when the walk is over. */
static struct {
    bool is_under_way;
    int signal;
    size_t rung;
} asked;

static bool kill_is_unrecorded; /* the first walk of the last rung is not over */

static void end_ask(struct run *run) {
    if (!asked.is_under_way)
        return;
    asked.is_under_way = false;
    timer_off(&run->timers, TIMER_WALK);
    cgroup_thaw(&run->cgroup);
    record_signalled(run, asked.signal, (int)asked.rung, tree_end_ask());
}

void host_go_on_asking(struct run *run) {
    if (!asked.is_under_way)
        return;
    if (tree_go_on_asking(clock_now() + WALK_SLICE_NS))
        end_ask(run);
    else
        timer_set(&run->timers, TIMER_WALK, clock_now()); /* after a look at clocks and owners */
}

/*
 * The leaf is frozen during the walk: nothing forks behind the guard's back, and nothing keeps the processor from it.
 * A frozen process takes the signal when it is thawed.
 */
void host_ask(struct run *run, int number, size_t rung) {
    end_ask(run);
    priority_raise();
    asked.is_under_way = true;
    asked.signal = number;
    asked.rung = rung;
    cgroup_freeze(&run->cgroup);
    tree_begin_ask(number);
    host_go_on_asking(run);
}

static void collect(void *run) { run_collect(run); }

static struct reach kill_tree(struct run *run) {
    const struct reach reach = tree_kill(collect, run);
    if (kill_is_unrecorded && reach.is_whole) {
        kill_is_unrecorded = false;
        record_signalled(run, SIGKILL, (int)run->spec.rungs - 1, reach);
    }
    return reach;
}

void host_kill(struct run *run) {
    end_ask(run);
    priority_raise();
    const int members = cgroup_kill(&run->cgroup);
    kill_is_unrecorded = members < 0;
    if (kill_is_unrecorded)
        kill_tree(run);
    else
        record_signalled(run, SIGKILL, (int)run->spec.rungs - 1, (struct reach){.reached = members});
}

void host_end_signals(struct run *run) {
    end_ask(run);
    if (kill_is_unrecorded)
        record_signalled(run, SIGKILL, (int)run->spec.rungs - 1, (struct reach){0});
    kill_is_unrecorded = false;
    priority_lower();
}

uint64_t host_kill_again(struct run *run) {
    cgroup_kill(&run->cgroup);
    if (kill_tree(run).found_new)
        run->pass_ns = 0; /* a storm of forks: again at once, after a look at clocks and owners */
    else
        run->pass_ns = run->pass_ns * 2 < LAST_PASS_NS ? run->pass_ns * 2 + HOST_FIRST_PASS_NS : LAST_PASS_NS;
    return run->pass_ns;
}

void host_give_up(struct run *run) { run_begin_drain(run, TREE_SURVIVORS); }

int host_survivors(const struct run *run, char *text, size_t size, size_t *length) {
    (void)run;
    return tree_survivors(text, size, length);
}

int host_signal_by(struct run *run, int number, enum signal_scope scope, int (*to_one)(struct run *run, int signal)) {
    struct reach reach = {0};
    if (scope == SCOPE_TREE)
        reach = tree_signal(number);
    else if (to_one(run, number) == 0)
        reach.reached = 1;
    else
        reach.refused = 1;
    record_signalled(run, number, -1, reach);
    return reach.reached == 0 && reach.refused > 0 ? EPERM : 0;
}

static int signal_leader(struct run *run, int number) { return kill(run->leader, number); }

static int host_signal(struct run *run, int number, enum signal_scope scope) {
    return host_signal_by(run, number, scope, signal_leader);
}

void host_warn(struct run *run, int number) {
    struct fact_warned warned = {.signal = number, .reached = tree_warn(number).reached};
    journal_fact(&run->journal, FACT_WARNED, &warned, sizeof warned);
}

const struct location host_location = {
    .containment = host_containment,
    .release = host_release,
    .check_exec = host_check_exec,
    .child_changed = host_child_changed,
    .conclude = host_conclude,
    .overdue = host_overdue,
    .output_is_on_its_way = host_output_is_on_its_way,
    .is_reachable = host_is_reachable,
    .ask = host_ask,
    .kill = host_kill,
    .first_pass_ns = HOST_FIRST_PASS_NS,
    .kill_again = host_kill_again,
    .give_up = host_give_up,
    .survivors = host_survivors,
    .signal = host_signal,
    .warn = host_warn,
};
