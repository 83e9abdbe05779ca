/* expiry: the timers of a run, and what happens when one is due */
#include "expiry.h"

#include "budget.h"
#include "doing.h"
#include "host.h"
#include "ladder.h"
#include "phases.h"
#include "stop.h"
#include "witness.h"

#define SHORT_RUN_NS 20000000u /* how long a run may last before its guard attends to it closely */
#define SAMPLE_SHARE 10u /* sampling a huge tree takes at most a tenth of the guard's time */

void run_set_deadline(struct run *run, uint64_t due_ns) {
    timer_set(&run->timers, TIMER_DEADLINE, due_ns);
    if (run->location == &host_location) /* elsewhere another process reaps the command */
        witness_arm(due_ns);
}

void run_arm_timers(struct run *run, uint64_t now) {
    const struct spec_options *options = &run->spec.options;
    timer_set(&run->timers, TIMER_LASTS, now + SHORT_RUN_NS);
    run->deadline_ns = run->recorded_deadline_ns = options->deadline_ns;
    if (options->deadline_ns > 0)
        run_set_deadline(run, clock_after(now, options->deadline_ns));
    if (options->deadline_ns > options->warn_before_ns && options->warn_before_ns > 0)
        timer_set(&run->timers, TIMER_WARN, clock_after(now, options->deadline_ns - options->warn_before_ns));
    activity_start(&run->activity, (options->flags & SPEC_IDLE_HEARTBEAT) ? GUARD_FD_HEARTBEAT : -1, now);
    const uint64_t first_look_ns = (options->flags & SPEC_IDLE_CPU) ? options->idle_ns / 4 : options->idle_ns;
    if (options->idle_ns > 0)
        timer_set(&run->timers, TIMER_IDLE, clock_after(now, first_look_ns));
    if (options->memory_bytes > 0 || options->processes > 0 || options->cpu_ns > 0 || run->session.table >= 0)
        timer_set(&run->timers, TIMER_SAMPLE, now + SAMPLE_EVERY_NS);
}

/* Looks at the command before the first signal changes what it does. */
static void record_expired(struct run *run, enum fact fact, uint64_t limit_ns) {
    char doing[DOING_TEXT];
    const struct fact_expired expired = {limit_ns};
    const bool is_seen = run->location == &host_location && run->leader > 0;
    const size_t length = is_seen ? doing_text(run->leader, doing) : 0;
    journal_fact_text(&run->journal, fact, &expired, sizeof expired, doing, length);
}

static void expire(struct run *run, enum fact fact, uint64_t limit_ns) {
    run_reap(run);
    const enum act act = stop_act(ASKER_CLOCK, run_stage(run));
    if (act == ACT_REFUSE || (act == ACT_JOIN && run->leader == 0))
        return; /* the command has ended: nothing is late */
    record_expired(run, fact, limit_ns);
    if (act == ACT_BEGIN)
        run_begin_stop(run);
}

bool run_deadline_has_passed(const struct run *run) {
    return timer_is_set(&run->timers, TIMER_DEADLINE) && run->timers.due_ns[TIMER_DEADLINE] <= clock_now();
}

void run_count_exit_as_late(struct run *run) {
    const struct fact_expired expired = {run->deadline_ns};
    run->exit_is_late = true;
    timer_off(&run->timers, TIMER_DEADLINE);
    journal_fact(&run->journal, FACT_ORDER_UNKNOWN, "", 0);
    journal_fact(&run->journal, FACT_DEADLINE, &expired, sizeof expired);
}

void run_deadline_witnessed(struct run *run) {
    if (run->phase != PHASE_RUNNING || !run_deadline_has_passed(run))
        return;
    timer_off(&run->timers, TIMER_DEADLINE);
    record_expired(run, FACT_DEADLINE, run->deadline_ns);
    run_begin_stop(run);
}

/* The timer is on while the guard reaps: an exit that it finds now is late, unless the kernel has told of it before. */
static void expire_deadline(struct run *run) {
    run_reap(run);
    if (!timer_is_set(&run->timers, TIMER_DEADLINE))
        return; /* the exit has settled it */
    timer_off(&run->timers, TIMER_DEADLINE);
    expire(run, FACT_DEADLINE, run->deadline_ns);
}

static void check_idle(struct run *run) {
    const struct spec_options *options = &run->spec.options;
    const uint64_t now = clock_now();
    if (output_waits(&run->output))
        activity_seen(&run->activity, now); /* the reader or the disk is slow, not the command */
    const uint64_t reaped_us = (uint64_t)(run->usage.user_us + run->usage.system_us);
    uint64_t again = activity_check(&run->activity, options, reaped_us, now);
    if (again > now)
        timer_set(&run->timers, TIMER_IDLE, again);
    else
        expire(run, FACT_IDLE, options->idle_ns);
}

static void check_budgets(struct run *run) {
    run_reap(run);
    if (!run_may_begin_stop(run)) {
        session_budget_leave(&run->session);
        return;
    }
    const uint64_t before = clock_now();
    const bool spent = run_record_budgets(run) || run_record_session_budget(run);
    const uint64_t after = clock_now(), cost = (after - before) * SAMPLE_SHARE;
    timer_set(&run->timers, TIMER_SAMPLE, after + (cost > SAMPLE_EVERY_NS ? cost : SAMPLE_EVERY_NS));
    if (spent)
        run_begin_stop(run);
}

static void warn(struct run *run) {
    run_reap(run);
    if (run_may_begin_stop(run))
        run->location->warn(run, run->spec.options.warn_signal);
}

void run_timer_is_due(struct run *run, enum timer timer) {
    if (timer != TIMER_DEADLINE)
        timer_off(&run->timers, timer);
    switch (timer) {
    case TIMER_LASTS:
        run_attend_closely(run);
        break;
    case TIMER_WARN:
        warn(run);
        break;
    case TIMER_DEADLINE:
        expire_deadline(run);
        break;
    case TIMER_IDLE:
        check_idle(run);
        break;
    case TIMER_SAMPLE:
        check_budgets(run);
        break;
    case TIMER_TERMINAL:
        run_output(run, 0);
        break;
    case TIMER_LISTEN:
        run->control.accept_paused = false;
        break;
    case TIMER_RUNG:
        run_reap(run);
        if (run->phase == PHASE_STOPPING)
            ladder_climb(run);
        break;
    case TIMER_KILL_PASS:
        run_reap(run);
        if (run->phase == PHASE_STOPPING)
            ladder_repeat_last(run);
        break;
    case TIMER_KILL_WAIT:
        run_reap(run);
        if (run->phase == PHASE_STOPPING)
            run->location->give_up(run);
        break;
    case TIMER_WALK:
        run_reap(run);
        if (run->phase == PHASE_STOPPING || run_may_begin_stop(run))
            host_go_on(run);
        break;
    case TIMER_AGENT:
        run->location->overdue(run);
        break;
    case TIMER_DRAIN_IDLE:
        if (!output_waits(&run->output)) /* else storage is slow, not the tree: only the bound counts */
            run_end_drain(run, DRAIN_IDLE);
        break;
    case TIMER_DRAIN:
        run_end_drain(run, DRAIN_ABSOLUTE);
        break;
    case TIMER_RECORD:
        run_end_unrecorded(run);
        break;
    case TIMER_WRITER:
        run_revive_writer(run);
        break;
    case TIMER_COUNT:
        break;
    }
}
