/*
 * One run, from held to ended.
 *
 *   HELD ──release──▶ RUNNING ──verdict──▶ STOPPING ──tree gone or given up──▶ DRAINING ──▶ ENDED
 *                        │                    ▲                                   ▲
 *                        ├─exit, stragglers──▶LINGERING (policy wait)──gone───────┤
 *                        └─exit, nobody left, or stragglers to be left alone──────┘
 *
 * The verdict is given exactly when the phase leaves RUNNING (or HELD, when the command is never started): the first
 * decisive fact is in the journal by then and nothing recorded later can come before it. What a fact means is not decided here.
 *
 * In a container the command is the agent's child (agent_link.h); the leader here is the runtime's client that passes its
 * output on. The exit is recorded when the agent tells it; then the run is LINGERING until that client has delivered the rest.
 *
 * Rule for everything that could end a run (a timer, a request, a signal, a lost owner): reap first. An exit that has
 * already happened is recorded before it, so a command that finished in time has finished in time, however late we look.
 */
#ifndef HOLDFAST_RUN_H
#define HOLDFAST_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "activity.h"
#include "cgroup.h"
#include "clock.h"
#include "control.h"
#include "agent_link.h"
#include "journal.h"
#include "location.h"
#include "output.h"
#include "spawn.h"
#include "spec.h"

enum phase { PHASE_HELD, PHASE_RUNNING, PHASE_LINGERING, PHASE_STOPPING, PHASE_DRAINING, PHASE_ENDED };

struct run {
    enum phase phase;
    struct spec spec;
    struct journal journal;
    struct cgroup cgroup;
    struct spawned spawned;
    struct output output;
    struct control control;
    struct timers timers;
    struct activity activity;
    struct agent_link agent;
    const struct location *location;
    pid_t leader;         /* 0 when it has been reaped or never was */
    bool children_gone;   /* waitpid said ECHILD */
    struct fact_end usage; /* of everybody reaped so far */
    bool reap_again;      /* there were more dead than we take at once */
    bool wake_owners;     /* something they wait for has been recorded */
    bool awaits_go;       /* its owner is still looking whether we may start it: PACKET_GO */
    size_t rung;          /* the next one to climb */
    uint64_t started_ns;  /* 0: the command was never let go */
    uint64_t deadline_ns; /* from the start, as extended */
    uint64_t bound_ns;    /* stragglers of a finished command are killed at this instant at the latest; 0: no such bound */
    uint64_t pass_ns;     /* how long until the last rung looks again */
    int input;            /* the command's stdin or terminal, kept for later owners; -1 */
    int owner_process;    /* pidfd of the process that started us; -1 */
};

/* Events. Each one is total: it may come in any phase. */
void run_never_started(struct run *run, const struct fact_spawn_failed *failure);
void run_start(struct run *run);
void run_reap(struct run *run);
/* The first half of run_reap: takes the dead away and records the leader's end, but draws no conclusions. */
void run_collect(struct run *run);
void run_output(struct run *run, int stream);

/* For the locations. */
/* Records that it could not be started, and ends it quietly. */
void run_spawn_failed(struct run *run, const struct fact_spawn_failed *failure);
/* Records how the command ended, and before it what ended it. */
void run_record_exited(struct run *run, const struct fact_exited *exited);

#endif
