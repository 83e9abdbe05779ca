/* output: the command's stdout and stderr, or its terminal, on the way into the journal */
#ifndef HOLDFAST_OUTPUT_H
#define HOLDFAST_OUTPUT_H

/*
 * The fence: bytes that are in a pipe at the verdict were written before it and are on time. Bytes that come after
 * them are late. The kernel tells how many there are (FIONREAD), so the fence is exact however slow the guard is.
 *
 * The window: an owner that streams reports what it has read. When it falls behind by more than the window, the guard
 * stops reading and the command waits, as with any pipe. Only a running command waits: after the verdict the guard
 * reads everything, and drops late output beyond the window.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "journal.h"
#include "spawn.h"

enum { STREAM_COUNT = 2 }; /* stdout or the terminal, stderr */

struct stream {
    int fd; /* -1: at end of file, or never opened */
    bool enlarged;
    bool hung;        /* a terminal that no process has open now; one may open it again */
    uint64_t bytes;   /* recorded */
    uint64_t on_time; /* how many of the next bytes lie before the fence */
};

struct output {
    struct journal *journal;
    struct stream streams[STREAM_COUNT];
    bool terminal;
    bool final; /* the tree has ended: no process will open the terminal again */
    bool fenced;
    bool drops;        /* beyond the cap: drop and count */
    uint64_t cap;      /* 0: none */
    uint64_t window;   /* 0: none */
    uint64_t consumed; /* the owner has read the journal up to this offset */
    uint64_t seen_bytes;
    uint64_t recorded_to; /* journal offset after the last output */
    uint64_t late_bytes;
    uint64_t dropped_bytes;
    size_t touched; /* how much of the read buffer is in use as memory */
};

void output_prepare(struct output *output, struct journal *journal, const struct spec_options *options);
/* Makes the pipes, or takes the terminal's master (-1: none). Fills `stdio` for the command. False: errno says why. */
bool output_open(struct output *output, int terminal, bool merge, struct child_stdio *stdio);
/* Reads one stream once. True when there was something. */
bool output_read(struct output *output, int stream);
/* Reads until all streams are empty, at most `bound` bytes. */
void output_read_all(struct output *output, uint64_t bound);
void output_fence(struct output *output);
bool output_at_end(const struct output *output);
bool output_over_cap(const struct output *output);
/* As output_over_cap(), but counts the bytes that are still in the pipes, too. */
bool output_will_be_over_cap(const struct output *output);
bool output_waits_for_owner(const struct output *output);
void output_close(struct output *output);
/* Gives the memory of a large read back. For a moment without output. */
void output_release_buffer(struct output *output);

#endif
