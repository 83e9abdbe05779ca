#include "ladder.h"

#include <signal.h>

#include "container.h"
#include "phases.h"
#include "tree.h"

#define FIRST_PASS_NS 2000000u
#define LAST_PASS_NS 50000000u
#define CLIENTS_PASS_NS 1000000000u /* how long a runtime's clients may take to end behind what they lead to */

static void record_signalled(struct run *run, int number, size_t rung, struct reach reach) {
    struct fact_signalled signalled = {number, (int32_t)rung, reach.reached, reach.refused};
    journal_fact(&run->journal, FACT_SIGNALLED, &signalled, sizeof signalled);
}

void ladder_skip_to_last(struct run *run) {
    if (run->rung < run->spec.rungs)
        run->rung = run->spec.rungs - 1;
}

void ladder_await_last(struct run *run) {
    const uint64_t now = clock_now();
    run->rung = run->spec.rungs;
    run->pass_ns = FIRST_PASS_NS;
    timer_off(&run->timers, TIMER_RUNG);
    timer_set(&run->timers, TIMER_KILL_WAIT, clock_after(now, run->spec.options.kill_wait_ns));
    timer_set(&run->timers, TIMER_KILL_PASS, now + (run_is_inside(run) ? CLIENTS_PASS_NS : run->pass_ns));
}

static void collect(void *run) { run_collect(run); }

void ladder_repeat_last(struct run *run) {
    if (run_is_inside(run)) { /* the agent repeats it there; as long as it does, its clients are needed to hear the end */
        if (!inside_is_reachable(&run->inside))
            container_kill_clients(run);
        timer_set(&run->timers, TIMER_KILL_PASS, clock_now() + CLIENTS_PASS_NS);
        return;
    }
    cgroup_kill(&run->cgroup);
    if (tree_kill(collect, run).pressing)
        run->pass_ns = 0; /* a storm: again at once, after a look at clocks and owners */
    else
        run->pass_ns = run->pass_ns * 2 < LAST_PASS_NS ? run->pass_ns * 2 + FIRST_PASS_NS : LAST_PASS_NS;
    timer_set(&run->timers, TIMER_KILL_PASS, clock_now() + run->pass_ns);
}

static void kill_all(struct run *run) {
    if (run_is_inside(run)) { /* recorded when the answer comes */
        inside_say(&run->inside, NOTE_KILL, SIGKILL, (int)run->spec.rungs - 1);
        ladder_await_last(run);
        return;
    }
    struct reach reach = {.reached = cgroup_kill(&run->cgroup)};
    if (reach.reached < 0)
        reach = tree_kill(collect, run);
    record_signalled(run, SIGKILL, run->spec.rungs - 1, reach);
    ladder_await_last(run);
}

void ladder_climb(struct run *run) {
    run_announce(run); /* the verdict is out before anybody is hurt */
    if (run->rung >= run->spec.rungs)
        return; /* already at the top, and it is being repeated */
    const uint64_t now = clock_now();
    if ((run->bound_ns > 0 && now >= run->bound_ns) || (run_is_inside(run) && !inside_is_reachable(&run->inside)))
        ladder_skip_to_last(run);
    const struct spec_rung *rung = &run->spec.ladder[run->rung++];
    if (run->rung == run->spec.rungs) {
        kill_all(run);
        return;
    }
    run_collect(run); /* so that the walk meets the living */
    if (run_is_inside(run))
        inside_say(&run->inside, NOTE_ASK, rung->signal, (int)run->rung - 1);
    else
        record_signalled(run, rung->signal, run->rung - 1, tree_ask(rung->signal));
    uint64_t due = clock_after(now, rung->wait_ns);
    timer_set(&run->timers, TIMER_RUNG, run->bound_ns > 0 && run->bound_ns < due ? run->bound_ns : due);
}
