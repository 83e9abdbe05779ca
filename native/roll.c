/* roll: the middle of an output that is too long to be kept whole, taken out of the journal while the run goes on */
#include "roll.h"

#include <string.h>

enum { PIECES_OF_A_TAIL = 8 };

void roll_prepare(struct roll *roll, uint64_t limit) {
    *roll = (struct roll){.head = limit - limit / 2, .tail = limit / 2};
}

static uint64_t sum(const uint64_t *kinds) { return kinds[0] + kinds[1] + kinds[2] + kinds[3]; }

static struct roll_piece *piece(struct roll *roll, unsigned index) {
    return &roll->pieces[(roll->first + index) % ROLL_PIECES];
}

static uint64_t piece_bytes(const struct roll_piece *piece) { return sum(piece->passed) - sum(piece->before); }

/* Joins the two oldest neighbours that no fact keeps apart. All but the newest pieces of a full ring are too much. */
static void join_oldest(struct roll *roll) {
    for (unsigned i = 0; i + 2 < roll->count; i++) {
        struct roll_piece *older = piece(roll, i), *newer = piece(roll, i + 1);
        if (older->gap_at != newer->gap_at)
            continue;
        memcpy(newer->before, older->before, sizeof newer->before);
        for (; i > 0; i--)
            *piece(roll, i) = *piece(roll, i - 1);
        roll->first = (roll->first + 1) % ROLL_PIECES;
        roll->count--;
        return;
    }
}

static void begin_piece(struct roll *roll) {
    if (roll->count == ROLL_PIECES)
        join_oldest(roll);
    if (roll->count == ROLL_PIECES)
        return;
    struct roll_piece *next = piece(roll, roll->count++);
    next->gap_at = roll->gap_at;
    next->end = roll->next_at;
    memcpy(next->before, roll->in_pieces ? roll->passed : roll->gap_passed, sizeof next->before);
    memcpy(next->passed, roll->passed, sizeof next->passed);
    roll->tail_bytes += piece_bytes(next);
    roll->in_pieces = true;
}

static struct fact_output_gap gap_to(uint64_t resume_at, const uint64_t *passed) {
    return (struct fact_output_gap){resume_at, passed[0], passed[1], passed[2], passed[3]};
}

static void begin_gap(struct roll *roll, struct journal *journal) {
    const uint64_t at = journal->length + journal->pending_length;
    const uint64_t end = at + sizeof(struct frame) + sizeof(struct fact_output_gap);
    const struct fact_output_gap gap = gap_to(end, roll->passed);
    journal_fact(journal, FACT_OUTPUT_GAP, &gap, sizeof gap);
    const bool recorded = journal->length + journal->pending_length == end;
    roll->gap_at = recorded ? at : 0;
    roll->next_at = recorded ? end : 0;
    roll->in_pieces = false;
    memcpy(roll->gap_passed, roll->passed, sizeof roll->gap_passed);
}

/* The piece that the next output goes into; NULL: it has none yet. */
static struct roll_piece *current(struct roll *roll) {
    return roll->in_pieces ? piece(roll, roll->count - 1) : NULL;
}

static uint64_t most_of_a_piece(const struct roll *roll) { return roll->tail / PIECES_OF_A_TAIL; }

uint64_t roll_fits(const struct roll *roll, uint64_t room) {
    /* ROLLING and a gap frame may come first, and the first and the last piece may be short. */
    const uint64_t facts = 2 * sizeof(struct frame) + sizeof(struct fact_output_rolling) + sizeof(struct fact_output_gap);
    const uint64_t frames = room / (most_of_a_piece(roll) + sizeof(struct frame)) + 2;
    const uint64_t around = facts + frames * sizeof(struct frame);
    return room > around ? room - around : 0;
}

bool roll_is_in_head(const struct roll *roll) { return sum(roll->passed) < roll->head; }

size_t roll_next(struct roll *roll, struct journal *journal, size_t length) {
    const uint64_t recorded = sum(roll->passed);
    if (recorded < roll->head)
        return roll->head - recorded < length ? (size_t)(roll->head - recorded) : length;
    if (!roll->rolling) {
        const struct fact_output_rolling rolling = {roll->head + roll->tail, roll->tail};
        journal_fact(journal, FACT_OUTPUT_ROLLING, &rolling, sizeof rolling);
        journal_prepare_take_out(journal);
        roll->rolling = true;
    }
    if (journal->length + journal->pending_length != roll->next_at)
        begin_gap(roll, journal);
    if (roll->gap_at == 0)
        return 0;
    const uint64_t most = most_of_a_piece(roll);
    if (current(roll) == NULL || piece_bytes(current(roll)) >= most)
        begin_piece(roll);
    const uint64_t has = current(roll) == NULL ? 0 : piece_bytes(current(roll)), left = has < most ? most - has : most;
    return left < length ? (size_t)left : length;
}

void roll_recorded(struct roll *roll, const struct journal *journal, int kind, size_t length) {
    roll->passed[kind] += length;
    roll->next_at = journal->length;
    struct roll_piece *last = current(roll);
    if (last == NULL)
        return;
    last->passed[kind] += length;
    last->end = journal->length;
    roll->tail_bytes += length;
}

static void forget_oldest(struct roll *roll) {
    const struct roll_piece *oldest = piece(roll, 0);
    for (int kind = 0; kind < ROLL_KINDS; kind++)
        roll->gone[kind] += oldest->passed[kind] - oldest->before[kind];
    roll->tail_bytes -= piece_bytes(oldest);
    roll->first = (roll->first + 1) % ROLL_PIECES;
    roll->count--;
}

/* The newest piece stays: it still grows. */
static bool is_too_much(struct roll *roll, uint64_t end) {
    const bool crowded = roll->count >= ROLL_PIECES - 1;
    return roll->count > 1 && piece(roll, 0)->end <= end && (roll->tail_bytes > roll->tail || crowded);
}

bool roll_take_out(struct roll *roll, struct journal *journal, uint64_t held_from) {
    const uint64_t committed = journal_committed(journal), end = held_from < committed ? held_from : committed;
    if (!is_too_much(roll, end) || !journal_takes_out(journal))
        return false;
    struct journal_gap gap = {.at = piece(roll, 0)->gap_at, .hole_from = roll->hole_to};
    while (is_too_much(roll, end) && piece(roll, 0)->gap_at == gap.at) { /* the rest of them in the next turn */
        gap.fact = gap_to(piece(roll, 0)->end, piece(roll, 0)->passed);
        forget_oldest(roll);
    }
    journal_take_out(journal, &gap);
    roll->hole_to = gap.fact.resume_at;
    return true;
}

bool roll_is_full(struct roll *roll, const struct journal *journal, uint64_t held_from) {
    return is_too_much(roll, held_from) && !journal_cannot_take_out(journal);
}

bool roll_is_stuck(const struct roll *roll, const struct journal *journal) {
    return roll->rolling && sum(roll->passed) >= roll->head + roll->tail && journal_cannot_take_out(journal);
}
