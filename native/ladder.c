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

/* The earliest of a time and the two bounds of the ladder. */
static uint64_t bounded(const struct run *run, uint64_t due_ns) {
    if (run->bound_ns > 0 && run->bound_ns < due_ns)
        due_ns = run->bound_ns;
    return run->kill_by_ns > 0 && run->kill_by_ns < due_ns ? run->kill_by_ns : due_ns;
}

bool ladder_shorten(struct run *run, uint64_t grace_ns) {
    const uint64_t now = clock_now(), kill_by_ns = clock_after(now, grace_ns);
    uint64_t last_ns = timer_is_set(&run->timers, TIMER_RUNG) ? run->timers.due_ns[TIMER_RUNG] : now;
    for (size_t i = run->rung; i + 1 < run->spec.rungs; i++)
        last_ns = clock_after(last_ns, run->spec.ladder[i].wait_ns);
    if (kill_by_ns >= bounded(run, last_ns))
        return false;
    run->kill_by_ns = kill_by_ns;
    if (timer_is_set(&run->timers, TIMER_RUNG))
        timer_set(&run->timers, TIMER_RUNG, bounded(run, run->timers.due_ns[TIMER_RUNG]));
    return true;
}

void ladder_climb(struct run *run) {
    journal_commit(&run->journal); /* the verdict is on record before the first signal, unless storage hangs */
    run_announce(run);             /* and announced */
    if (run->rung >= run->spec.rungs)
        return; /* the last rung has been climbed, and the guard repeats it */
    const uint64_t now = clock_now();
    if (now >= bounded(run, UINT64_MAX) || !run->location->is_reachable(run))
        ladder_skip_to_last(run);
    const struct spec_rung *rung = &run->spec.ladder[run->rung++];
    if (run->rung == run->spec.rungs) {
        run->location->kill(run);
        ladder_await_last(run);
        return;
    }
    run_collect(run); /* so that the walk does not meet the dead */
    run->location->ask(run, rung->signal, run->rung - 1);
    timer_set(&run->timers, TIMER_RUNG, bounded(run, clock_after(now, rung->wait_ns)));
}
