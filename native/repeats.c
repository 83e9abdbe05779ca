/* repeats: facts that a run can cause without end are recorded a thousand times, and then counted */
#include "repeats.h"

#include "clock.h"

enum { RECORDED_MAX = 1000 };
#define POWERS_OF_FOUR 0x5555555555555555u

static const enum fact fact_of[REPEATED_KINDS] = {
    [REPEATED_STOPPED] = FACT_STOPPED,       [REPEATED_CONTINUED] = FACT_CONTINUED,
    [REPEATED_OWNER_CAME] = FACT_OWNER_CAME, [REPEATED_SIGNALLED] = FACT_SIGNALLED,
    [REPEATED_STOP_ASKED] = FACT_STOP_ASKED, [REPEATED_EXTENDED] = FACT_EXTENDED,
    [REPEATED_WARNED] = FACT_WARNED,         [REPEATED_GRACE_SHORTENED] = FACT_GRACE_SHORTENED,
};

static void say(struct repeats *repeats, struct journal *journal, enum repeated kind) {
    const struct fact_repeated repeated = {
        .of = (int32_t)fact_of[kind],
        .count = repeats->of[kind].counted,
        .last_ns = repeats->of[kind].last_ns,
    };
    repeats->of[kind].said = repeats->of[kind].counted;
    journal_fact(journal, FACT_REPEATED, &repeated, sizeof repeated);
}

bool repeats_fact_text(struct repeats *repeats, struct journal *journal, enum repeated kind, const void *payload,
                       size_t length, const char *text, size_t text_length) {
    if (repeats->of[kind].recorded < RECORDED_MAX) {
        repeats->of[kind].recorded++;
        journal_fact_text(journal, fact_of[kind], payload, length, text, text_length);
        return true;
    }
    const uint64_t count = ++repeats->of[kind].counted;
    repeats->of[kind].last_ns = clock_boot();
    if ((count & (count - 1)) == 0 && (count & POWERS_OF_FOUR) != 0)
        say(repeats, journal, kind);
    return false;
}

bool repeats_fact(struct repeats *repeats, struct journal *journal, enum repeated kind, const void *payload,
                  size_t length) {
    return repeats_fact_text(repeats, journal, kind, payload, length, "", 0);
}

void repeats_conclude(struct repeats *repeats, struct journal *journal) {
    for (int kind = 0; kind < REPEATED_KINDS; kind++) {
        if (repeats->of[kind].said < repeats->of[kind].counted)
            say(repeats, journal, (enum repeated)kind);
    }
}
