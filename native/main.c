/* main: the entry point of sentinel and guard: set-up, and one run after another */
/*
 * The library starts holdfast-guard with the descriptors of `enum guard_fd`. The guard needs no arguments: the run's
 * id on its command line, and room for the id of a later run, are for tools that list processes. As `holdfast-guard
 * inside ...` the program is the agent in a container (agent.h), as `holdfast-guard front ...` it waits in an owner's
 * place (front.h). The guard writes everything it knows to the journal. Its exit code (`enum guard_exit`) decides nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent.h"
#include "container.h"
#include "descriptors.h"
#include "front.h"
#include "host.h"
#include "loop.h"
#include "phases.h"
#include "requests.h"
#include "sentinel.h"
#include "shared_memory.h"
#include "stand_in.h"
#include "tree.h"
#include "writer.h"

#define ENTER_WAIT_NS 30000000000u /* how long a container may take to let the agent in */

static struct run *run;
static char *shown_run_id; /* where our command line has room for the current run's id; NULL: nowhere */
static struct signalfd_siginfo early_signal; /* a signal that came while there was no run */

/* ── setting up ───────────────────────────────────────────────────────────────────────────────────────────────── */

/* Closes everything else that was open in the process that started us: neither guard nor command may keep it open. */
static bool take_descriptors(void) {
    close_between(GUARD_FD_FIRST_FREE, ~0u, 0);
    close_between(GUARD_FD_JOURNAL, GUARD_FD_FIRST_FREE - 1, CLOSE_RANGE_CLOEXEC);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0)
        return false;
    bool done = dup2(nothing, 1) == 1 && dup2(nothing, 2) == 2;
    close(nothing);
    return done;
}

static void close_unless(uint32_t flags, int fd) {
    if ((run->spec.options.flags & flags) == 0)
        close(fd);
}

/* Closes what the first run has no use for. A later run comes with what it needs, and with nothing else. */
static void close_unused(void) {
    close_unless(SPEC_PTY | SPEC_KEEP_INPUT, GUARD_FD_INPUT);
    close_unless(SPEC_LISTEN, GUARD_FD_LISTEN);
    close_unless(SPEC_LISTEN, GUARD_FD_DIRECTORY);
    close_unless(SPEC_IDLE_HEARTBEAT, GUARD_FD_HEARTBEAT);
}

static int take_signals(void) {
    sigset_t taken, all;
    sigemptyset(&taken);
    const int numbers[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGNAL_WAKE};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaddset(&taken, numbers[i]);
    int low = signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC);
    int fd = fcntl(low, F_DUPFD_CLOEXEC, GUARD_FD_FIRST_FREE); /* above the numbers of a run's descriptors */
    close(low);
    /* All signals are blocked: a signal from a terminal, a broken pipe or a limit must not end the guard. */
    sigfillset(&all);
    return sigprocmask(SIG_SETMASK, &all, NULL) < 0 ? -1 : fd;
}

/*
 * Watches the process that started us: a fork of it may keep the control socket open after it has died. The pidfd is
 * opened once, because the same process owns all runs of a guard. False: that process has died already.
 */
static bool watch_owner(void) {
    static bool has_died;
    if ((run->spec.options.flags & SPEC_OWNED) == 0 || run->spec.options.owner_pid <= 0)
        return true;
    if (run->owner_process >= 0)
        return !has_died;
    const pid_t parent = sentinel_parent();
    if (parent == 0) /* in another PID namespace (unshare --pid), where its number means nothing; or not known */
        run->owner_process = control_owner_process(&run->control);
    else
        run->owner_process = (int)syscall(SYS_pidfd_open, run->spec.options.owner_pid, 0);
    has_died = parent != 0 && parent != run->spec.options.owner_pid; /* before we looked, and its PID means nothing */
    return !has_died;
}

/*
 * The command has its stdin, so the guard closes its own: a pipe must break when the command stops reading, and a
 * terminal must hang up when it is closed. Before that, as a shell would, the guard makes the command's group the
 * foreground group of the terminal. The guard leads the session, so that group is not orphaned and Ctrl-Z stops it.
 */
