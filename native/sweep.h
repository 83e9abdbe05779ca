/* sweep: the last resort in a container, which kills every process that carries the run's token */
#ifndef HOLDFAST_SWEEP_H
#define HOLDFAST_SWEEP_H

/*
 * The sweep is for a container whose agent was killed. Then nobody knows which processes descend from the command. The
 * sweep finds only processes that kept the token in their environment. So the tree is `unknown` afterwards, never
 * `gone`.
 */

/* Repeats until a pass finds nobody, and returns 0. Gives up after two seconds, and returns 1. */
int sweep(const char *run_id);

#endif
