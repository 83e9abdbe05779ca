/* foreign: a run whose process another program started; the guard watches it and can end it, but is not its parent */
#include "foreign.h"

#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "host.h"
#include "phases.h"
#include "procfs.h"
#include "run.h"
#include "tree.h"

#define LOOK_AGAIN_NS 20000000u /* how often the guard looks for the end of descendants: no event tells it */
enum { STATUS_TRIES = 50, STATUS_PAUSE_MS = 5 }; /* how long the parent may take to reap */

/* The kernel's struct pidfd_info in its first version. Our headers may be older than the kernel. */
struct pidfd_info_v0 {
    uint64_t mask;
    uint64_t cgroup;
    uint32_t ids[11];
    int32_t exit_code; /* as wait4 gives it */
};
#define GET_INFO _IOWR(0xFF, 11, struct pidfd_info_v0)
#define INFO_EXIT (1u << 3)

bool foreign_open(struct foreign *foreign, const struct spec *spec) {
    struct process_stat status;
    *foreign = (struct foreign){.pid = spec->foreign->pid, .start_ticks = spec->foreign->start_ticks};
    foreign->process = (int)syscall(SYS_pidfd_open, foreign->pid, 0);
    if (foreign->process < 0)
        return errno == ESRCH;
    if (!read_stat(foreign->pid, &status) || status.start_ticks != foreign->start_ticks) {
        close(foreign->process); /* the PID belongs to another process by now */
        foreign->process = -1;
        return true;
    }
    return syscall(SYS_pidfd_send_signal, foreign->process, 0, NULL, 0) == 0 || errno == ESRCH;
}

static bool has_ended(const struct foreign *foreign) {
    struct pollfd ended = {foreign->process, POLLIN, 0};
    return foreign->process < 0 || poll(&ended, 1, 0) > 0;
}

/* The guard may wait here: the process has ended, and nothing else of this run is urgent for a moment. */
static bool kernel_tells_status(int process, int *wait_status) {
    for (int i = 0; i < STATUS_TRIES; i++) {
        struct pidfd_info_v0 info = {.mask = INFO_EXIT};
        if (ioctl(process, GET_INFO, &info) < 0)
            return false; /* an older kernel */
        if (info.mask & INFO_EXIT) {
            *wait_status = info.exit_code;
            return true;
        }
        poll(NULL, 0, STATUS_PAUSE_MS); /* its parent has not reaped it yet */
    }
    return false;
}

static void record_end(struct run *run) {
    struct fact_exited exited = {0};
    if (run->foreign.process >= 0 && kernel_tells_status(run->foreign.process, &exited.wait_status))
        journal_fact(&run->journal, FACT_EXITED, &exited, sizeof exited);
    else
        journal_fact(&run->journal, FACT_VANISHED, "", 0);
    if (run->foreign.process >= 0)
        close(run->foreign.process);
    run->foreign.process = -1;
    run->foreign.ended = true;
    run->wake_owners = true;
}

static void foreign_conclude(struct run *run, bool leader_has_left) {
    (void)leader_has_left;
    if (run->phase == PHASE_HELD || run->phase >= PHASE_DRAINING)
        return;
    if (run->started_ns == 0) { /* the process could not be opened: it is not ours to end */
        run_begin_drain(run, TREE_UNKNOWN);
        return;
    }
    if (!run->foreign.ended && has_ended(&run->foreign))
        record_end(run);
    if (!run->foreign.ended)
        return;
    if (run->phase == PHASE_STOPPING && tree_count() > 0)
        timer_set(&run->timers, TIMER_AGENT, clock_now() + LOOK_AGAIN_NS);
    else
        run_begin_drain(run, TREE_SURVIVORS); /* that is `unknown` when no descendant is to be seen */
}

static void foreign_overdue(struct run *run) { run_reap(run); }

static enum containment foreign_containment(const struct run *run) {
    (void)run;
    return CONTAINMENT_NONE;
}

static void foreign_release(struct run *run) { tree_set_outside(run->foreign.pid, run->foreign.start_ticks); }

static void foreign_check_exec(struct run *run) { (void)run; }

/* The guard has no children in such a run. */
static void foreign_child_changed(struct run *run, pid_t pid, int wait_status, const struct rusage *usage) {
    (void)run;
    (void)pid;
    (void)wait_status;
    (void)usage;
}

static int signal_process(struct run *run, int number) {
    return (int)syscall(SYS_pidfd_send_signal, run->foreign.process, number, NULL, 0);
}

static int foreign_signal(struct run *run, int number, enum signal_scope scope) {
    if (scope == SCOPE_LEADER && run->foreign.process < 0)
        return ESRCH;
    return host_signal_by(run, number, scope, signal_process);
}

const struct location foreign_location = {
    .containment = foreign_containment,
    .release = foreign_release,
    .check_exec = foreign_check_exec,
    .child_changed = foreign_child_changed,
    .conclude = foreign_conclude,
    .overdue = foreign_overdue,
    .output_is_on_its_way = host_output_is_on_its_way,
    .is_reachable = host_is_reachable,
    .ask = host_ask,
    .kill = host_kill,
    .first_pass_ns = HOST_FIRST_PASS_NS,
    .kill_again = host_kill_again,
    .give_up = host_give_up,
    .survivors = host_survivors,
    .signal = foreign_signal,
    .warn = host_warn,
};
