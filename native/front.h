/* front: waits in the owner's place while a run goes on, and becomes Python again when there is something to tell */
#ifndef HOLDFAST_FRONT_H
#define HOLDFAST_FRONT_H

/*
 *   Python: parse, check, start the run ──execve──▶ front: wait ──▶ exit with the command's exit code
 *                                                     └──execve──▶ Python: read the record, say how the run ended
 *
 * An interpreter takes 10 MB for as long as it lives, and most of its life is waiting. The front is this static program
 * in another role. It is the same process as the owner that started the run, so it has the control socket, the journal
 * and the pidfd of the sentinel, and the guard sees no change.
 *
 * The front does not know what an outcome is. It reads the facts that the guard has announced. If these are the facts
 * of a command that exited by itself, with nothing left, the exit code of the front is that of the command. After every
 * other fact, and when the guard is lost or late, it becomes Python. Signals are blocked from before the one execve to
 * after the other, so none is lost: each is pending, and the program that comes takes it.
 *
 * `holdfast-guard front NUMBER... PROGRAM ARG... WHY`: the numbers are those of `enum front_number`. The front executes
 * PROGRAM, and the last argument then says why: one of the words below.
 */

enum front_number {
    FRONT_CONTROL = 2, /* descriptors: the control socket, the journal, the pidfd of the sentinel */
    FRONT_JOURNAL,
    FRONT_SENTINEL,
    FRONT_OFFSET,      /* where the guard's facts begin in the journal */
    FRONT_EOF_NS,      /* how long the command may go on after end of file on stdin; 0: for ever */
    FRONT_SETTLE_NS,   /* how long the run may take from a request to stop to its end */
    FRONT_BOUND_NS,    /* CLOCK_MONOTONIC: when the run has to be over by itself; 0: no bound */
    FRONT_NESTED,      /* not 0: the run is inside another one, and Python has to find out who signals us */
    FRONT_INPUT,       /* descriptors of a relay (relay.h), or -1: where the server reads, and where it writes */
    FRONT_OUTPUT,
    FRONT_SESSION,     /* the memfd of the relay */
    FRONT_STARTER,     /* readable when the process that started us is gone; -1: nobody watches it */
    FRONT_IDLE_NS,     /* a server that says nothing for so long is ended, and started again when it is spoken to */
    FRONT_PROGRAM,
};

#define FRONT_END "end"       /* the run has ended, or its guard is lost */
#define FRONT_SIGNAL "signal" /* a signal came that Python has to judge: it is pending */
#define FRONT_LATE "late"     /* the run is not over, although its bound has passed */
#define FRONT_WAKE "wake"     /* a server that was ended for silence is spoken to */

/* The life of the front. Returns its exit code. */
int front_main(int argc, char **argv);

#endif
