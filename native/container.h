/* container: a run whose command runs in a container, where the agent keeps it */
#ifndef HOLDFAST_CONTAINER_H
#define HOLDFAST_CONTAINER_H

/*
 * This file decides what each note of the agent means in each phase, and what its silence means. agent_link.h has the
 * link; run.c and phases.c have what every run does.
 */

#include "location.h"

extern const struct location container_location;

#endif
