/* stop: who asks for the end of a run, what is under way, and what the guard then does */
#ifndef HOLDFAST_STOP_H
#define HOLDFAST_STOP_H

/*
 * One rule: grace is never lost. Only a request that is made again on purpose, or one that says `now`, climbs the
 * ladder before its time. Every other request joins the end that is under way: the guard records it and changes no
 * clock. So a shutdown, a closed session, a retried call and each rung of an enclosing run can come as often as they
 * like. docs/ending.md shows the table to users, and a test compares the two.
 */

enum asker {
    ASKER_PROGRAM, /* a library, a daemon, a session, a shutdown; a signal to the guard */
    ASKER_PERSON,  /* a person at a keyboard or a command line: to ask a second time is to insist */
    ASKER_NOW,     /* a request that says `now` */
    ASKER_PARENT,  /* a rung of the run in which this one is nested */
    ASKER_OWNER,   /* the process that owns the run is gone */
    ASKER_CLOCK,   /* a deadline, the idle clock, a budget */
    ASKER_COUNT
};

enum stage {
    STAGE_HELD,     /* the command has not been started */
    STAGE_ALIVE,    /* it runs, or its stragglers are waited for */
    STAGE_GRACE,    /* the ladder is being climbed; no person has asked for this end */
    STAGE_INSISTED, /* the ladder is being climbed, and a person has asked for this end */
    STAGE_LAST,     /* the last rung has been climbed */
    STAGE_OVER,     /* the tree is gone or given up on */
    STAGE_COUNT
};

enum act {
    ACT_NONE,        /* cannot occur: the clocks begin when the command is released, and budgets are its own */
    ACT_REFUSE,      /* too late: there is nothing to stop */
    ACT_QUIET,       /* the command is never started */
    ACT_BEGIN,       /* climb the first rung */
    ACT_BEGIN_LAST,  /* climb the last rung at once */
    ACT_JOIN,        /* record the request, and change no clock */
    ACT_CLIMB,       /* climb the next rung at once */
    ACT_CLIMB_LAST,  /* go to the last rung at once */
};

enum act stop_act(enum asker asker, enum stage stage);

#endif
