/* host: a run whose command runs on this host, below the guard itself */
#ifndef HOLDFAST_HOST_H
#define HOLDFAST_HOST_H

#include "location.h"
#include "tree.h"

#define HOST_FIRST_PASS_NS 2000000u

/* The parts of this table that foreign.h shares. From the second on they are in host_signals.c. */
bool host_output_is_on_its_way(const struct run *run);
bool host_is_reachable(const struct run *run);
void host_ask(struct run *run, int signal, size_t rung);
/* TIMER_WALK: a rung or a single signal whose walk through the tree was not over. */
void host_go_on(struct run *run);
/* Records a rung, a signal, or the kill, whose walk is not over, because nothing is to be signalled any more. */
void host_end_signals(struct run *run);
void host_kill(struct run *run);
uint64_t host_kill_again(struct run *run);
void host_give_up(struct run *run);
int host_survivors(const struct run *run, char *text, size_t size, size_t *length);
void host_warn(struct run *run, int signal);
/* One signal on request: to every process, or by `to_one`, which returns 0 or -1 with errno. */
int host_signal_by(struct run *run, int signal, enum signal_scope scope, int (*to_one)(struct run *run, int signal));

extern const struct location host_location;

#endif
