/* stop: who asks for the end of a run, what is under way, and what the guard then does */
#include "stop.h"

/* clang-format off */
static const enum act table[ASKER_COUNT][STAGE_COUNT] = {
    /*                  HELD       ALIVE           GRACE           INSISTED        LAST      OVER */
    [ASKER_PROGRAM] = {ACT_QUIET, ACT_BEGIN,      ACT_JOIN,       ACT_JOIN,       ACT_JOIN, ACT_REFUSE},
    [ASKER_PERSON]  = {ACT_QUIET, ACT_BEGIN,      ACT_JOIN,       ACT_CLIMB,      ACT_JOIN, ACT_REFUSE},
    [ASKER_NOW]     = {ACT_QUIET, ACT_BEGIN_LAST, ACT_CLIMB_LAST, ACT_CLIMB_LAST, ACT_JOIN, ACT_REFUSE},
    [ASKER_PARENT]  = {ACT_QUIET, ACT_BEGIN,      ACT_JOIN,       ACT_JOIN,       ACT_JOIN, ACT_REFUSE},
    [ASKER_OWNER]   = {ACT_QUIET, ACT_BEGIN,      ACT_JOIN,       ACT_JOIN,       ACT_JOIN, ACT_REFUSE},
    [ASKER_CLOCK]   = {ACT_NONE,  ACT_BEGIN,      ACT_JOIN,       ACT_JOIN,       ACT_JOIN, ACT_REFUSE},
};
/* clang-format on */

enum act stop_act(enum asker asker, enum stage stage) { return table[asker][stage]; }