static void hand_over_stdin(void) {
    if ((run->spec.options.flags & SPEC_PTY) && run->leader > 0) {
        setpgid(run->leader, run->leader); /* the child does the same: either may come first */
        tcsetpgrp(0, run->leader);
    }
    dup2(1, 0);
    if (chdir("/") < 0) /* the command is in its directory; we would only keep that file system busy */
        return;
}

/* ── the steps ────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A terminal gets two descriptors: the guard closes the one for output, and may hand the one for input to an owner. */
static bool open_stdio(struct child_stdio *stdio) {
    const uint32_t flags = run->spec.options.flags;
    run->input = (flags & SPEC_KEEP_INPUT) ? GUARD_FD_INPUT : -1;
    if ((flags & SPEC_PTY) == 0)
        return output_open(&run->output, -1, flags, stdio);
    run->input = fcntl(GUARD_FD_INPUT, F_DUPFD_CLOEXEC, GUARD_FD_FIRST_FREE);
    return run->input >= 0 && ioctl(0, TIOCSCTTY, 0) == 0 && output_open(&run->output, GUARD_FD_INPUT, flags, stdio);
}

/*
 * The held child has its own copies. Ours would keep a reader from its end of file: guard, sentinel and writer have one
 * table of descriptors. The streams that the owner gave came before anything could fail, so they are closed in any case.
 */
static void close_stdio(const struct child_stdio *stdio) {
    const uint32_t flags = run->spec.options.flags;
    if (flags & SPEC_GIVES_STDOUT)
        close(GUARD_FD_STDOUT);
    else if (stdio->out > 2)
        close(stdio->out);
    if (flags & SPEC_GIVES_STDERR)
        close(GUARD_FD_STDERR);
    else if (stdio->err > 2 && stdio->err != stdio->out)
        close(stdio->err);
    if (flags & SPEC_WITH_ENTRY)
        close(GUARD_FD_ENTRY); /* or its owner would not hear of the exec */
}

/*
 * A guard that is used again starts the command where its owner is now. The owner sends its directory and no path: the
 * path may lead elsewhere, or be closed to us, or the directory may have none any more.
 */
static bool enter_directory(void) {
    if (run->control.directory < 0)
        return true;
    const bool entered = fchdir(run->control.directory) == 0;
    const int error = errno;
    close(run->control.directory);
    run->control.directory = -1;
    errno = error;
    return entered;
}

/*
 * A process that another program started: nothing is spawned, and there is no output. The process runs already, so the
 * run starts at once: a stop that was asked for before this ends the process, and does not let it go on unwatched.
 */
static void prepare_foreign(void) {
    run->location = &foreign_location;
    const bool found = foreign_open(&run->foreign, &run->spec);
    const struct fact_spawn_failed failure = {.step = STEP_SETUP, .error = errno};
    run->spawned.start_ticks = run->foreign.start_ticks;
    hand_over_stdin();
    if (found) {
        run_start(run);
        run_reap(run); /* it may have ended already, and then no event tells us */
        return;
    }
    run->foreign.pid = 0;
    run_never_started(run, &failure);
}

/* Everything up to the held child. A failure is recorded as the reason why the command never ran. */
static void prepare(void) {
    struct child_stdio stdio = {-1, -1};
    struct fact_spawn_failed failure = {.step = STEP_SETUP};
    run->location = run->spec.container != NULL ? &container_location : &host_location;
    agent_link_init(&run->agent);
    output_prepare(&run->output, &run->journal, &run->spec.options);
    if (run->spec.foreign != NULL) {
        prepare_foreign();
        return;
    }
    limit_descriptors(run->spec.descriptors);
    bool held = enter_directory();
    if (!held)
        failure.step = STEP_CHDIR;
    held = held && open_stdio(&stdio);
    if (held && run->spec.container != NULL) {
        held = agent_link_open(&run->agent, &run->spec);
        timer_set(&run->timers, TIMER_AGENT, clock_now() + ENTER_WAIT_NS);
    }
    if (!held) {
        failure.error = errno;
    } else {
        cgroup_make(&run->cgroup, &run->spec);
        held = spawn_held(&run->spawned, &run->spec, &run->cgroup, stdio, &failure);
    }
    close_stdio(&stdio);
    run->leader = held ? run->spawned.pid : 0;
    tree_set_leader(run->leader);
    hand_over_stdin();
    if (!held)
        run_never_started(run, &failure);
}

