/* location: where the command runs: on this host, in a container, or below another program; what differs there */
#ifndef HOLDFAST_LOCATION_H
#define HOLDFAST_LOCATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "frame.h"

struct run;

/*
 * There are three tables: host_location (host.h), container_location (container.h) and foreign_location (foreign.h). On
 * the host the tree descends from this guard. In a container it descends from the agent, and the guard's own children
 * are clients of the container's runtime. A foreign process has another parent, and the guard has no children.
 */
struct location {
    enum containment (*containment)(const struct run *run);

    /* The start. */
    void (*release)(struct run *run);    /* STARTED is on record: lets the held command go on */
    void (*check_exec)(struct run *run); /* looks whether exec has failed, and records that */

    /* Children of the guard. */
    void (*child_changed)(struct run *run, pid_t pid, int wait_status, const struct rusage *usage);
    void (*conclude)(struct run *run, bool leader_has_left); /* the second half of run_reap */
    void (*overdue)(struct run *run);                        /* TIMER_AGENT is due */
    bool (*output_is_on_its_way)(const struct run *run); /* the command has exited, its output is not all here */

    /* The ladder. */
    bool (*is_reachable)(const struct run *run);
    void (*ask)(struct run *run, int signal, size_t rung); /* every rung but the last, recorded */
    void (*kill)(struct run *run);                         /* the last rung, recorded */
    uint64_t first_pass_ns;                                /* how long until the last rung is repeated */
    uint64_t (*kill_again)(struct run *run);               /* returns how long until the next repetition */
    void (*give_up)(struct run *run);                      /* kill-wait is over */
    int (*survivors)(const struct run *run, char *text, size_t size, size_t *length); /* as tree_survivors */

    /* Signals beside the ladder. */
    int (*signal)(struct run *run, int signal, enum signal_scope scope); /* 0 or an errno for the asker */
    void (*warn)(struct run *run, int signal);
};

#endif
