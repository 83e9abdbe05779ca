/*
 * A run whose command is in a container: what its agent says, and what its silence means, in each phase. The way there is
 * agent_link.h; how any run goes on and ends is run.c's.
 */
#ifndef HOLDFAST_CONTAINER_H
#define HOLDFAST_CONTAINER_H

#include "location.h"

extern const struct location container_location;

/* TIMER_AGENT: something that should have been said was not. */
void container_overdue(struct run *run);

#endif
