/* host: a run whose command runs on this host, below the guard itself */
#include "host.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "clock.h"
#include "expiry.h"
#include "phases.h"
#include "procfs.h"
#include "run.h"
#include "traced.h"
#include "tree.h"

#define KEEP_WAIT_NS 5000000000u /* how long the owner may take to make a run for the stragglers */

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

static struct fact_exited exit_of(int wait_status, const struct rusage *usage) {
    return (struct fact_exited){
        .wait_status = wait_status,
        .user_us = microseconds(usage->ru_utime),
        .system_us = microseconds(usage->ru_stime),
        .max_rss_kib = usage->ru_maxrss,
    };
}

/* Records how the leader ended. */
static void leader_exited(struct run *run, int wait_status, const struct rusage *usage) {
    run->leader = 0;
    if (exec_has_failed(run))
        return;
    if (run->started_ns == 0 || run->spawned.failed)
        return; /* it was the held child, or exec failed: the command never ran */
    const struct fact_exited exited = exit_of(wait_status, usage);
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
    if (WIFEXITED(wait_status) || WIFSIGNALED(wait_status)) {
        add_usage(&run->usage, usage);
        run->last_exit = exit_of(wait_status, usage);
    }
    if (traced_let_go(pid, wait_status)) /* an orphan, too: it would stand still until the deadline */
        return;
    if (pid == run->leader)
        leader_changed(run, wait_status, usage);
}

static void end_stragglers(struct run *run) {
    run->bound_ns = clock_after(clock_now(), run->spec.options.drain_ns);
    run_begin_stop(run);
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
    case STRAGGLERS_SESSION:
        if (stragglers.count > 0 && run->control.owners[0].fd >= 0) {
            run->phase = PHASE_LINGERING; /* until the owner sends PACKET_KEEP */
            timer_set(&run->timers, TIMER_AGENT, clock_now() + KEEP_WAIT_NS);
            break;
        }
        end_stragglers(run);
        break;
    case STRAGGLERS_KILL:
    default:
        end_stragglers(run);
    }
}

/* The owner has made no run for the stragglers. */
static void host_overdue(struct run *run) {
    run_reap(run);
    if (run->phase == PHASE_LINGERING)
        end_stragglers(run);
}

/* Every process of a successor has ended. The last of them says how. */
static void successor_ended(struct run *run) {
    run->wake_owners = true;
    run_record_exited(run, &run->last_exit);
    run_begin_drain(run, TREE_GONE);
}

static void host_conclude(struct run *run, bool leader_has_left) {
    if (run->phase == PHASE_RUNNING && leader_has_left)
        leader_left(run);
    else if (run->succeeds && run->phase == PHASE_RUNNING && run->children_gone)
        successor_ended(run);
    else if (run->children_gone && (run->phase == PHASE_STOPPING || run->phase == PHASE_LINGERING))
        run_begin_drain(run, TREE_GONE);
}

bool host_output_is_on_its_way(const struct run *run) {
    (void)run;
    return false; /* the command writes straight into our pipes, so after its exit all output is in them */
}

/* ── signals ──────────────────────────────────────────────────────────────────────────────────────────────────── */

static int signal_leader(struct run *run, int number) { return kill(run->leader, number); }

static int host_signal(struct run *run, int number, enum signal_scope scope) {
    return host_signal_by(run, number, scope, signal_leader);
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
