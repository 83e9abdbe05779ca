/* requests: what owners ask of a run, and what the run does about it */
#ifndef HOLDFAST_REQUESTS_H
#define HOLDFAST_REQUESTS_H

/* control.c receives and sends the packets. */

#include "run.h"

struct stop {
    enum stop_cause cause;
    bool now;    /* go to the last rung at once */
    bool person; /* a person asks: the second time is on purpose */
    bool has_grace;
    int signal;  /* the signal that asked, or 0 */
    uint64_t grace_ns; /* with has_grace: the last rung is climbed after this time at the latest */
    pid_t by_pid;
    uid_t by_uid;
    const char *reason;
    size_t reason_length;
};

/* Stops the run, or joins the end that is under way (stop.h). Returns 0, or an errno for the process that asked. */
int run_stop(struct run *run, const struct stop *stop);
/* Acts on what one owner has sent, up to the end of the run. */
void requests_serve(struct run *run, int owner);
/* Lets a new owner in, and records that it came. */
void requests_welcome(struct run *run);
/* An owner is gone. If it started the run, that is recorded, and may stop the run. */
void requests_owner_left(struct run *run, int owner);
/* The process that started the owner is gone, and the run ends with it. */
void requests_starter_left(struct run *run);

#endif
