/* What the launcher asked for, read once from the spec descriptor. Strings point into the mapped spec. */
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
    char **argv; /* argv, env and the strings are there until spec_forget() */
    char **env;
    const char *cwd;
    const char *run_id;
    const char *cgroup;
    const char *memory_group;
    const char *pids_group;
    void *map;
    size_t map_length;
    size_t pointers_length;
};

/* False: the spec is not one this guard understands. */
bool spec_read(struct spec *spec, int fd);
/* The command has been started: give the memory of its arguments and environment back. */
void spec_forget(struct spec *spec);

#endif
