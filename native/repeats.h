/* repeats: facts that a run can cause without end are recorded a thousand times, and then counted */
#ifndef HOLDFAST_REPEATS_H
#define HOLDFAST_REPEATS_H

/*
 * A command that is stopped and continued in a loop, or a process that connects to the guard in a loop, would fill the
 * journal, and the memory of every process that reads it. So of each such kind the first thousand facts are recorded as
 * they are. After that the guard counts, and says so in the record: FACT_REPEATED with the count so far, when it is 1,
 * 4, 16, 64 and so on, and once more at the end of the run.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"
#include "journal.h"

enum repeated {
    REPEATED_STOPPED,
    REPEATED_CONTINUED,
    REPEATED_OWNER_CAME,
    REPEATED_SIGNALLED,
    REPEATED_STOP_ASKED,
    REPEATED_EXTENDED,
    REPEATED_WARNED,
    REPEATED_GRACE_SHORTENED,
    REPEATED_KINDS,
};

struct repeats {
    struct {
        uint32_t recorded;
        uint64_t counted;
        uint64_t said; /* what FACT_REPEATED said last */
        uint64_t last_ns;
    } of[REPEATED_KINDS];
};

/* Records a fact, or counts it. False: it was counted, so no owner has to be woken for it. */
bool repeats_fact(struct repeats *repeats, struct journal *journal, enum repeated kind, const void *payload,
                  size_t length);
/* The same for a fact whose fixed part is followed by text. */
bool repeats_fact_text(struct repeats *repeats, struct journal *journal, enum repeated kind, const void *payload,
                       size_t length, const char *text, size_t text_length);
/* Records the counts that were not said yet. */
void repeats_conclude(struct repeats *repeats, struct journal *journal);

#endif
