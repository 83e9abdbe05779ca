/*
 * The command's output on its way into the journal.
 *
 * The fence: at the verdict, what is already in a pipe was written before it and is on time; what is read beyond that
 * is late. The kernel tells how much is there (FIONREAD), so the line is exact however slow the guard is.
 *
 * The window: an owner that streams gives back what it has read. When it falls behind by more than the window, we stop
 * reading and the command waits, as with any pipe. Only a running command is made to wait: after the verdict everything
 * is read and kept.
 */
#ifndef HOLDFAST_OUTPUT_H
#define HOLDFAST_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "journal.h"
#include "spawn.h"

enum { STREAM_COUNT = 2 }; /* stdout or the terminal, stderr */

struct stream {
    int fd; /* -1: at end of file, or never opened */
    bool enlarged;
    bool hung; /* a terminal that nobody has open just now: somebody may open it again */
    uint64_t bytes;   /* recorded */
    uint64_t on_time; /* behind the fence: how many of the next bytes are still on time */
};

struct output {
    struct journal *journal;
    struct stream streams[STREAM_COUNT];
    bool terminal;
    bool final; /* the end has come: nobody will open the terminal again */
    bool fenced;
    bool drops;         /* over the cap: drop and count */
    uint64_t cap;       /* 0: none */
    uint64_t window;    /* 0: none */
    uint64_t consumed;  /* journal offset the owner has read up to */
    uint64_t seen_bytes;
    uint64_t recorded_to; /* journal offset behind the last output */
    uint64_t late_bytes;
    uint64_t dropped_bytes;
    size_t touched; /* of the read buffer */
};

void output_prepare(struct output *output, struct journal *journal, const struct spec_options *options);
/* Makes the pipes, or takes the terminal's master (-1: none). `stdio` gets the command's ends. False: errno says why. */
bool output_open(struct output *output, int terminal, bool merge, struct child_stdio *stdio);
/* Reads what is there on one stream, once. True when there was something. */
bool output_read(struct output *output, int stream);
/* Reads until nothing is there on any stream, at most `bound` bytes. */
void output_read_all(struct output *output, uint64_t bound);
void output_fence(struct output *output);
bool output_at_end(const struct output *output);
bool output_over_cap(const struct output *output);
/* The same, with what is still in the pipes. */
bool output_will_be_over_cap(const struct output *output);
bool output_waits_for_owner(const struct output *output);
void output_close(struct output *output);
/* A quiet moment: give the pages of a large read back. */
void output_release_buffer(struct output *output);

#endif
