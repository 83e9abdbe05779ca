/* Open files, by their numbers. */
#ifndef HOLDFAST_DESCRIPTORS_H
#define HOLDFAST_DESCRIPTORS_H

#include <linux/close_range.h>
#include <stdbool.h>

/* Closes all from `first` to `last`, or marks them with CLOSE_RANGE_CLOEXEC in `flags`; with any kernel. */
void close_between(unsigned first, unsigned last, unsigned flags);

/* Moves it out of the way of the numbers that the next run's descriptors have. False: there is none left up there. */
bool raise_descriptor(int *fd);

#endif
