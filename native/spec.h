/*
 * What the launcher asked for, read once from the spec descriptor. Strings point into the mapped spec, which stays mapped:
 * a page or two, where giving them back would cost every short run two more system calls and a TLB flush.
 */
#ifndef HOLDFAST_SPEC_H
#define HOLDFAST_SPEC_H

#include <stdbool.h>
#include <stddef.h>

#include "frame.h"

enum { SPEC_RUNGS_MAX = 16 };

struct spec {
    struct spec_options options;
    struct spec_rung ladder[SPEC_RUNGS_MAX];
    size_t rungs;
    char **argv;
    char **env;
    const char *cwd;
    const char *run_id;
    const char *cgroup;
    const char *memory_group;
    const char *pids_group;
    const char *container; /* NULL: the command runs here */
    char **enter;
    char **copy;
    char **look;
    char **sweep;
    const void *inside;
    size_t inside_length;
    void *map;
    size_t map_length;
    size_t pointers_length;
};

/* False: the spec is not one this guard understands. */
bool spec_read(struct spec *spec, int fd);
void spec_unmap(struct spec *spec);

#endif
