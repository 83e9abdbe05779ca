/* front: waits in the owner's place while a run goes on, and becomes Python again when there is something to tell */
#include "front.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "frame.h"
#include "relay.h"

#define SECOND_NS 1000000000u
#define ECHO_NS 30000000u        /* one act may send a signal twice: within this time it is the same act */
#define LATE_NS SECOND_NS        /* how long after its bound a run may end by itself */
#define CONTINUE_NS SECOND_NS    /* how often a stopped sentinel is continued, without looking */
#define IDLE_EOF_NS (2 * (uint64_t)SECOND_NS) /* an idle server has this long to exit, if nothing else was said */
enum { OWN_FAILURE = 125, BY_SIGNAL = 128, EXITS_WITHIN_MS = 1000, READER_MS = 1000 };
enum { WATCH_CONTROL, WATCH_SIGNALS, WATCH_STREAMS, WATCH_COUNT = WATCH_STREAMS + RELAY_WATCHED };

struct front {
    int control;
    int journal;
    int sentinel;
    int signals;
    uint64_t offset;    /* the journal is read up to here */
    uint64_t eof_ns;
    uint64_t settle_ns;
    uint64_t late_ns;   /* when to become Python, because the run is late; 0: never */
    uint64_t stop_ns;   /* when the time after end of file is over; 0: no end of file yet, or the stop was asked */
    uint64_t asked_ns;  /* when a signal last asked for the end; 0: none did */
    uint64_t idle_ns;
    int starter;
    bool relays;        /* the bytes pass through us */
    bool falls_asleep;  /* the server is being ended, because it is idle */
    bool reader_left;   /* the client does not read any more, and the stop was asked for that */
    bool nested;
    bool stdin_ended;
    bool told_something; /* a fact that the exit code of the command does not tell */
    bool exited;
    bool ended;
    int exit_code;
    char **program;
    char **why; /* the last argument of the program */
};

/* ── Python again ─────────────────────────────────────────────────────────────────────────────────────────────── */

static _Noreturn void become_python(const struct front *front, const char *why) {
    char word[8];
    if (front->relays)
        relay_drain();
    *front->why = strncpy(word, why, sizeof word - 1);
    word[sizeof word - 1] = '\0';
    execv(front->program[0], front->program);
    dprintf(2, "holdfast: cannot say how the run ended: %s: %s\n", front->program[0], strerror(errno));
    _exit(OWN_FAILURE); /* a run that goes on loses its owner, and its guard ends it */
}

/* ── the record ───────────────────────────────────────────────────────────────────────────────────────────────── */

static bool read_at(const struct front *front, void *into, size_t size, uint64_t at) {
    return pread(front->journal, into, size, (off_t)at) == (ssize_t)size;
}

/* Notes an end that the exit code tells completely, and everything else as something for Python to tell. */
static void take_fact(struct front *front, const struct frame *frame, uint64_t at) {
    struct fact_exited exited;
    struct fact_drained drained;
    struct fact_tree tree;
    bool plain = false;
    switch (frame->type) {
    case FACT_STARTED:
    case FACT_OUTPUT:
        plain = true;
        break;
    case FACT_EXITED:
        plain = frame->length >= sizeof exited && read_at(front, &exited, sizeof exited, at) &&
                WIFEXITED(exited.wait_status);
        front->exited = plain;
        front->exit_code = plain ? WEXITSTATUS(exited.wait_status) : OWN_FAILURE;
        break;
    case FACT_DRAINED:
        plain = frame->length >= sizeof drained && read_at(front, &drained, sizeof drained, at) &&
                drained.how == DRAIN_EOF && drained.dropped_bytes == 0;
        break;
    case FACT_TREE:
        plain = frame->length >= sizeof tree && read_at(front, &tree, sizeof tree, at) && tree.how == TREE_GONE;
        break;
    case FACT_END:
        plain = front->ended = true;
        break;
    default:
        break;
    }
    if (!plain)
        front->told_something = true;
}

