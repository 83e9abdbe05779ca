/* agent: the guard's other half in a container, which keeps the command and everything that the command starts */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent_note.h"
#include "cgroup.h"
#include "clock.h"
#include "delivery.h"
#include "meeting.h"
#include "procfs.h"
#include "spawn.h"
#include "spec.h"
#include "sweep.h"
#include "traced.h"
#include "tree.h"

enum { ATTACH_MS = 1000, FIRST_FREE = 10, NO_AGENT = 125, REAP_AT_ONCE = 1000 };
enum { FIRST_PASS_MS = 2, LAST_PASS_MS = 50, STUCK_AFTER_PASSES = 10, SIGNALS_AT_ONCE = 8, REQUESTS_MAX = 16 };
#define WALK_SLICE_NS 20000000u    /* while it walks, the agent looks at the dead and at its guard this often */
#define SWEEP_NS 2000000000u

extern char **environ;

struct agent {
    const char *meeting;
    int in, out;     /* the link; `in` is -1 when the guard listens no more */
    int listener;    /* for the attaching client; -1 when it has come */
    int attached;    /* the attaching client; -1: not there yet */
    int signals;
    struct spec spec;
    bool has_spec;
    struct spawned spawned;
    pid_t leader;    /* 0 when it has been reaped or was never started */
    bool had_leader;
    bool killing;
    bool kill_goes_on; /* the last pass was cut short, or found new processes: the next comes at once */
    int passes;
    struct note requests[REQUESTS_MAX]; /* for a signal to the whole tree; the first is under way */
    int waiting;                        /* how many there are */
    struct note usage; /* user_us, system_us, max_rss_kib of all processes reaped so far */
};

static struct agent agent = {.in = -1, .out = -1, .listener = -1, .attached = -1};

static void send_note(struct note note) {
    note.mark = NOTE_MARK;
    if (write(agent.out, &note, sizeof note) != (ssize_t)sizeof note)
        agent.killing = true; /* the guard listens no more */
}

static void block_signals(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
}

static int attach(const char *meeting) {
    int code = NO_AGENT;
    block_signals(); /* a terminal's signals are meant for the command */
    return meeting_attach(meeting, &code) ? code : NO_AGENT;
}

