/* journal: the append-only record of a run, which only the guard makes */
#ifndef HOLDFAST_JOURNAL_H
#define HOLDFAST_JOURNAL_H

/*
 * The guard gathers facts in a small buffer and writes them together. It calls journal_flush() before anything that
 * the facts explain can be seen from outside: before the command may run, before it sends a signal, before it wakes an
 * owner and before it sleeps. So a reader may learn late that something happened, never early, and never out of order.
 *
 * Every frame is written at an explicit offset: a write that fails half-way is cut off again, and the next one starts
 * at the same place.
 *
 * A journal in memory never makes the guard wait. For a journal on a disk the guard writes to memory, too, and a process
 * of its own brings the frames to the file (writer.h). Before anything that the facts explain can be seen from outside,
 * the facts then have to be *committed*: they are in the file. The guard waits for that as long as storage answers. When
 * it does not, the guard goes on without it: clocks, ladder and proof do not depend on a disk. Only a start does: no
 * command runs before the file says so.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "frame.h"

struct writer;

/* Output that is taken out of the journal: the gap frame as it is now, and where the hole ended that it had before. */
struct journal_gap {
    uint64_t at; /* of the gap frame */
    uint64_t hole_from;
    struct fact_output_gap fact;
};

/* So much room is kept for facts, so that the guard can still record them when output has filled the disk. */
enum { JOURNAL_FACTS_ROOM = 32 * 1024 };

struct journal {
    int fd; /* where the guard writes */
    bool on_disk;
    bool ended;           /* END is recorded, or about to be */
    struct writer *writer; /* brings the frames to the file; NULL: the guard writes there itself */
    uint64_t end_at;       /* where END begins; 0: it is not made yet */
    uint64_t given_up_at;  /* a wait for storage was in vain at this much news: no other one before there is more */
    int error;            /* errno of the first write that failed; 0: all went well */
    uint64_t length;      /* where the next frame goes */
    uint64_t size_limit;  /* RLIMIT_FSIZE: output ends short of it, so that facts have room */
    uint64_t reserved_to; /* the room up to this offset is reserved on disk */
    uint64_t released_to; /* the memory before this offset was given back to the kernel */
    bool cannot_take_out; /* the file system knows no holes */
    uint64_t beyond;      /* so much output may go into memory although the disk has not promised room for it */
    size_t pending_length;
    unsigned char pending[8192];
};

/* Starts the writer of a journal that is a file. `directory` has the run's socket, or is -1. */
void journal_start_writer(struct journal *journal, int fd, int directory);
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
/* Records output that was read at this time. False when it could not be recorded; journal->error says why. */
bool journal_output(struct journal *journal, uint8_t stream, uint8_t flags, uint64_t at_ns, const void *data,
                    size_t length);
/*
 * Moves at most `most` bytes out of a pipe behind the end of the journal, where a frame of output leaves off its head. As
 * read(); other errors than EAGAIN and EINTR say that nothing can be moved. journal_moved() has to follow.
 */
ssize_t journal_move(struct journal *journal, int pipe, size_t most);
/* Records the output that was moved. False when it could not be recorded: it is cut off. */
bool journal_moved(struct journal *journal, uint8_t stream, uint8_t flags, size_t length);
/* Records the output that a guard had moved when it died, if there is any. It comes before journal_take_over(). */
void journal_complete_move(struct journal *journal, uint8_t stream, uint8_t flags);
void journal_flush(struct journal *journal);
/* Gives the memory before `consumed`, which the owner needs no more, back to the kernel (memfd only). */
void journal_release(struct journal *journal, uint64_t consumed);
/* The first call before output is taken out of the journal: finds out whether the file system can do that. */
void journal_prepare_take_out(struct journal *journal);
/* Whether output can be taken out now: the file system is able to, and the last request is done. */
bool journal_takes_out(const struct journal *journal);
bool journal_cannot_take_out(const struct journal *journal);
/*
 * Takes the committed output between the gap frame and `resume_at` out of the journal. The gap frame says so before the
 * first byte is gone: a reader that finds a hole can know that it is one.
 */
void journal_take_out(struct journal *journal, const struct journal_gap *gap);
/* Flushes: nothing more comes. Gives back the reserved room that was not needed. */
void journal_close(struct journal *journal);

/* How much output may be read now. 0: none before storage answers. On a full disk all is read, and dropped. */
uint64_t journal_room(const struct journal *journal);
/* Waits until there is room for so much output, but not for storage that does not answer. */
void journal_make_room(struct journal *journal, uint64_t length);
/* The file has everything up to this offset. */
uint64_t journal_committed(const struct journal *journal);
/* Flushes, and waits until all of it is committed, but not for storage that does not answer. False: it is not. */
bool journal_commit(struct journal *journal);
/* How often storage has had news: something was committed, granted or refused. */
uint32_t journal_news(const struct journal *journal);
/* Waits for more news than `seen`, but not for storage that does not answer. False: there is none. */
bool journal_await_news(struct journal *journal, uint32_t seen);
/* Records how long storage had not answered, if it has just come back. */
void journal_note_stall(struct journal *journal);
/* Encodes one fact as it is in the file; returns its size. */
size_t journal_encode(unsigned char *to, enum fact type, const void *payload, size_t length);

#endif
