/* roll: the middle of an output that is too long to be kept whole, taken out of the journal while the run goes on */
#ifndef HOLDFAST_ROLL_H
#define HOLDFAST_ROLL_H

/*
 * All output of a run that rolls goes into the journal, so that a live reader gets every byte. Beyond the head, a gap
 * frame stands before each row of output frames that no fact interrupts. When the output after the head is longer than
 * the tail may be, the oldest part of it goes: the gap frame is written again, with the offset at which reading goes on,
 * and then the frames up to there become a hole in the file. So the gap only ever grows at its end, no fact is in it, and
 * a reader that is behind finds its way by the last gap frame that it has passed (journal/reader.py).
 *
 *   head ... │ ROLLING │ gap ▒▒▒▒▒▒ output │ facts │ gap output ... │   (▒: a hole)
 *
 * What an owner still wants to read is not taken away: `held_from` is the offset of the slowest of them.
 *
 * Output goes away by the piece, an eighth of the tail: the places of pieces are all that the guard has to remember. A
 * fact begins a new piece. When there are more than there are places, because an owner or storage is slow, the oldest are
 * joined. If many facts keep them apart, the tail becomes shorter, or some output in between stays.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "journal.h"

enum { ROLL_PIECES = 32, ROLL_KINDS = 4 };

struct roll_piece {
    uint64_t gap_at, end;         /* journal offsets: of its gap frame, and behind its last frame */
    uint64_t before[ROLL_KINDS]; /* bytes of output before it, and up to its end, of each kind */
    uint64_t passed[ROLL_KINDS];
};

struct roll {
    uint64_t head, tail;         /* bytes: how much is kept of each */
    bool rolling;                /* the head is full */
    uint64_t next_at;            /* where the next output frame goes, if no fact comes first */
    uint64_t gap_at;             /* the last gap frame; 0: there was no room for it */
    bool in_pieces;              /* the output behind it is in a piece */
    uint64_t gap_passed[ROLL_KINDS];
    uint64_t hole_to;            /* the last gap ends here */
    uint64_t passed[ROLL_KINDS]; /* recorded bytes of each kind: stdout, late stdout, stderr, late stderr */
    uint64_t gone[ROLL_KINDS];   /* so many of them were taken out again */
    uint64_t tail_bytes;         /* after the head, and not taken out */
    unsigned first, count;       /* pieces[first], modulo their number, is the oldest; the newest still grows */
    struct roll_piece pieces[ROLL_PIECES];
};

static inline int roll_kind(int stream, bool late) { return stream * 2 + late; }
void roll_prepare(struct roll *roll, uint64_t limit);
/* How much output fits into so much of the journal, with the frames that it becomes. */
uint64_t roll_fits(const struct roll *roll, uint64_t room);
/* Whether roll_next() would record nothing: the head is not full. */
bool roll_is_in_head(const struct roll *roll);
/* How many of the next `length` bytes may go into one frame; 0: none now. Records what has to come before that frame. */
size_t roll_next(struct roll *roll, struct journal *journal, size_t length);
/* The frame is recorded. */
void roll_recorded(struct roll *roll, const struct journal *journal, int kind, size_t length);
/* Takes out what is too much, as far as no owner holds it and storage takes the request. True: there was something. */
bool roll_take_out(struct roll *roll, struct journal *journal, uint64_t held_from);
/* Whether there is too much that no owner holds, and that can be taken out. */
bool roll_is_full(struct roll *roll, const struct journal *journal, uint64_t held_from);
/* Whether the file system cannot take anything out of the journal, and the limit is used up. */
bool roll_is_stuck(const struct roll *roll, const struct journal *journal);

#endif
