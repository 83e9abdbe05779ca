/* priority: the guard's own turn on the processor, which its command must not take away and does not inherit */
#ifndef HOLDFAST_PRIORITY_H
#define HOLDFAST_PRIORITY_H

/*
 * A command with hundreds of busy processes would leave its guard a few milliseconds of each second. Three things keep
 * that off. A command without a terminal has a session of its own (spawn.c), and so, where the kernel groups tasks by
 * session, a share of its own. The guard asks for short turns: a task with short turns is served sooner and gets no
 * more in all, so every user may ask. While it ends a tree, the guard asks for a high priority, too, and gets it where it
 * may. All of this is best effort: a kernel that refuses it changes nothing else.
 */

/* Asks for short turns; from the first call on it remembers what to give back. Call it before a child is forked. */
void priority_take_short_turns(void);
/* In the child: gives it the priority that the guard was started with. Calls nothing that sets errno. */
void priority_reset_in_child(void);
/* While a tree is being ended. */
void priority_raise(void);
void priority_lower(void);

#endif
