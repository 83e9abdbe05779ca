/* agent_note: the messages between a guard and its agent in a container */
#ifndef HOLDFAST_AGENT_NOTE_H
#define HOLDFAST_AGENT_NOTE_H

/*
 * Notes travel over the agent's stdin and stdout. All have the same size, in both directions; only NOTE_SPEC is
 * followed by more bytes. Guard and agent are the same program, so there is no version: a note that is not understood
 * ends the conversation. At end of file nobody listens any more, and the agent ends everything that it has started.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NOTE_MARK 0x544f4e48u /* "HNOT" */

enum note_word {
    NOTE_HELLO = 1,  /* agent: I am here */
    NOTE_SPEC,       /* guard: run this; `count` bytes follow */
    NOTE_HELD,       /* agent: the command is held as `pid` */
    NOTE_GO,         /* guard: that is on record, let the command go */
    NOTE_FAILED,     /* agent: the command could not be started: `step`, `error` */
    NOTE_ASK,        /* guard: a rung; the agent answers this and the next three with NOTE_REACHED */
    NOTE_SIGNAL,     /* guard: one signal to every process */
    NOTE_SIGNAL_ONE, /* guard: one signal to the command only */
    NOTE_KILL,       /* guard: the last rung; the agent repeats it until no process is left */
    NOTE_REACHED,    /* agent: how many processes the signal reached */
    NOTE_WARN,       /* guard: the warning signal */
    NOTE_WARNED,     /* agent: how many processes the warning reached */
    NOTE_EXITED,     /* agent: the command had exited by `at_ns`, and `count` of its processes have not */
    NOTE_SURVIVORS,  /* agent: `count` processes do not die */
    NOTE_GONE,       /* agent: waitpid says ECHILD; this is its last note */
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
    uint64_t at_ns; /* CLOCK_MONOTONIC of the host; 0: not known */
};

enum { NOTE_SPEC_MAX = 16 << 20 };

#endif
