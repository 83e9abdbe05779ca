/* take_out: make a hole in a journal, behind a frame that says so */
#ifndef HOLDFAST_TAKE_OUT_H
#define HOLDFAST_TAKE_OUT_H

/*
 * The order is the protection: first the gap frame, then the hole. Who reads output and then finds that the gap frame
 * before it does not cover it, has read no part of a hole. Both steps may be done twice, by a writer that replaces one
 * that was killed in between.
 *
 * Nothing here touches errno: the writer calls it in the memory of another process.
 */

#include <stdbool.h>
#include <stdint.h>

#include "journal.h"

struct take_out {
    uint64_t at, hole_from, hole_to;
    unsigned char frame[sizeof(struct frame) + sizeof(struct fact_output_gap)];
};

struct take_out take_out_make(const struct journal_gap *gap);
/* Whether this file can have holes. Changes nothing. */
bool take_out_probe(int fd);
void take_out_perform(int fd, const struct take_out *request);

#endif