/* ── starting ─────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool names_same(const char *one, const char *other) {
    size_t length = strcspn(one, "=");
    return strncmp(one, other, length + 1) == 0 && one[length] == '=';
}

static bool is_set_by_spec(const char *variable) {
    for (char **own = agent.spec.env; *own != NULL; own++) {
        if (names_same(*own, variable))
            return true;
    }
    return false;
}

/* The container's own environment, overridden by the variables of the spec. */
static bool merge_environment(void) {
    size_t count = 1, at = 0;
    for (char **variable = environ; *variable != NULL; variable++)
        count++;
    for (char **variable = agent.spec.env; *variable != NULL; variable++)
        count++;
    char **merged = mmap(NULL, count * sizeof *merged, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (merged == MAP_FAILED)
        return false;
    for (char **variable = environ; *variable != NULL; variable++) {
        if (!is_set_by_spec(*variable))
            merged[at++] = *variable;
    }
    for (char **variable = agent.spec.env; *variable != NULL; variable++)
        merged[at++] = *variable;
    agent.spec.env = merged;
    return true;
}

static bool read_whole(int fd, void *data, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t got = read(fd, (char *)data + done, length - done);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

static bool take_spec(int32_t length) {
    int fd = memfd_create("holdfast-spec", MFD_CLOEXEC);
    char piece[4096];
    if (fd < 0 || length <= 0 || length > NOTE_SPEC_MAX || agent.has_spec)
        return false;
    for (size_t left = (size_t)length; left > 0;) {
        size_t part = left < sizeof piece ? left : sizeof piece;
        if (!read_whole(agent.in, piece, part) || write(fd, piece, part) != (ssize_t)part)
            return false;
        left -= part;
    }
    agent.has_spec = spec_read(&agent.spec, fd) && merge_environment();
    close(fd);
    return agent.has_spec;
}

/* Makes the command's group the foreground group of our session's terminal, as the guard does on the host. */
static void give_terminal(void) {
    if (isatty(0) && agent.leader > 0) {
        setpgid(agent.leader, agent.leader);
        tcsetpgrp(0, agent.leader);
    }
}

static void tell_failure(const struct fact_spawn_failed *failure) {
    send_note((struct note){.word = NOTE_FAILED, .step = failure->step, .error = failure->error});
}

static void hold_command(int *stdio) {
    struct cgroup cgroup;
    struct fact_spawn_failed failure = {.step = STEP_SETUP};
    struct process_stat status = {0};
    cgroup_none(&cgroup);
    dup2(stdio[0], 0);
    if (isatty(0))
        ioctl(0, TIOCSCTTY, 0);
    bool held = spawn_held(&agent.spawned, &agent.spec, &cgroup, (struct child_stdio){stdio[1], stdio[2]}, &failure);
    for (int i = 0; i < 3; i++)
        close(stdio[i]);
    agent.leader = held ? agent.spawned.pid : 0;
    if (held)
        spawn_watch(&agent.spawned);
    agent.had_leader = true;
    tree_set_leader(agent.leader);
    give_terminal();
    dup2(1, 0); /* our own stdin is /dev/null again */
    if (!held) {
        tell_failure(&failure);
        return;
    }
    read_stat(agent.leader, &status);
    send_note((struct note){
        .word = NOTE_HELD, .pid = agent.leader, .agent_pid = getpid(), .start_ticks = status.start_ticks});
}

static void welcome(void) {
    int fd = accept4(agent.listener, NULL, NULL, SOCK_CLOEXEC), stdio[3];
    if (fd < 0)
        return;
    /* The attaching client sends before it waits. A silent peer is a stranger: the agent does not wait for it. */
    struct pollfd watched = {fd, POLLIN, 0};
    if (poll(&watched, 1, ATTACH_MS) != 1 || !meeting_receive(fd, agent.meeting, stdio)) {
        close(fd);
        return;
    }
    close(agent.listener);
    agent.listener = -1;
    agent.attached = fd;
    hold_command(stdio);
}

/* ── keeping ──────────────────────────────────────────────────────────────────────────────────────────────────── */

static void add_usage(const struct rusage *usage) {
    agent.usage.user_us += (int64_t)usage->ru_utime.tv_sec * 1000000 + usage->ru_utime.tv_usec;
    agent.usage.system_us += (int64_t)usage->ru_stime.tv_sec * 1000000 + usage->ru_stime.tv_usec;
    if (usage->ru_maxrss > agent.usage.max_rss_kib)
        agent.usage.max_rss_kib = usage->ru_maxrss;
}

/* The time by the host's clock. A container may have a time namespace, and then it has a clock of its own: 0. */
static uint64_t time_on_host(void) {
    char offsets[128];
    const ssize_t got = read_small(AT_FDCWD, "/proc/self/timens_offsets", offsets, sizeof offsets);
    return got > 0 && strpbrk(offsets, "123456789") == NULL ? clock_now() : 0;
}

/* Tells the guard of the exit first. Then the attaching client ends, and the runtime passes on the last output. */
static void leader_exited(int status) {
    struct fact_spawn_failed failure;
    agent.leader = 0;
    if (spawn_has_failed(&agent.spawned, &failure)) {
        tell_failure(&failure);
    } else {
        struct note exited = agent.usage; /* of the command, and of orphans of it that we reaped before */
        exited.word = NOTE_EXITED;
        exited.at_ns = time_on_host();
        exited.wait_status = status;
        exited.count = tree_count();
        send_note(exited);
    }
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (send(agent.attached, &code, sizeof code, MSG_NOSIGNAL) < 0)
        close(agent.attached); /* the client was killed; the guard will see that */
}

static void child_changed(pid_t pid, int status, const struct rusage *usage) {
    if (traced_let_go(pid, status) || !(WIFEXITED(status) || WIFSIGNALED(status)))
        return;
    add_usage(usage);
    if (pid == agent.leader)
        leader_exited(status);
}

/* Reaps the dead. False when no child is left. */
static bool reap(void) {
    int status;
    struct rusage usage;
    pid_t pid = 0;
    if (agent.leader > 0 && traced_wait(agent.leader, &agent.spawned.process, &status, &usage) > 0)
        child_changed(agent.leader, status, &usage);
    for (int taken = 0; taken < REAP_AT_ONCE; taken++) {
        pid = wait4(-1, &status, WNOHANG | __WALL, &usage);
        if (pid <= 0)
            break;
        child_changed(pid, status, &usage);
    }
    return pid >= 0 || errno != ECHILD;
}

static void reap_for_tree(void *unused) {
    (void)unused;
    reap();
}

static void tell_reach(const struct note *request, struct reach reach) {
    send_note((struct note){.word = request->word == NOTE_WARN ? NOTE_WARNED : NOTE_REACHED,
                      .signal = request->signal,
                      .rung = request->rung,
                      .reached = reach.reached,
                      .refused = reach.refused});
}

static struct reach signal_one(int number) {
    struct reach reach = {0};
    if (agent.leader > 0)
        reach.reached = kill(agent.leader, number) == 0;
    return reach;
}

/* ── one signal for every process, in as many turns as it takes ───────────────────────────────────────────────── */

static struct delivery delivery; /* of the first request */

static void answer_first(void) {
    const struct reach reach = delivery.is_under_way ? delivery_end(&delivery) : (struct reach){0};
    tell_reach(&agent.requests[0], reach);
    memmove(&agent.requests[0], &agent.requests[1], (size_t)--agent.waiting * sizeof agent.requests[0]);
}

/* The next rung does not wait for what is under way: that goes no further. */
static void answer_all(void) {
    while (agent.waiting > 0)
        answer_first();
}

static void deliver(const struct note *request) {
    if (request->word == NOTE_ASK)
        answer_all();
    if (agent.waiting == REQUESTS_MAX)
        answer_first();
    agent.requests[agent.waiting++] = *request;
}

static void go_on_delivering(void) {
    if (agent.waiting == 0)
        return;
    const uint32_t word = agent.requests[0].word;
    if (!delivery.is_under_way)
        delivery_begin(&delivery,
                       word == NOTE_ASK      ? DELIVER_RUNG
                       : word == NOTE_SIGNAL ? DELIVER_TO_ALL
                                             : DELIVER_TO_CATCHERS,
                       agent.requests[0].signal);
    if (delivery_go_on(&delivery, clock_now() + WALK_SLICE_NS))
        answer_first();
}

/* One slice of the kill. */
static struct reach kill_all(void) {
    const struct reach reach = tree_kill(reap_for_tree, NULL);
    agent.kill_goes_on = reach.found_new;
    return reach;
}

static bool handle(const struct note *note) {
    switch (note->word) {
    case NOTE_SPEC:
        return take_spec(note->count);
    case NOTE_GO:
        spawn_release(); /* if the command is dead already, the guard will hear of its exit */
        return true;
    case NOTE_ASK:
    case NOTE_SIGNAL:
    case NOTE_WARN:
        deliver(note);
        return true;
    case NOTE_SIGNAL_ONE:
        tell_reach(note, signal_one(note->signal));
        return true;
    case NOTE_KILL:
        answer_all();
        agent.killing = true;
        tell_reach(note, kill_all());
        return true;
    default:
        return false;
    }
}

static void take_note(void) {
    struct note note;
    if (read_whole(agent.in, &note, sizeof note) && note.mark == NOTE_MARK && handle(&note))
        return;
    close(agent.in); /* nobody listens any more: nothing may go on here */
    agent.in = -1;
    agent.killing = true;
    spawn_forbid(); /* a command that is still held never runs */
}

static void kill_again(void) {
    kill_all();
    if (!agent.kill_goes_on && ++agent.passes % STUCK_AFTER_PASSES == 0)
        send_note((struct note){.word = NOTE_SURVIVORS, .count = tree_count()});
}

static int pause_ms(void) {
    if (agent.waiting > 0 || (agent.killing && agent.kill_goes_on))
        return 0;
    if (!agent.killing)
        return -1;
    int pause = FIRST_PASS_MS * (agent.passes + 1);
    return pause < LAST_PASS_MS ? pause : LAST_PASS_MS;
}

/* One turn: first the dead, then the guard, then the attaching client. False: everything is over. */
static bool turn(void) {
    /* The spec and the attaching client come on two ways, in any order. The client waits until the spec is there. */
    struct pollfd watched[] = {{agent.signals, POLLIN, 0},
                               {agent.in, POLLIN, 0},
                               {agent.has_spec ? agent.listener : -1, POLLIN, 0},
                               {agent.leader > 0 ? agent.spawned.process : -1, POLLIN, 0}}; /* reap() looks at it */
    struct signalfd_siginfo pending[SIGNALS_AT_ONCE]; /* no more at once: in a storm of deaths there is always another */
    if (poll(watched, 4, pause_ms()) < 0 && errno != EINTR)
        agent.killing = true;
    if (read(agent.signals, pending, sizeof pending) < 0 && errno != EAGAIN)
        agent.killing = true;
    if (!reap() && (agent.had_leader || agent.killing))
        return false;
    if (watched[1].revents)
        take_note();
    if (watched[2].revents && !agent.killing)
        welcome();
    go_on_delivering();
    if (agent.killing)
        kill_again();
    return true;
}

/* Says on stderr what the container lacks: the guard records the runtime's last words. */
static bool lacks(const char *what) {
    dprintf(2, "%s is missing in the container\n", what);
    return false;
}

static bool works(int probe) { return probe >= 0 && close(probe) == 0; }

static bool prepare(const char *meeting) {
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    block_signals();
    spawn_reset_signals();
    agent.in = fcntl(0, F_DUPFD_CLOEXEC, FIRST_FREE);
    agent.out = fcntl(1, F_DUPFD_CLOEXEC, FIRST_FREE);
    agent.signals = signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC);
    agent.meeting = meeting;
    agent.listener = meeting_open(meeting);
    if (!works(memfd_create("holdfast-probe", MFD_CLOEXEC)))
        return lacks("the system call memfd_create");
    if (!works((int)syscall(SYS_pidfd_open, getpid(), 0)))
        return lacks("the system call pidfd_open");
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0)
        return lacks("/dev/null");
    for (int fd = 0; fd < 3; fd++) {
        if (dup2(nothing, fd) < 0)
            return false;
    }
    close(nothing);
    return agent.in >= 0 && agent.out >= 0 && agent.signals >= 0 && agent.listener >= 0 &&
           prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

static int hold(const char *meeting) {
    if (!prepare(meeting))
        return NO_AGENT;
    send_note((struct note){.word = NOTE_HELLO, .agent_pid = getpid()});
    while (turn())
        continue;
    answer_all();
    struct note gone = agent.usage;
    gone.word = NOTE_GONE;
    send_note(gone);
    return 0;
}

int agent_main(const char *role, const char *argument) {
    if (strcmp(role, "hold") == 0)
        return hold(argument);
    if (strcmp(role, "sweep") == 0)
        return sweep(argument, clock_now() + SWEEP_NS, &(bool){false});
    return strcmp(role, "attach") == 0 ? attach(argument) : NO_AGENT;
}
