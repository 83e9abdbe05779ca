/* journal: the append-only record of a run; the guard is its only writer */
#ifndef HOLDFAST_JOURNAL_H
#define HOLDFAST_JOURNAL_H

/*
 * The guard gathers facts in a small buffer and writes them together. It calls journal_flush() before anything that
 * the facts explain can be seen from outside: before the command may run, before it sends a signal, before it wakes an
 * owner and before it sleeps. So a reader may learn late that something happened, never early, and never out of order.
 *
 * Every frame is written at an explicit offset: a write that fails half-way is cut off again, and the next one starts
 * at the same place. On a disk the guard reserves some room ahead, so that it can still record facts when output has
 * filled the disk.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"

struct journal {
    int fd;
    bool on_disk;
    bool ended;           /* END is recorded, or about to be */
    int error;            /* errno of the first write that failed; 0: all went well */
    uint64_t length;      /* where the next frame goes */
    uint64_t size_limit;  /* RLIMIT_FSIZE: output ends short of it, so that facts have room */
    uint64_t reserved_to; /* the room up to this offset is reserved on disk */
    uint64_t released_to; /* the memory before this offset was given back to the kernel */
    size_t pending_length;
    unsigned char pending[8192];
};

/* Takes the lock that says "this guard is alive" and finds the end. False: errno says why. */
bool journal_open(struct journal *journal, int fd);
/*
 * Goes on with the journal of a guard that died at any moment: finds the end of the last whole frame, and cuts off the
 * rest. Facts that the guard gathered but did not write are written next.
 */
void journal_take_over(struct journal *journal);
void journal_fact(struct journal *journal, enum fact type, const void *payload, size_t length);
/* Records a fact whose fixed part is followed by text. */
void journal_fact_text(struct journal *journal, enum fact type, const void *payload, size_t length, const char *text,
                       size_t text_length);
/* Records output. False when the bytes could not be recorded; journal->error says why. */
bool journal_output(struct journal *journal, uint8_t stream, uint8_t flags, const void *data, size_t length);
void journal_flush(struct journal *journal);
/* Gives the memory before `consumed`, which the owner needs no more, back to the kernel (memfd only). */
void journal_release(struct journal *journal, uint64_t consumed);
/* Flushes, and gives back the reserved room that was not needed. */
void journal_close(struct journal *journal);

#endif
