/* delivery: one signal for every process of the tree, in as many parts as it takes */
#include "delivery.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "procfs.h"

enum { CROWD = 16 }; /* runnable processes for each processor */

/* Whether so many processes of this machine want a processor that our turn comes rarely. One read tells. */
static bool processors_are_crowded(void) {
    char text[64];
    unsigned long running;
    return proc_is_ours() && read_small(AT_FDCWD, "/proc/loadavg", text, sizeof text) > 0 &&
           sscanf(text, "%*s %*s %*s %lu/", &running) == 1 &&
           running > CROWD * (unsigned long)sysconf(_SC_NPROCESSORS_ONLN);
}

void delivery_begin(struct delivery *delivery, enum manner manner, int signal) {
    walk_forget(&delivery->walk);
    *delivery = (struct delivery){.manner = manner, .signal = signal, .is_under_way = true};
    delivery->walk.passes_nested_guards = manner != DELIVER_RUNG;
    /*
     * The tree may keep the processor from us. So its largest part, the command's group, is stopped until all have got
     * the signal: one call, and every user may do it. An ordinary user in a CPU cgroup may neither freeze the tree nor
     * outrank it.
     */
    delivery->has_stopped_group = manner == DELIVER_RUNG && processors_are_crowded();
    if (delivery->has_stopped_group)
        walk_signal_group(SIGSTOP);
}

static void send_to(struct delivery *delivery, const struct process *process, int signal) {
    if (walk_signal(&delivery->walk, process, signal) == 0)
        delivery->reach.reached++;
    else if (errno == EPERM)
        delivery->reach.refused++;
}

static void deliver_to(struct delivery *delivery, const struct process *process) {
    const int signal = delivery->signal;
    const bool guards_take_it = signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
    switch (delivery->manner) {
    case DELIVER_RUNG:
        send_to(delivery, process, process->is_guard && !guards_take_it ? SIGTERM : signal);
        walk_signal(&delivery->walk, process, SIGCONT);
        break;
    case DELIVER_TO_ALL:
        send_to(delivery, process, signal);
        break;
    case DELIVER_TO_CATCHERS:
        if (catches_signal(process->pid, signal))
            send_to(delivery, process, signal);
        break;
    }
}

bool delivery_go_on(struct delivery *delivery, uint64_t until) {
    if (delivery->is_listed)
        delivery->walk.is_old = true;
    else if (!walk_on(&delivery->walk, until))
        return false;
    delivery->is_listed = true;
    for (size_t done = 1; delivery->sent < delivery->walk.count; delivery->sent++, done++) {
        if (done % WALK_BETWEEN_LOOKS == 0 && clock_now() >= until)
            return false;
        deliver_to(delivery, walk_found(&delivery->walk, delivery->sent));
    }
    return true;
}

struct reach delivery_end(struct delivery *delivery) {
    if (delivery->has_stopped_group)
        walk_signal_group(SIGCONT); /* also to members that were forked too late for the list */
    walk_forget(&delivery->walk);
    delivery->is_under_way = false;
    return delivery->reach;
}
