/* delivery: one signal for every process of the tree, in as many parts as it takes */
#ifndef HOLDFAST_DELIVERY_H
#define HOLDFAST_DELIVERY_H

/*
 * A huge tree, or a guard that gets little of the processor, makes a delivery long. So it goes on in later turns of the
 * guard, which looks at clocks and owners in between: begin, go on until that returns true, end. The end says how many
 * have got the signal, also before all have.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tree.h"
#include "walk.h"

enum manner {
    /*
     * A rung: parents first, and then SIGCONT, so that a stopped process can act on it. A nested guard gets the signal
     * (or SIGTERM, if guards do not take that signal), but the tree below it does not: the nested guard climbs its own
     * ladder there, and its record can say `parent`.
     */
    DELIVER_RUNG,
    DELIVER_TO_ALL,      /* nested runs included */
    DELIVER_TO_CATCHERS, /* the same, but only to processes that have a handler for the signal */
};

struct delivery {
    struct walk walk;
    enum manner manner;
    int signal;
    bool is_under_way;
    bool is_listed;
    bool has_stopped_group;
    size_t sent; /* the first process that has not got the signal */
    struct reach reach;
};

void delivery_begin(struct delivery *delivery, enum manner manner, int signal);
bool delivery_go_on(struct delivery *delivery, uint64_t until);
struct reach delivery_end(struct delivery *delivery);

#endif