/* Keeps one run, from its spec to its end. */
static int keep_run(int signals) {
    run->starter = (run->spec.options.flags & SPEC_WITH_STARTER) ? GUARD_FD_STARTER : -1;
    run->session = session_budget_open((run->spec.options.flags & SPEC_SESSION_BUDGET) ? GUARD_FD_SESSION : -1);
    if (!journal_open(&run->journal, GUARD_FD_JOURNAL))
        return GUARD_NO_JOURNAL;
    atomic_store(&sentinel->keeps_run, true);
    const uint32_t flags = run->spec.options.flags;
    run->control.owners[0].wants_output = (flags & SPEC_WAKE_OUTPUT) != 0;
    run->control.owners[0].holds_from = run->spec.options.window_bytes > 0 ? run->journal.length : 0;
    run->control.listener = (flags & SPEC_LISTEN) ? GUARD_FD_LISTEN : -1;
    const bool owner_lives = watch_owner();
    prepare();
    /* A stop that was asked for before the start comes before it: the command is never executed. */
    if (run->phase == PHASE_HELD && early_signal.ssi_signo != 0)
        loop_take_signal(run, &early_signal);
    if (run->phase == PHASE_HELD)
        loop_take_signals(run, signals);
    if (run->phase == PHASE_HELD)
        requests_serve(run, 0);
    if (!owner_lives && run->control.owners[0].fd >= 0 && run->phase != PHASE_ENDED)
        requests_owner_left(run, 0);
    if (run->phase == PHASE_HELD)
        loop_look_at_starter(run);
    loop_start_if_allowed(run); /* or later, in the loop */
    if (run->phase != PHASE_ENDED)
        run_announce(run);
    while (run->phase != PHASE_ENDED)
        loop_turn(run, signals);
    atomic_store(&sentinel->keeps_run, false);
    return GUARD_OK;
}

/* Tools that look for runs without a guard read our command line: the first run's id, then the current run's. */
static void show_run_id(const char *run_id) {
    const size_t room = shown_run_id == NULL ? 0 : strlen(shown_run_id), length = strlen(run_id);
    for (size_t i = 0; i < room && length <= room; i++)
        shown_run_id[i] = i < length ? run_id[i] : ' '; /* blanks, so that the room keeps its size */
}

/* Keeps the run in which the stragglers of the last one go on. False: there are none. */
static bool keep_successor(int signals) {
    char run_id[SUCCESSOR_ID_MAX + 1];
    if (run->successor.files[KEEP_JOURNAL] < 0)
        return false;
    memcpy(run_id, run->successor.run_id, sizeof run_id);
    atomic_store(&sentinel->keeps_run, true);
    if (successor_begin(run)) {
        show_run_id(run_id);
        while (run->phase != PHASE_ENDED)
            loop_turn(run, signals);
    }
    atomic_store(&sentinel->keeps_run, false);
    return true;
}

/* A signal asks a guard without a run to end, or the run that is on its way to it. The end of a child is old news. */
static void take_early_signals(int signals) {
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD && info.ssi_signo != SIGNAL_WAKE)
            early_signal = info;
    }
}

