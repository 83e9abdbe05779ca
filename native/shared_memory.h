/* shared_memory: the memory that a sentinel and its guard share */
#ifndef HOLDFAST_SHARED_MEMORY_H
#define HOLDFAST_SHARED_MEMORY_H

#include <stddef.h>

/*
 * Returns zeroed memory out of one mapping, or NULL when there is none left. Every caller asks before the sentinel forks
 * the guard: so both have the mapping, at the same address, and pointers into it mean the same to both.
 */
void *shared_memory(size_t size);

#endif
