/* sweep: the last resort in a container: SIGKILL to every process that carries the run's token */
#ifndef HOLDFAST_SWEEP_H
#define HOLDFAST_SWEEP_H

/*
 * The sweep is for a container whose agent was killed: nobody knows any more which processes descend from it. The
 * sweep finds only processes that kept the token in their environment. So the tree is `unknown` afterwards, never
 * `gone`.
 */

/* Repeats until a pass finds nobody, and returns 0. Gives up after two seconds, and returns 1. */
int sweep(const char *run_id);

#endif
