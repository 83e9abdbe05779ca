/*
 * The last resort in a container: SIGKILL to every process there that carries a run's token in its environment.
 *
 * For when the agent itself was killed, so that nobody knows any more what descends from it. It finds only what kept its
 * environment, therefore the tree is `unknown` afterwards, never `gone`.
 */
#ifndef HOLDFAST_SWEEP_H
#define HOLDFAST_SWEEP_H

/* Repeats until a look finds nobody: 0. Or gives up after two seconds: 1. */
int sweep(const char *run_id);

#endif
