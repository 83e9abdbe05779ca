/* stream: one pipe of the command's output, or its terminal, and how bytes come out of it */
#ifndef HOLDFAST_STREAM_H
#define HOLDFAST_STREAM_H

/*
 * A command that fills its pipe gets a larger one. While the kernel copies bytes out of a pipe, the pipe is locked, and
 * a command that goes on writing would spin. So the pages of a large output go to a pipe of our own first, which copies
 * nothing, and the copy into the journal is made from there. Our own pipe is empty before and after, unless the guard
 * dies in between, or the journal takes only a part. Sentinel and guard have one table of descriptors, so this pipe
 * outlives the guard.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "journal.h"

enum { PIPE_LARGE = 1024 * 1024 }; /* the most that a command's pipe holds, unless the command asks for more */

struct stream {
    int fd;              /* -1: at end of file, or never opened */
    int own_out, own_in; /* the ends of a pipe of our own, for much output; -1: none */
    uint64_t in_own;     /* bytes that are in it */
    bool enlarged;
    bool hung;        /* a terminal that no process has open now; one may open it again */
    uint64_t bytes;   /* recorded */
    uint64_t on_time; /* how many of the next bytes lie before the fence */
};

#define NO_STREAM {.fd = -1, .own_out = -1, .own_in = -1}

/* Makes the pipe. False: errno says why. */
bool stream_open(struct stream *stream, int *child_end);
void stream_close(struct stream *stream);
/* Gives the command a larger pipe, if it has filled it: `got` bytes came at once. */
void stream_enlarge(struct stream *stream, size_t got, bool moves);
/* The descriptor that is readable when there are bytes, or there is the end. */
int stream_watched(const struct stream *stream);
/* How many bytes there are. A terminal counts only the first 4 KiB. */
uint64_t stream_waiting(const struct stream *stream);
/* Moves bytes behind the end of the journal, as journal_move(). */
ssize_t stream_move(struct stream *stream, struct journal *journal, size_t most);
/* As read(). */
ssize_t stream_read(struct stream *stream, void *to, size_t most);
/* The guard died while it was taking bytes out of this stream. */
void stream_take_over(struct stream *stream);

#endif
