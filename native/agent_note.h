/*
 * What a guard and its agent in a container say to each other, over the agent's stdin and stdout.
 *
 * Whole notes of one size, both ways; only NOTE_SPEC is followed by more. The two are the same program, so there is no
 * version: a note that is not understood ends the conversation. End of file means that nobody listens any more, and then
 * the agent ends everything it has started.
 */
#ifndef HOLDFAST_AGENT_NOTE_H
#define HOLDFAST_AGENT_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NOTE_MARK 0x544f4e48u /* "HNOT" */

enum note_word {
    NOTE_HELLO = 1, /* agent: I am there */
    NOTE_SPEC,      /* guard: this is to be run; `count` bytes follow */
    NOTE_HELD,      /* agent: it is there as `pid` and waits */
    NOTE_GO,        /* guard: that is on record, let it go */
    NOTE_FAILED,    /* agent: it could not be started: `step`, `error` */
    NOTE_ASK,       /* guard: a rung; answered by NOTE_REACHED, as the next two */
    NOTE_SIGNAL,    /* guard: one signal to all */
    NOTE_SIGNAL_ONE, /* guard: or to the command only */
    NOTE_KILL,      /* guard: the last rung; the agent repeats it until nobody is left */
    NOTE_REACHED,   /* agent */
    NOTE_WARN,      /* guard */
    NOTE_WARNED,    /* agent */
    NOTE_EXITED,    /* agent: the command ended, and `count` of its processes have not */
    NOTE_SURVIVORS, /* agent: `count` do not die */
    NOTE_GONE,      /* agent: waitpid says ECHILD. Its last word. */
};

struct note {
    uint32_t mark;
    uint32_t word;
    int32_t signal;
    int32_t rung;
    int32_t reached;
    int32_t refused;
    int32_t pid;
    int32_t agent_pid;
    uint64_t start_ticks;
    int32_t step;
    int32_t error;
    int32_t wait_status;
    int32_t count;
    int64_t user_us;
    int64_t system_us;
    int64_t max_rss_kib;
};

enum { NOTE_SPEC_MAX = 16 << 20 };

#endif
