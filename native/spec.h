/* spec: what the launcher asked for, read from a descriptor or sent with the next run */
#ifndef HOLDFAST_SPEC_H
#define HOLDFAST_SPEC_H

/*
 * Strings point into the bytes of the spec, so these stay in memory. A small spec, as nearly all are, is in a buffer
 * of the guard's own; a large one is mapped.
 */

#include <stdbool.h>
#include <stddef.h>

#include "frame.h"

enum { SPEC_RUNGS_MAX = 16 };
enum { SPEC_SMALL = NEXT_SPEC_MAX, SPEC_TOKEN_SIZE = 128 };

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
    const char *container; /* NULL: the command runs on this host */
    const struct spec_foreign *foreign; /* NULL: the run has a command of its own */
    char **enter;
    char **copy;
    char **look;
    char **sweep;
    uint64_t descriptors;   /* the soft limit of the command; 0: as this guard's */
    const void *agent_spec; /* the spec for the agent in the container */
    size_t agent_spec_length;
    char *bytes;
    size_t length;
    size_t mapped_pointers; /* 0: the pointers are in a table of the guard's own */
};

/* Takes the memory for specs. False: there is none. */
bool spec_prepare(void);
/* The buffer for a small spec: SPEC_SMALL bytes. */
char *spec_buffer(void);
/* Reads the spec from `fd`. False: this guard does not understand it. */
bool spec_read(struct spec *spec, int fd);
/* The same for a spec that is in the buffer. */
bool spec_parse_buffer(struct spec *spec, size_t length);
/*
 * The variable, with its value, by which the processes of the run are found: `token` of values/environment.py. A run of
 * another state directory may have the same id, and never the same mark. Returns the mark, or fills `token` with the id.
 */
const char *spec_token(const struct spec *spec, char token[static SPEC_TOKEN_SIZE]);
/* Gives back the memory of a large spec. */
void spec_forget(struct spec *spec);

#endif
