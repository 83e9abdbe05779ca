/* doing: what a command was doing when its time was over */
#ifndef HOLDFAST_DOING_H
#define HOLDFAST_DOING_H

#include <stddef.h>
#include <sys/types.h>

enum { DOING_TEXT = 160 };

/*
 * Writes one line about the process for which the whole command waits: the leader, or the first child of a process that
 * waits for its children, as a shell does. The line is "PID STATE WCHAN NAME": its state in /proc, the kernel function
 * in which it sleeps, or "-", and the name of its program. Returns the length of the text; 0: nothing is known.
 */
size_t doing_text(pid_t leader, char text[DOING_TEXT]);

#endif
