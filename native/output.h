/* output: the command's stdout and stderr, or its terminal, on the way into the journal */
#ifndef HOLDFAST_OUTPUT_H
#define HOLDFAST_OUTPUT_H

/*
 * The fence: bytes that are in a pipe at the verdict were written before it and are on time. Bytes that come after
 * them are late. The kernel tells how many there are (FIONREAD), so the fence is exact however slow the guard is.
 *
 * The window: an owner that streams reports what it has read. When it falls behind by more than the window, the guard
 * stops reading and the command waits, as with any pipe. Only a running command waits: after the verdict the guard
 * reads everything, and drops late output beyond the window. The window of an output that rolls is the tail, and it
 * counts only while an owner streams. Any other journal on a disk keeps everything, and has no window.
 *
 * Rolling: all output goes into the journal; what is too much between head and tail is taken out again (roll.h).
 *
 * A guard that dies: between read() and the record, output would be in the guard's memory only. So the guard moves output
 * out of a pipe straight into the journal (splice), behind the place of its frame: at every moment a byte is in the pipe,
 * or in the journal, whose size says how many there are. Then it writes the frame. A taking says that this is under way,
 * and the process that takes over completes it. Bytes of a terminal, bytes that are to be dropped, and bytes beyond the
 * head of an output that rolls are read. If the guard dies meanwhile, nobody knows whether it had any, and DRAINED says
 * that instead of "end of file".
 *
 * Storage that does not answer is like an owner that does not read: the guard reads only what the journal has room for,
 * and the command waits. When the tree has ended, nobody writes any more, and all that is left in the pipes fits into
 * memory (DRAIN_ROOM). Only a process that goes on writing then, beyond that room, loses output. It is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "journal.h"
#include "roll.h"
#include "spawn.h"
#include "stream.h"

enum { STREAM_COUNT = 2 }; /* stdout or the terminal, stderr */

enum taking_how { TAKING_NOTHING, TAKING_MOVES, TAKING_READS };

/* The bytes that the guard is taking out of a pipe, and its counts from before. */
struct taking {
    enum taking_how how;
    int index;
    bool late;
    uint64_t at; /* where the frame of bytes that are moved begins */
    uint64_t bytes, on_time, late_bytes, seen_bytes;
    uint64_t passed; /* the roll's: bytes are moved only into its head, and there it counts nothing else */
};

struct output {
    struct journal *journal;
    struct taking taking;
    struct stream streams[STREAM_COUNT];
    bool terminal;
    bool final; /* the tree has ended: no process will open the terminal again */
    bool fenced;
    bool over;         /* the drain is over: drop what the journal has no room for */
    bool drops;        /* beyond the cap: drop and count */
    bool rolls;        /* beyond the head: keep the tail, and count what is between the two */
    bool concluded;
    bool cannot_move;  /* out of a terminal, or by this kernel */
    bool interrupted;  /* a guard died while it was reading: what it had read is lost, if it had read anything */
    uint64_t cap;      /* 0: none */
    uint64_t window;   /* 0: none */
    uint64_t consumed; /* owners that stream have read the journal up to this offset; UINT64_MAX: there are none */
    uint64_t seen_bytes;
    uint64_t recorded_to; /* journal offset after the last output */
    uint64_t unannounced; /* journal offset after the first output that readers were not woken for; 0: none */
    uint64_t late_bytes;
    uint64_t dropped_bytes;
    struct roll roll;
    size_t touched; /* how much of the read buffer is in use as memory */
};

void output_prepare(struct output *output, struct journal *journal, const struct spec_options *options);
/*
 * Makes the pipes, or takes the terminal's master (-1: none). Fills `stdio` for the command. A stream that the owner
 * gave gets no pipe: it is at its end from the start. `flags` are those of the spec. False: errno says why.
 */
bool output_open(struct output *output, int terminal, uint32_t flags, struct child_stdio *stdio);
/* Reads one stream once. True when there was something. */
bool output_read(struct output *output, int stream);
/* Completes what a guard that died was doing. It comes before journal_take_over(), which cuts off the rest. */
void output_take_over(struct output *output);
/* Reads until all streams are empty, at most `bound` bytes. */
void output_read_all(struct output *output, uint64_t bound);
void output_fence(struct output *output);
bool output_at_end(const struct output *output);
bool output_over_cap(const struct output *output);
/* As output_over_cap(), but counts the bytes that are still in the pipes, too. */
bool output_will_be_over_cap(const struct output *output);
/* Takes out of the journal what is still too much, and records how much is missing. Nothing is read after it. */
void output_conclude(struct output *output);
/* Whether the guard does not read at the moment, because the owner or the journal's storage is slow. */
bool output_waits(const struct output *output);
/* Whether that is because of storage. */
bool output_awaits_storage(const struct output *output);
/* Takes out what has become too much since the last output: owners have read on, or storage has. */
void output_roll(struct output *output);
/* The tree has ended: no process opens the terminal again, and what is in the pipes may fill memory. */
void output_begin_drain(struct output *output);
/* The time of the drain is over: what the journal has no room for is dropped. */
void output_end_drain(struct output *output);
/* Takes the streams out, so that output_close() leaves them open. */
void output_keep_open(struct output *output, int streams[STREAM_COUNT]);
void output_close(struct output *output);
/* Gives the memory of a large read back. For a moment without output. */
void output_release_buffer(struct output *output);

#endif
