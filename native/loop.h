/* loop: one turn of the guard: wait for something, then act on it */
#ifndef HOLDFAST_LOOP_H
#define HOLDFAST_LOOP_H

#include <sys/signalfd.h>

#include "run.h"

/* One turn: first what the kernel reports, then requests, then output, and clocks last: see the rule in run.h. */
void loop_turn(struct run *run, int signals);
/* Acts on a signal to the guard, or on all that wait in the signalfd `signals`, up to the end of the run. */
void loop_take_signal(struct run *run, const struct signalfd_siginfo *info);
void loop_take_signals(struct run *run, int signals);
/* Starts a held command when its owner allows it. A command in a container starts when its agent holds it. */
void loop_start_if_allowed(struct run *run);
/* Looks whether the process with which the run ends is gone. */
void loop_look_at_starter(struct run *run);

#endif
