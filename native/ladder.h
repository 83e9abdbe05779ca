/*
 * The ladder: graceful first, SIGKILL last, once in the whole of Holdfast.
 *
 * A rung sends its signal to every process of the tree, and SIGCONT after it; its grace is over when its wait has
 * passed, and the ladder is over when the tree is gone, not when the leader is. The last rung is always SIGKILL; it
 * is repeated until waitpid says ECHILD, or until kill-wait has passed and the survivors are named.
 */
#ifndef HOLDFAST_LADDER_H
#define HOLDFAST_LADDER_H

struct run;

void ladder_climb(struct run *run);
void ladder_skip_to_last(struct run *run);
void ladder_repeat_last(struct run *run);
/* Nothing to signal: only wait, as the last rung does, for what has been killed already. */
void ladder_await_last(struct run *run);

#endif
