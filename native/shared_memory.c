/* shared_memory: the memory that a sentinel and its guard share */
#include "shared_memory.h"

#include <stdalign.h>
#include <sys/mman.h>

enum { ALL = 128 * 1024 }; /* untouched pages cost nothing */

void *shared_memory(size_t size) {
    static char *start;
    static size_t used;
    const size_t rounded = (size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    if (start == NULL) {
        void *mapped = mmap(NULL, ALL, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED)
            return NULL;
        start = mapped;
    }
    if (rounded > ALL - used)
        return NULL;
    used += rounded;
    return start + used - rounded;
}
