/*
 * What owners ask for, and what it means for the run. Packets come and go in control.c.
 */
#ifndef HOLDFAST_REQUESTS_H
#define HOLDFAST_REQUESTS_H

#include "run.h"

struct stop {
    enum stop_cause cause;
    bool now;
    int signal;
    pid_t by_pid;
    uid_t by_uid;
    const char *reason;
    size_t reason_length;
};

/* Ends the run, whoever asks. 0, or an errno for the asker. */
int run_stop(struct run *run, const struct stop *stop);
/* Takes in what one owner has sent, up to the end of the run. */
void requests_serve(struct run *run, int owner);
/* Lets a new owner in, and records that it came. */
void requests_welcome(struct run *run);
/* An owner is gone: the one that started the run may take it along. */
void requests_owner_left(struct run *run, int owner);

#endif
