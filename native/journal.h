/*
 * The journal: append-only frames, one writer.
 *
 * Facts are gathered in a small buffer and written together; journal_flush() is called before anything that the facts
 * explain can be seen from outside: before the command may run, before a signal is sent, before an owner is woken and
 * before the guard sleeps. So a reader may learn late that something happened, never early, and never out of order.
 *
 * Frames are written at an explicit offset: a write that fails half-way is cut off again and the next one starts at
 * the same place. For a journal on a disk some room ahead is reserved, so that facts can still be recorded when output
 * has filled the disk.
 */
#ifndef HOLDFAST_JOURNAL_H
#define HOLDFAST_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"

struct journal {
    int fd;
    bool on_disk;
    int error;              /* errno of the first write that failed, 0 when all went well */
    uint64_t length;        /* where the next frame goes */
    uint64_t size_limit;          /* RLIMIT_FSIZE: output ends short of it, so that facts have room */
    uint64_t reserved_to;   /* room that is already ours, on disk */
    uint64_t released_to;   /* bytes before this have been given back to the kernel */
    size_t pending_length;
    unsigned char pending[8192];
};

/* Takes the lock that says "this guard is alive" and finds the end. False: errno says why. */
bool journal_open(struct journal *journal, int fd);
void journal_fact(struct journal *journal, enum fact type, const void *payload, size_t length);
/* A fact whose fixed part is followed by text. */
void journal_fact_text(struct journal *journal, enum fact type, const void *payload, size_t length, const char *text,
                       size_t text_length);
/* False when the bytes could not be recorded; journal->error says why. */
bool journal_output(struct journal *journal, uint8_t stream, uint8_t flags, const void *data, size_t length);
void journal_flush(struct journal *journal);
/* The owner has read up to here and will not come back: give the memory back (memfd only). */
void journal_release(struct journal *journal, uint64_t consumed);
/* Flush, and give back the room that was reserved and not needed. */
void journal_close(struct journal *journal);

#endif