/* Reads the facts up to `length`, which the guard has announced: so all of them are whole. */
static void read_journal(struct front *front, uint64_t length) {
    struct frame frame;
    while (!front->ended && front->offset + sizeof frame <= length) {
        if (!read_at(front, &frame, sizeof frame, front->offset) || frame.mark != FRAME_MARK) {
            front->told_something = true; /* Python says what is wrong with it, when the guard is gone */
            return;
        }
        take_fact(front, &frame, front->offset + sizeof frame);
        front->offset += sizeof frame + frame.length;
    }
}

/* ── the guard ────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A packet of another type may bring a descriptor: it stays where it is, and Python takes it. */
static void hear_guard(struct front *front) {
    struct {
        struct frame frame;
        struct packet_wake wake;
    } packet;
    for (;;) {
        const ssize_t got = recv(front->control, &packet, sizeof packet, MSG_PEEK | MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got < (ssize_t)sizeof packet.frame ||
            (packet.frame.type != PACKET_WAKE && packet.frame.type != PACKET_ANSWER))
            become_python(front, FRONT_END); /* the guard is gone, and its last word is not a plain end */
        if (packet.frame.type == PACKET_WAKE && got == (ssize_t)sizeof packet)
            read_journal(front, packet.wake.journal_length);
        if (front->ended || recv(front->control, &packet, sizeof packet, MSG_DONTWAIT) < 0)
            return;
    }
}