/* Waits for the next run. False: there will be none. */
static bool wait_for_next(int signals) {
    struct pollfd watched[] = {
        {run->control.owners[0].fd, POLLIN, 0}, {run->owner_process, POLLIN, 0}, {signals, POLLIN, 0}};
    enum control_news news = CONTROL_NOTHING;
    size_t length = 0;
    while (news == CONTROL_NOTHING && early_signal.ssi_signo == 0 && watched[1].revents == 0) {
        sentinel_before_sleep(0, 0);
        if (poll(watched, 3, -1) < 0 && errno != EINTR)
            return false;
        take_early_signals(signals);
        if (sentinel_has_died()) /* the owner learns it with the next run, if there is one */
            stand_in_start(run);
        news = control_next_run(&run->control, spec_buffer(), &length);
    }
    return news == CONTROL_REQUEST && spec_parse_buffer(&run->spec, length);
}

/*
 * A guard may keep one run after another for the same owner: starting a guard costs as much as a short run. False:
 * there is no next run, and the guard ends.
 */
static bool take_next_run(int signals) {
    if (!run_leaves_guard_reusable(run))
        return false;
    const uint32_t flags = run->spec.options.flags;
    spec_forget(&run->spec);
    close(GUARD_FD_JOURNAL);
    if (run->input >= 0)
        close(run->input);
    if (flags & SPEC_IDLE_HEARTBEAT)
        close(GUARD_FD_HEARTBEAT);
    const struct control control = run->control;
    const struct cgroup cgroup = run->cgroup;
    int owner_process = run->owner_process;
    if (owner_process >= 0 && !raise_descriptor(&owner_process))
        return false;
    *run = (struct run){.control = control, .cgroup = cgroup, .owner_process = owner_process};
    run->foreign.process = -1;
    successor_none(&run->successor);
    early_signal.ssi_signo = 0;
    const bool again = wait_for_next(signals);
    if (again)
        show_run_id(run->spec.run_id);
    return again;
}

static bool take_memory(void) {
    run = shared_memory(sizeof *run);
    return run != NULL && spec_prepare() && spawn_prepare() && sentinel_prepare();
}

/* The life of the guard: one run after another. */
static int keep_runs(int signals) {
    int code;
    do {
        code = keep_run(signals);
    } while (code == GUARD_OK && !keep_successor(signals) && take_next_run(signals));
    control_close(&run->control); /* first: an owner that has a run for us learns at once that we take no more */
    cgroup_remove(&run->cgroup);
    sentinel_let_go();
    return code;
}

int main(int argc, char **argv) {
    if (argc > FRONT_PROGRAM + 1 && strcmp(argv[1], "front") == 0)
        return front_main(argc, argv);
    if (!take_memory())
        return GUARD_NO_SETUP;
    if (argc == 4 && strcmp(argv[1], "inside") == 0)
        return agent_main(argv[2], argv[3]);
    shown_run_id = argc == 3 ? argv[2] : NULL;
    if (!take_descriptors())
        return GUARD_NO_SETUP;
    const int signals = take_signals();
    if (signals < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return GUARD_NO_SETUP;
    stand_in_prepare(signals);
    spawn_reset_signals();
    control_open(&run->control, GUARD_FD_CONTROL);
    cgroup_none(&run->cgroup);
    run->owner_process = run->foreign.process = run->starter = -1;
    successor_none(&run->successor);
    if (!spec_read(&run->spec, GUARD_FD_SPEC))
        return GUARD_BAD_SPEC;
    close(GUARD_FD_SPEC);
    close_unused();
    close_unless(SPEC_WITH_STARTER, GUARD_FD_STARTER); /* only the first run of a guard can have a starter */
    close_unless(SPEC_SESSION_BUDGET, GUARD_FD_SESSION);
    close_unless(SPEC_WITH_ENTRY, GUARD_FD_ENTRY);
    watch_owner();
    take_early_signals(signals); /* the guard is a new process, which has none of our signals */
    const bool listens = (run->spec.options.flags & SPEC_LISTEN) != 0;
    journal_start_writer(&run->journal, GUARD_FD_JOURNAL, listens ? GUARD_FD_DIRECTORY : -1);
    const int code = sentinel_fork_guard() ? keep_runs(signals) : sentinel_watch(run, signals);
    control_close(&run->control); /* after a takeover */
    if (run->journal.writer != NULL)
        writer_reap(run->journal.writer);
    return code;
}
