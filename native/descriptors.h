/* descriptors: closing and moving open files by their numbers */
#ifndef HOLDFAST_DESCRIPTORS_H
#define HOLDFAST_DESCRIPTORS_H

#include <linux/close_range.h>
#include <stdbool.h>
#include <stdint.h>

/* Closes the descriptors from `first` to `last`, or with CLOSE_RANGE_CLOEXEC in `flags` marks them, on any kernel. */
void close_between(unsigned first, unsigned last, unsigned flags);

/* Moves a descriptor above the numbers that the next run's descriptors have. False: no number is free there. */
bool raise_descriptor(int *fd);

/* Sets the soft limit on descriptors of this process and of its later children; 0, or more than allowed, changes
 * nothing. */
void limit_descriptors(uint64_t soft);

#endif