static void send_packet(const struct front *front, uint16_t type, const void *body, size_t size, const char *text) {
    struct frame frame = {.mark = FRAME_MARK, .type = type, .length = (uint32_t)(size + strlen(text)), .at_ns = 1};
    struct iovec parts[] = {
        {&frame, sizeof frame}, {(char *)(uintptr_t)body, size}, {(char *)(uintptr_t)text, strlen(text)}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    if (sendmsg(front->control, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return; /* the guard is gone, or does not listen: the bound of the run tells which */
}

static void ask_stop(struct front *front, const struct packet_stop *stop, const char *reason) {
    const uint64_t late = clock_now() + front->settle_ns + LATE_NS;
    send_packet(front, PACKET_STOP, stop, sizeof *stop, reason);
    if (front->late_ns == 0 || late < front->late_ns)
        front->late_ns = late;
}

/* ── signals and stdin ────────────────────────────────────────────────────────────────────────────────────────── */

/* The first signal asks the run to end, the second kills it; further signals add nothing. */
static void stop_by_signal(struct front *front, int number) {
    const uint64_t now = clock_now(), before = front->asked_ns;
    if (before > 0 && now - before < ECHO_NS)
        return;
    front->asked_ns = now;
    const struct packet_stop stop = {
        .cause = CAUSE_USER, .now = before > 0 || number == SIGQUIT, .signal = number, .person = 1};
    ask_stop(front, &stop, "");
}

static void take_signals(struct front *front) {
    struct signalfd_siginfo info;
    while (read(front->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        const int number = (int)info.ssi_signo;
        const struct packet_signal passed_on = {.signal = number, .scope = SCOPE_LEADER};
        if (number == SIGUSR1 || number == SIGUSR2) {
            send_packet(front, PACKET_SIGNAL, &passed_on, sizeof passed_on, "");
        } else if (front->nested && !front->relays) {
            kill(getpid(), number); /* pending again, because it is blocked */
            become_python(front, FRONT_SIGNAL);
        } else {
            stop_by_signal(front, number);
        }
    }
}

/* A signal that was ignored at our start (nohup) stays ignored: a signalfd would get it all the same. */
static bool hold_signals(struct front *front) {
    const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    struct sigaction now;
    sigset_t taken;
    sigemptyset(&taken);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&taken, numbers[i]);
    }
    front->signals = signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC);
    return front->signals >= 0 && sigprocmask(SIG_SETMASK, &taken, NULL) == 0;
}

static void note_end_of_stdin(struct front *front) {
    front->stdin_ended = true;
    if (front->eof_ns > 0)
        front->stop_ns = clock_now() + front->eof_ns;
}

/* ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────────── */

/* When the server has been silent for long enough; 0: it may not be ended for that. */
static uint64_t idle_at(const struct front *front) {
    if (!front->relays || front->idle_ns == 0 || front->falls_asleep || front->stdin_ended || front->asked_ns > 0)
        return 0;
    const uint64_t since = relay_silent_since();
    return since == 0 ? 0 : since + front->idle_ns;
}

static int wait_ms(const struct front *front) {
    const uint64_t now = clock_now();
    uint64_t until = now + CONTINUE_NS;
    if (front->stop_ns > 0 && front->stop_ns < until)
        until = front->stop_ns;
    if (front->late_ns > 0 && front->late_ns < until)
        until = front->late_ns;
    if (idle_at(front) > 0 && idle_at(front) < until)
        until = idle_at(front);
    return until <= now ? 0 : (int)((until - now) / 1000000u) + 1;
}

static void look_at_clock(struct front *front) {
    const uint64_t now = clock_now();
    const struct packet_stop stop = {.cause = CAUSE_USER};
    syscall(SYS_pidfd_send_signal, front->sentinel, SIGCONT, NULL, 0); /* the sentinel continues its guard */
    if (front->stop_ns > 0 && now >= front->stop_ns) {
        front->stop_ns = 0;
        ask_stop(front, &stop, front->falls_asleep ? "it was silent in both directions" : "its stdin was closed");
    }
    if (idle_at(front) > 0 && now >= idle_at(front)) {
        front->falls_asleep = true;
        relay_close_server();
        front->stop_ns = now + (front->eof_ns > 0 ? front->eof_ns : IDLE_EOF_NS);
    }
    if (front->late_ns > 0 && now >= front->late_ns)
        become_python(front, FRONT_LATE);
}

static void turn(struct front *front) {
    struct pollfd watched[WATCH_COUNT] = {{front->control, POLLIN, 0}, {front->signals, POLLIN, 0}};
    struct pollfd *streams = watched + WATCH_STREAMS;
    if (front->relays)
        relay_watch(streams, !front->falls_asleep, front->stdin_ended);
    else /* POLLHUP and POLLRDHUP: a pipe without a writer, a socket whose other end is shut. Data is no news. */
        *streams = (struct pollfd){front->stdin_ended ? -1 : 0, POLLRDHUP, 0};
    poll(watched, front->relays ? WATCH_COUNT : WATCH_STREAMS + 1, wait_ms(front));
    const bool client_left = front->relays ? relay_client_left(streams) : streams->revents != 0;
    if (front->relays)
        relay_serve(streams);
    if (front->relays && !front->falls_asleep)
        relay_pass_end();
    if (watched[WATCH_CONTROL].revents)
        hear_guard(front);
    if (front->ended)
        return;
    if (watched[WATCH_SIGNALS].revents)
        take_signals(front);
    if (client_left && !front->stdin_ended)
        note_end_of_stdin(front);
    if (front->relays && relay_reader_left() && !front->reader_left) {
        front->reader_left = true;
        ask_stop(front, &(struct packet_stop){.cause = CAUSE_USER}, "nobody reads its stdout");
    }
    look_at_clock(front);
}

/*
 * The server exited by itself. A client that reads slowly gets every byte, as it would from the server: nobody waits
 * for us but the client. The wait ends with the client: it closes stdin, its process is gone, or it sends a signal.
 */
static void wait_for_reader(const struct front *front) {
    struct pollfd watched[] = {
        {-1, 0, 0}, {front->signals, POLLIN, 0}, {0, POLLRDHUP, 0}, {front->starter, POLLIN, 0}};
    while (relay_watch_rest(&watched[0])) {
        if (front->late_ns > 0 && clock_now() >= front->late_ns)
            return;
        const int ready = poll(watched, sizeof watched / sizeof watched[0], READER_MS);
        if (ready > 0 && watched[0].revents)
            relay_serve_rest();
        if (ready > 0 && (watched[1].revents || watched[2].revents || watched[3].revents))
            return;
    }
}

/* The sentinel exits after its guard. Only then nothing of the run is left, not even a guard. */
static bool reap_sentinel(const struct front *front) {
    struct pollfd gone = {front->sentinel, POLLIN, 0};
    siginfo_t info;
    return poll(&gone, 1, EXITS_WITHIN_MS) == 1 && waitid(P_PIDFD, (id_t)front->sentinel, &info, WEXITED) == 0;
}

/* ── asleep ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* There is no server. Waits until there has to be one, or never any more; then returns the exit code. */
static int sleep_until_spoken_to(const struct front *front) {
    const int unneeded[] = {front->control, front->journal, front->sentinel};
    for (size_t i = 0; i < sizeof unneeded / sizeof unneeded[0]; i++)
        close(unneeded[i]);
    relay_close();
    struct pollfd watched[] = {{0, POLLIN | POLLRDHUP, 0}, {front->signals, POLLIN, 0}, {front->starter, POLLIN, 0}};
    struct signalfd_siginfo info;
    for (;;) {
        poll(watched, sizeof watched / sizeof watched[0], -1);
        while (read(front->signals, &info, sizeof info) == (ssize_t)sizeof info) {
            if (info.ssi_signo != SIGUSR1 && info.ssi_signo != SIGUSR2)
                return BY_SIGNAL + (int)info.ssi_signo;
        }
        const int news = relay_client_news();
        if (news > 0)
            become_python(front, FRONT_WAKE); /* the relay has nothing left to pass on */
        if (news < 0)
            return 0;
        if (watched[2].revents)
            return BY_SIGNAL + SIGTERM;
    }
}

static uint64_t number_in(char **argv, enum front_number which) { return strtoull(argv[which], NULL, 10); }

int front_main(int argc, char **argv) {
    struct front front = {
        .control = (int)number_in(argv, FRONT_CONTROL),
        .journal = (int)number_in(argv, FRONT_JOURNAL),
        .sentinel = (int)number_in(argv, FRONT_SENTINEL),
        .offset = number_in(argv, FRONT_OFFSET),
        .eof_ns = number_in(argv, FRONT_EOF_NS),
        .settle_ns = number_in(argv, FRONT_SETTLE_NS),
        .late_ns = number_in(argv, FRONT_BOUND_NS),
        .nested = number_in(argv, FRONT_NESTED) != 0,
        .relays = (int)number_in(argv, FRONT_OUTPUT) >= 0,
        .starter = (int)number_in(argv, FRONT_STARTER),
        .idle_ns = number_in(argv, FRONT_IDLE_NS),
        .program = argv + FRONT_PROGRAM,
        .why = argv + argc - 1,
    };
    prctl(PR_SET_NAME, "holdfast"); /* tools that look for guards must not take us for one */
    const int input = (int)number_in(argv, FRONT_INPUT), output = (int)number_in(argv, FRONT_OUTPUT);
    if (!hold_signals(&front) ||
        (front.relays && !relay_open(input, output, (int)number_in(argv, FRONT_SESSION)))) {
        front.relays = false;
        become_python(&front, FRONT_LATE);
    }
    while (!front.ended)
        turn(&front);
    if (front.relays && front.exited && !front.told_something && !front.stdin_ended)
        wait_for_reader(&front);
    if (front.relays)
        relay_drain();
    if (front.falls_asleep && front.asked_ns == 0 && reap_sentinel(&front))
        return sleep_until_spoken_to(&front);
    if (front.told_something || !front.exited || !reap_sentinel(&front))
        become_python(&front, FRONT_END);
    return front.exit_code;
}
