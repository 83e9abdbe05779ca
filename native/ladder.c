/* ladder: how a run's tree is ended: graceful signals first, SIGKILL last */
#include "ladder.h"

#include <signal.h>

#include "phases.h"

void ladder_begin_with(struct run *run, int number) {
    struct spec *spec = &run->spec;
    if ((spec->options.flags & SPEC_GRACE_LADDER) == 0 || spec->rungs != 2 || (number != SIGINT && number != SIGHUP))
        return;
    const uint64_t grace = spec->ladder[0].wait_ns;
    spec->ladder[2] = spec->ladder[1];
    spec->ladder[1] = (struct spec_rung){.signal = SIGTERM, .wait_ns = grace - grace / 2};
    spec->ladder[0] = (struct spec_rung){.signal = number, .wait_ns = grace / 2};
    spec->rungs = 3;
}

void ladder_skip_to_last(struct run *run) {
    if (run->rung < run->spec.rungs)
        run->rung = run->spec.rungs - 1;
}

void ladder_await_last(struct run *run) {
    const uint64_t now = clock_now();
    run->rung = run->spec.rungs;
    run->pass_ns = run->location->first_pass_ns;
    timer_off(&run->timers, TIMER_RUNG);
    timer_set(&run->timers, TIMER_KILL_WAIT, clock_after(now, run->spec.options.kill_wait_ns));
    timer_set(&run->timers, TIMER_KILL_PASS, now + run->pass_ns);
}

void ladder_repeat_last(struct run *run) {
    const uint64_t pause = run->location->kill_again(run);
    timer_set(&run->timers, TIMER_KILL_PASS, clock_now() + pause);
}

void ladder_climb(struct run *run) {
    run_announce(run); /* the verdict is announced before the first signal */
    if (run->rung >= run->spec.rungs)
        return; /* the last rung has been climbed, and the guard repeats it */
    const uint64_t now = clock_now();
    if ((run->bound_ns > 0 && now >= run->bound_ns) || !run->location->is_reachable(run))
        ladder_skip_to_last(run);
    const struct spec_rung *rung = &run->spec.ladder[run->rung++];
    if (run->rung == run->spec.rungs) {
        run->location->kill(run);
        ladder_await_last(run);
        return;
    }
    run_collect(run); /* so that the walk does not meet the dead */
    run->location->ask(run, rung->signal, run->rung - 1);
    uint64_t due = clock_after(now, rung->wait_ns);
    timer_set(&run->timers, TIMER_RUNG, run->bound_ns > 0 && run->bound_ns < due ? run->bound_ns : due);
}
