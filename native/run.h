/* run: one run, from the held child to the end of its record */
#ifndef HOLDFAST_RUN_H
#define HOLDFAST_RUN_H

/*
 * The phases of a run:
 *
 *   HELD ──release──▶ RUNNING ──verdict──▶ STOPPING ──tree gone or given up──▶ DRAINING ──▶ RECORDING ──▶ ENDED
 *                        │                    ▲                                   ▲
 *                        ├─exit, stragglers──▶LINGERING (policy wait)──gone───────┤
 *                        └─exit, nobody left, or stragglers to be left alone──────┘
 *
 * The verdict is given exactly when the phase leaves RUNNING (or HELD, when the command is never started). By then the
 * first decisive fact is in the journal, and no later fact can come before it. The guard does not decide what a fact
 * means.
 *
 * RECORDING waits for the file to have the whole record (writer.h), within a bound.
 *
 * In a container the command is the agent's child (container.h). The leader here is the runtime's client that passes
 * the output on. The guard records the exit when the agent tells it. Then the run is LINGERING until that client has
 * delivered the rest.
 *
 * Rule for everything that could end a run (a timer, a request, a signal, a lost owner): reap first. If the command has
 * already exited, the guard records that exit first. So a command that finished in time has finished in time, however
 * late the guard looks. For the deadline the kernel keeps the order (witness.h), so a late guard need not guess.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "activity.h"
#include "agent_link.h"
#include "cgroup.h"
#include "clock.h"
#include "control.h"
#include "foreign.h"
#include "journal.h"
#include "location.h"
#include "output.h"
#include "repeats.h"
#include "session_budget.h"
#include "spawn.h"
#include "spec.h"
#include "successor.h"

enum phase { PHASE_HELD, PHASE_RUNNING, PHASE_LINGERING, PHASE_STOPPING, PHASE_DRAINING, PHASE_RECORDING, PHASE_ENDED };

struct run {
    enum phase phase;
    struct spec spec;
    struct journal journal;
    struct repeats repeats;
    struct cgroup cgroup;
    struct spawned spawned;
    struct output output;
    struct control control;
    struct timers timers;
    struct activity activity;
    struct agent_link agent;
    struct foreign foreign;
    struct successor successor; /* in which the stragglers will go on */
    bool succeeds;              /* this run is a successor: it has no leader */
    const struct location *location;
    struct fact_end usage; /* of all processes reaped so far */
    struct fact_exited last_exit; /* of the process that was reaped last */
    pid_t leader;          /* 0: reaped, or never started */
    bool children_gone;    /* waitpid said ECHILD */
    bool reap_again;       /* there were more dead than the guard reaps at once */
    bool start_recorded;   /* STARTED is recorded, but perhaps not in the file yet: the command is still held */
    bool wake_owners;      /* a fact that owners wait for has been recorded */
    uint32_t news;         /* of storage, when the current turn began */
    uint64_t wake_at;      /* owners are woken when the file has the journal up to here; 0: there is nothing to wait for */
    size_t rung;           /* the next rung to climb */
    bool exit_witnessed;   /* the kernel told of the command's exit before it told of the deadline */
    bool exit_is_late;     /* the command's exit counts as after its deadline */
    bool person_asked;     /* a person has asked for the end: the second time is on purpose */
    bool parent_asked;     /* a rung of an enclosing run has come */
    uint64_t started_ns;   /* 0: the command was never released */
    uint64_t deadline_ns;  /* from the start, as extended */
    uint64_t recorded_deadline_ns; /* the last one that is on record */
    uint64_t bound_ns;     /* stragglers of a finished command are killed at this time at the latest; 0: no bound */
    uint64_t kill_by_ns;   /* a request shortened the grace: the last rung is climbed at this time; 0: none did */
    uint64_t pass_ns;      /* how long until the last rung is repeated */
    int input;             /* the command's stdin or terminal, kept for later owners; -1: none */
    int owner_process;     /* pidfd of the process that started us; -1: none */
    struct session_budget session; /* what the whole session may use */
    int starter;           /* pidfd of the process that started the owner, with which the run ends; -1: none */
};

/* Events. Each of them may come in any phase. */
void run_never_started(struct run *run, const struct fact_spawn_failed *failure);
void run_start(struct run *run);
void run_reap(struct run *run);
/* The first half of run_reap: reaps the dead and records the leader's end, but draws no conclusions. */
void run_collect(struct run *run);
void run_output(struct run *run, int stream);

/* Records that the command could not be started, and ends the run quietly. */
void run_spawn_failed(struct run *run, const struct fact_spawn_failed *failure);
/* Records how the command ended, and before that the budget that ended it. */
void run_record_exited(struct run *run, const struct fact_exited *exited);
/* Records the start, with the path of the cgroup. */
void run_record_started(struct run *run, const struct fact_started *started);

#endif
