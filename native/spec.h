/*
 * What the launcher asked for, read once from the spec descriptor, or sent along with the run. Strings point into it, so it
 * stays: a small one, which nearly all are, in a buffer of the guard's own, a large one mapped.
 */
#ifndef HOLDFAST_SPEC_H
#define HOLDFAST_SPEC_H

#include <stdbool.h>
#include <stddef.h>

#include "frame.h"

enum { SPEC_RUNGS_MAX = 16 };
enum { SPEC_SMALL = NEXT_SPEC_MAX };

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
    const void *agent_spec;
    size_t agent_spec_length;
    char *bytes;
    size_t length;
    size_t mapped_pointers; /* 0: few enough for a table of the guard's own */
};

/* Where a small one is put: SPEC_SMALL bytes. */
char *spec_buffer(void);
/* False: the spec is not one this guard understands. */
bool spec_read(struct spec *spec, int fd);
/* The same for one that is in the room. */
bool spec_parse_buffer(struct spec *spec, size_t length);
void spec_forget(struct spec *spec);

#endif
