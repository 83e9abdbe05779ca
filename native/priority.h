/* priority: the guard's own turn on the processor, which its command must not take away and does not inherit */
#ifndef HOLDFAST_PRIORITY_H
#define HOLDFAST_PRIORITY_H

/*
 * A command with hundreds of busy processes would leave its guard a few milliseconds of each second. Three things keep
 * that off. A command without a terminal has a session of its own (spawn.c), and so, where the kernel groups tasks by
 * session, a share of its own. The guard asks for short turns: a task with short turns is served sooner and gets no
 * more in all, so every user may ask. While it ends a tree, the guard asks for a high priority, too, and gets it where it
 * may. All of this is best effort: a kernel that refuses it changes nothing else.
 *
 * Short turns have a price: a guard that wakes up takes the processor from the command that is exiting, and from its
 * owner, several times in each run. So a run gets them when it has lasted for some time (TIMER_LASTS), or when it is to
 * end. The guard gives them back before it forks the next command, which therefore does not inherit them.
 */

/* Asks for short turns, and remembers what to give back. */
void priority_take_short_turns(void);
/* Not if the command has changed the guard's priority meanwhile: own_state.c is to see that. */
void priority_give_back_turns(void);
/* While a tree is being ended. */
void priority_raise(void);
void priority_lower(void);

#endif
