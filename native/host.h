/* host: a run whose command runs on this host, below the guard itself */
#ifndef HOLDFAST_HOST_H
#define HOLDFAST_HOST_H

#include "location.h"

extern const struct location host_location;

#endif
