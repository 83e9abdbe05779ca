/* entry: what a child does last before it executes the command, and how the owner hears that it has done so */
#ifndef HOLDFAST_ENTRY_H
#define HOLDFAST_ENTRY_H

/*
 * The owner of a run may want more of a command's start than most runs need: descriptors under given numbers, another
 * user, an umask, a program that is not argv[0]. It sends that as one message (struct entry of frame.h) into a socket
 * before it starts the guard. The guard never reads the message. The child does, in its own table of descriptors, so
 * the passed descriptors are open in no other process of ours.
 *
 * The socket is also the answer. It is close-on-exec and the guard closes its own copy after the fork. So the owner
 * sees end of file when the command is executed, after a struct fact_spawn_failed when that has failed.
 *
 * The child may be in the guard's memory: all of this sets no errno, and its buffers are static, because the child's
 * stack is small. The guard holds one child at a time.
 */

#include <stdbool.h>

#include "frame.h"

/* The guard, before it forks: whether this run has an entry. */
void entry_expect(bool is_given);

/* The child. */
bool entry_is_given(void);
/* Does what the entry says, and sets `program` if the entry names one. Returns 0 or a negated errno. */
long entry_take(const char **program);
/* Tells the owner why the command is not executed, if it listens. */
void entry_tell_failure(const struct fact_spawn_failed *failure);

#endif
