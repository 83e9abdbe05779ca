/* host_signals: the rungs, the kill and the single signals of a run whose command runs on this host */
#include <errno.h>
#include <signal.h>

#include "clock.h"
#include "delivery.h"
#include "host.h"
#include "phases.h"
#include "priority.h"
#include "run.h"
#include "tree.h"

#define LAST_PASS_NS 50000000u
#define WALK_SLICE_NS 20000000u /* while it walks, the guard looks at clocks and owners this often */

static void record_signalled(struct run *run, int number, int rung, struct reach reach) {
    struct fact_signalled signalled = {number, rung, reach.reached, reach.refused};
    if (rung >= 0)
        journal_fact(&run->journal, FACT_SIGNALLED, &signalled, sizeof signalled);
    else
        repeats_fact(&run->repeats, &run->journal, REPEATED_SIGNALLED, &signalled, sizeof signalled);
}

static struct delivery asking; /* the rung that is being climbed */
static size_t asked_rung;
static struct delivery sending; /* a warning, or a signal on request */
static uint64_t waiting[DELIVER_TO_CATCHERS + 1]; /* signals that were asked for meanwhile: a bit each, for each manner */

/* What is not over goes on after a look at clocks and owners. */
static void set_timer(struct run *run) {
    if (asking.is_under_way || sending.is_under_way)
        timer_set(&run->timers, TIMER_WALK, clock_now());
    else
        timer_off(&run->timers, TIMER_WALK);
}

/* ── a rung ───────────────────────────────────────────────────────────────────────────────────────────────────── */

bool host_is_reachable(const struct run *run) {
    (void)run;
    return true;
}

static void end_asking(struct run *run) {
    if (!asking.is_under_way)
        return;
    const struct reach reach = delivery_end(&asking);
    cgroup_thaw(&run->cgroup);
    record_signalled(run, asking.signal, (int)asked_rung, reach);
}

static void go_on_asking(struct run *run) {
    if (asking.is_under_way && delivery_go_on(&asking, clock_now() + WALK_SLICE_NS))
        end_asking(run);
}

/*
 * The leaf is frozen during the walk: nothing forks behind the guard's back, and nothing keeps the processor from it.
 * A frozen process takes the signal when it is thawed.
 */
void host_ask(struct run *run, int number, size_t rung) {
    end_asking(run);
    priority_raise();
    cgroup_freeze(&run->cgroup);
    asked_rung = rung;
    delivery_begin(&asking, DELIVER_RUNG, number);
    go_on_asking(run);
    set_timer(run);
}

/* ── a signal on request, and a warning ───────────────────────────────────────────────────────────────────────── */

static struct reach end_sending(struct run *run) {
    const struct reach reach = delivery_end(&sending);
    const struct fact_warned warned = {.signal = sending.signal, .reached = reach.reached};
    if (sending.manner == DELIVER_TO_CATCHERS)
        repeats_fact(&run->repeats, &run->journal, REPEATED_WARNED, &warned, sizeof warned);
    else
        record_signalled(run, sending.signal, -1, reach);
    return reach;
}

/* How many it has reached, when that is known: the delivery is over. */
static struct reach go_on_sending(struct run *run) {
    if (sending.is_under_way && delivery_go_on(&sending, clock_now() + WALK_SLICE_NS))
        return end_sending(run);
    return (struct reach){0};
}

static void begin_next_sending(void) {
    for (enum manner manner = DELIVER_TO_ALL; manner <= DELIVER_TO_CATCHERS; manner++) {
        for (int number = 1; number < NSIG && !sending.is_under_way; number++) {
            const uint64_t bit = (uint64_t)1 << (number - 1);
            if ((waiting[manner] & bit) == 0)
                continue;
            waiting[manner] &= ~bit;
            delivery_begin(&sending, manner, number);
        }
    }
}

/* One at a time. What is asked for meanwhile comes after it, and once, as with signals that are pending. */
static struct reach send_to_tree(struct run *run, enum manner manner, int number) {
    struct reach reach = {0};
    if (sending.is_under_way) {
        waiting[manner] |= (uint64_t)1 << (number - 1);
    } else {
        delivery_begin(&sending, manner, number);
        reach = go_on_sending(run);
    }
    set_timer(run);
    return reach;
}

int host_signal_by(struct run *run, int number, enum signal_scope scope, int (*to_one)(struct run *run, int signal)) {
    struct reach reach = {0};
    if (scope == SCOPE_TREE) {
        reach = send_to_tree(run, DELIVER_TO_ALL, number);
    } else {
        reach.reached = to_one(run, number) == 0;
        reach.refused = !reach.reached;
        record_signalled(run, number, -1, reach);
    }
    return reach.reached == 0 && reach.refused > 0 ? EPERM : 0;
}

void host_warn(struct run *run, int number) { send_to_tree(run, DELIVER_TO_CATCHERS, number); }

void host_go_on(struct run *run) {
    go_on_asking(run);
    if (!sending.is_under_way)
        begin_next_sending();
    go_on_sending(run);
    if (!sending.is_under_way)
        begin_next_sending();
    set_timer(run);
}

/* ── the kill ─────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool kill_is_unrecorded; /* the first walk of the last rung is not over */

/* Records what is under way as it is: it goes no further. */
static void end_deliveries(struct run *run) {
    end_asking(run);
    if (sending.is_under_way)
        end_sending(run);
    waiting[DELIVER_TO_ALL] = waiting[DELIVER_TO_CATCHERS] = 0;
    set_timer(run);
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
    end_deliveries(run);
    priority_raise();
    const int members = cgroup_kill(&run->cgroup);
    kill_is_unrecorded = members < 0;
    if (kill_is_unrecorded)
        kill_tree(run);
    else
        record_signalled(run, SIGKILL, (int)run->spec.rungs - 1, (struct reach){.reached = members});
}

void host_end_signals(struct run *run) {
    end_deliveries(run);
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
