/* takeover: the end of a run whose guard is dead, by its sentinel */
#include "takeover.h"

#include <signal.h>
#include <sys/wait.h>

#include "expiry.h"
#include "host.h"
#include "ladder.h"
#include "loop.h"
#include "phases.h"
#include "sentinel.h"
#include "tree.h"
#include "walk.h"

/* Whether the command ended by itself. If the guard's death killed it, SIGKILL did. */
static bool leader_has_exited(const struct run *run) {
    siginfo_t info = {.si_pid = 0};
    return run->leader > 0 && waitid(P_PID, (id_t)run->leader, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == run->leader && info.si_code == CLD_EXITED;
}

static void record_lost(struct run *run, const struct fact_guard_lost *lost) {
    if (leader_has_exited(run))
        run_collect(run);
    else if (run->phase == PHASE_RUNNING && run_deadline_has_passed(run))
        journal_fact(&run->journal, FACT_DEADLINE, &(struct fact_expired){run->deadline_ns}, sizeof(struct fact_expired));
    journal_fact(&run->journal, FACT_GUARD_LOST, lost, sizeof *lost);
    run->wake_owners = true;
}

static void end_tree(struct run *run) {
    switch (run->phase) {
    case PHASE_HELD:
        run_begin_quiet_end(run);
        break;
    case PHASE_RUNNING:
    case PHASE_LINGERING:
        if (run->foreign.pid > 0) { /* the process of another program: it is left alone, and nothing is claimed of it */
            run_begin_drain(run, TREE_UNKNOWN);
            break;
        }
        ladder_skip_to_last(run);
        run_begin_stop(run);
        break;
    case PHASE_STOPPING:
        run->rung = run->spec.rungs - 1;
        ladder_climb(run);
        break;
    case PHASE_DRAINING: /* its timers are set */
    case PHASE_RECORDING:
    case PHASE_ENDED:
        break;
    }
}

static bool is_over(const struct run *run) {
    return !atomic_load(&sentinel->keeps_run) || run->phase == PHASE_ENDED;
}

/* Goes on with the record. False: it has its end. */
static bool take_record(struct run *run) {
    run->spec.options.flags &= ~(uint32_t)SPEC_AGAIN; /* this was the last run */
    output_take_over(&run->output);
    journal_take_over(&run->journal);
    if (run->journal.writer != NULL)
        run_revive_writer(run);
    if (run->journal.ended) { /* only the announcement is missing */
        run_end_record(run);
        return false;
    }
    if (run->location == NULL) /* the guard died before it knew */
        run->location = &host_location;
    return true;
}

static void settle(struct run *run, int signals) {
    if (run->phase != PHASE_ENDED)
        run_announce(run); /* a run that drains may sleep for long: its owners learn of the lost guard now */
    while (run->phase != PHASE_ENDED)
        loop_turn(run, signals);
    cgroup_remove(&run->cgroup);
}

void takeover_as_stranger(struct run *run, int signals, const struct fact_guard_lost *lost,
                          enum tree_end (*kill_tree)(struct run *run)) {
    if (is_over(run)) {
        cgroup_remove(&run->cgroup);
        return;
    }
    run->leader = 0; /* no child of ours */
    if (take_record(run)) {
        record_lost(run, lost);
        if (run->phase != PHASE_DRAINING)
            run_begin_drain(run, run->foreign.pid > 0 ? TREE_UNKNOWN : kill_tree(run));
    }
    settle(run, signals);
}

int takeover(struct run *run, int signals, const struct fact_guard_lost *lost) {
    if (is_over(run)) {
        if (run->successor.files[KEEP_JOURNAL] >= 0) /* the guard died between the two runs */
            successor_end_tree(run);
        cgroup_remove(&run->cgroup);
        return GUARD_OK;
    }
    tree_set_leader(run->spawned.pid); /* also when the guard has reaped it: others may be in its group */
    walk_set_killed_guard(lost->guard_pid);
    if (run->location == &host_location && (run_may_begin_stop(run) || run->phase == PHASE_STOPPING))
        walk_signal_group(SIGSTOP); /* before all else: if the tree has starved the guard, it starves us as well */
    if (take_record(run)) {
        if (run->foreign.pid > 0)
            tree_set_outside(run->foreign.pid, run->foreign.start_ticks);
        record_lost(run, lost);
        end_tree(run);
        run_reap(run);
    }
    settle(run, signals);
    return GUARD_OK;
}
