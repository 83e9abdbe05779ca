/* relay: the bytes between a client and a server that may be ended while nothing is said, and started again */
#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "message_line.h"

enum { BUFFER = 64 * 1024, KEPT_MAX = 32 * 1024, OPEN_MAX = 256 };
enum { SURE = 4096, DRAIN_MS = 2000 }; /* what a pipe that is ready takes without waiting; patience with a reader */

/* What outlives execve, in a memfd that is all zeros at first. */
struct kept_line {
    uint32_t length; /* 0: there is none */
    char bytes[KEPT_MAX];
};
struct session {
    struct kept_line initialize;
    struct kept_line initialized;
    bool is_mcp;
    bool is_stateful; /* a new server would not know what this one does */
};

_Static_assert(sizeof(struct session) <= 1 << 17, "SESSION_BYTES in runs/front.py");

/* The requests of one side that the other has not answered. */
struct open_requests {
    uint64_t ids[OPEN_MAX];
    int count;
};

struct flow {
    int from; /* -1: at its end */
    int to;   /* -1: nobody reads */
    char data[BUFFER];
    size_t begin, end; /* what is read and not yet written */
    struct message_line line;
    bool mid_line;
    struct open_requests open; /* of the side that this flow comes from */
};

static struct session *session;
static struct flow to_server, to_client;
static struct kept_line current; /* the client's line that passes now, while the beginning is not complete */
static bool current_is_cut;
static uint64_t repeated_id; /* of the request that was repeated to a new server, until it is answered; 0: none */
static uint64_t last_ns;
static bool reader_left;
static int server_output;
static bool reads_client; /* now; poll() tells of the client's end in any case */

/* ── what is said ─────────────────────────────────────────────────────────────────────────────────────────────── */

static void open_request(struct open_requests *open, uint64_t id) {
    if (open->count == OPEN_MAX)
        session->is_stateful = true; /* too many to follow */
    else
        open->ids[open->count++] = id;
}

static void close_request(struct open_requests *open, uint64_t id) {
    for (int i = 0; i < open->count; i++) {
        if (open->ids[i] == id) {
            open->ids[i] = open->ids[--open->count];
            return;
        }
    }
}

/* After these the server remembers something, or works on, although it has answered. */
static bool is_stateful(const char *method) {
    return strcmp(method, "resources/subscribe") == 0 || strcmp(method, "logging/setLevel") == 0 ||
           strncmp(method, "tasks/", 6) == 0;
}

static void keep_line(struct kept_line *kept) {
    if (current_is_cut) {
        session->is_stateful = true; /* it cannot be repeated */
    } else if (kept->length == 0) {
        memcpy(kept->bytes, current.bytes, current.length);
        kept->length = current.length;
    }
}

static void note_line(struct flow *flow, struct flow *other) {
    const struct message_line *line = &flow->line;
    if (line->is_empty)
        return;
    if (line->is_batch)
        session->is_stateful = true; /* of an older protocol: its ids are not followed */
    if (line->method[0] == '\0') {
        close_request(&other->open, line->id);
        return;
    }
    if (line->id != 0)
        open_request(&flow->open, line->id);
    if (strcmp(line->method, "notifications/cancelled") == 0)
        close_request(&flow->open, line->request_id);
    if (flow != &to_server)
        return;
    if (strcmp(line->method, "initialize") == 0)
        keep_line(&session->initialize);
    if (strcmp(line->method, "notifications/initialized") == 0)
        keep_line(&session->initialized);
    session->is_mcp = session->is_mcp || session->initialized.length > 0 || strcmp(line->method, "server/discover") == 0;
    session->is_stateful = session->is_stateful || is_stateful(line->method);
}

static void keep_byte(char byte) {
    if (session->initialized.length > 0)
        return;
    if (current.length < sizeof current.bytes)
        current.bytes[current.length++] = byte;
    else
        current_is_cut = true;
}

static void scan(struct flow *flow, struct flow *other, const char *data, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (flow == &to_server)
            keep_byte(data[i]);
        flow->mid_line = !message_line_take(&flow->line, data[i]);
        if (flow->mid_line)
            continue;
        note_line(flow, other);
        message_line_begin(&flow->line);
        if (flow == &to_server) {
            current.length = 0;
            current_is_cut = false;
        }
    }
}

/* ── a new server ─────────────────────────────────────────────────────────────────────────────────────────────── */

static void put(struct flow *flow, const struct kept_line *kept) {
    memcpy(flow->data, kept->bytes, kept->length);
    flow->begin = 0;
    flow->end = kept->length;
}

static void repeat_beginning(void) {
    struct message_line line;
    message_line_begin(&line);
    for (uint32_t i = 0; i < session->initialize.length; i++)
        message_line_take(&line, session->initialize.bytes[i]);
    repeated_id = line.id;
    put(&to_server, &session->initialize);
}

/* Drops what the new server says up to its answer to the repeated request. Returns how much that is. */
static size_t swallow(const char *data, size_t length) {
    struct message_line *line = &to_client.line;
    for (size_t i = 0; i < length; i++) {
        if (!message_line_take(line, data[i]))
            continue;
        const bool is_answer = line->method[0] == '\0' && line->id == repeated_id;
        message_line_begin(line);
        if (is_answer) {
            repeated_id = 0;
            put(&to_server, &session->initialized);
            return i + 1;
        }
    }
    return length;
}

/* ── passing on ───────────────────────────────────────────────────────────────────────────────────────────────── */

static bool has_rest(const struct flow *flow) { return flow->begin < flow->end; }

/*
 * The client's streams are shared with other processes, so they stay blocking. A pipe or a terminal is opened a second
 * time, and does not block for us: a write that waits would keep signals away. Where a second descriptor is refused, we
 * write only what is sure to fit into a pipe.
 */
static int open_again(int fd) {
    struct stat status;
    if (fstat(fd, &status) < 0 || !(S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode)))
        return fd;
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const int again = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return again < 0 ? fd : again;
}

static ssize_t write_some(const struct flow *flow) {
    const char *data = flow->data + flow->begin;
    const size_t length = flow->end - flow->begin;
    if (flow == &to_server || flow->to != STDOUT_FILENO)
        return write(flow->to, data, length); /* a descriptor of our own, which does not block */
    struct pollfd ready = {flow->to, POLLOUT, 0};
    if (poll(&ready, 1, 0) != 1) {
        errno = EAGAIN;
        return -1;
    }
    const ssize_t sent = send(flow->to, data, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent >= 0 || errno != ENOTSOCK ? sent : write(flow->to, data, length < SURE ? length : SURE);
}

static void write_rest(struct flow *flow) {
    while (has_rest(flow) && flow->to >= 0) {
        const ssize_t written = write_some(flow);
        if (written < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (written < 0) {
            reader_left = reader_left || flow == &to_client;
            flow->to = -1; /* the descriptor stays open until the end: its number must not come back */
            break;
        }
        flow->begin += (size_t)written;
    }
    if (flow->to < 0)
        flow->begin = flow->end;
}

static void read_some(struct flow *flow, struct flow *other) {
    const ssize_t got = read(flow->from, flow->data, sizeof flow->data);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        flow->from = -1;
        return;
    }
    flow->begin = flow == &to_client && repeated_id != 0 ? swallow(flow->data, (size_t)got) : 0;
    flow->end = (size_t)got;
    scan(flow, other, flow->data + flow->begin, flow->end - flow->begin);
    last_ns = clock_now();
    write_rest(flow);
}

bool relay_open(int input, int output, int memory) {
    session = mmap(NULL, sizeof *session, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (session == MAP_FAILED)
        return false;
    to_server.from = 0;
    to_server.to = input;
    to_client.from = server_output = output;
    to_client.to = open_again(STDOUT_FILENO);
    message_line_begin(&to_server.line);
    message_line_begin(&to_client.line);
    last_ns = clock_now();
    if (session->initialize.length > 0 && session->initialized.length > 0)
        repeat_beginning();
    return true;
}

void relay_watch(struct pollfd *watched, bool takes_input, bool client_left) {
    reads_client = takes_input && repeated_id == 0 && to_server.from >= 0 && !has_rest(&to_server);
    watched[0] = (struct pollfd){reads_client || !client_left ? to_server.from : -1, POLLRDHUP, 0};
    if (reads_client)
        watched[0].events |= POLLIN;
    watched[1] = (struct pollfd){has_rest(&to_server) ? to_server.to : -1, POLLOUT, 0};
    watched[2] = has_rest(&to_client) ? (struct pollfd){to_client.to, POLLOUT, 0}
                                      : (struct pollfd){to_client.from, POLLIN, 0};
}

void relay_serve(const struct pollfd *watched) {
    if (watched[1].revents)
        write_rest(&to_server);
    if (watched[2].revents && has_rest(&to_client))
        write_rest(&to_client);
    else if (watched[2].revents && to_client.from >= 0)
        read_some(&to_client, &to_server);
    write_rest(&to_server); /* the second line of a repeated beginning */
    if (watched[0].revents && reads_client && !has_rest(&to_server))
        read_some(&to_server, &to_client);
    if (to_server.from < 0 && !has_rest(&to_server))
        relay_close_server();
}

bool relay_client_left(const struct pollfd *watched) {
    return to_server.from < 0 || (watched[0].revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0;
}

bool relay_reader_left(void) { return reader_left; }

uint64_t relay_silent_since(void) {
    const bool says_nothing = !to_server.mid_line && !to_client.mid_line && !has_rest(&to_server) &&
                              !has_rest(&to_client) && repeated_id == 0;
    const bool owes_nothing = to_server.open.count == 0 && to_client.open.count == 0;
    return says_nothing && owes_nothing && session->is_mcp && !session->is_stateful ? last_ns : 0;
}

void relay_close_server(void) {
    if (to_server.to >= 0)
        close(to_server.to);
    to_server.to = -1;
}

void relay_pass_end(void) {
    if (to_client.from >= 0 || has_rest(&to_client) || to_client.to < 0)
        return;
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere < 0)
        return; /* the client hears of the end when we exit */
    dup2(nowhere, STDOUT_FILENO);
    close(nowhere);
    if (to_client.to != STDOUT_FILENO)
        close(to_client.to);
    to_client.to = -1;
    session->is_stateful = true; /* the client would not hear a new server */
}

/* In the pipe. Not until its end: somebody whom the server gave its stdout may hold it for ever. */
static int count_unread(void) {
    int unread = 0;
    return to_client.from >= 0 && ioctl(to_client.from, FIONREAD, &unread) == 0 ? unread : 0;
}

bool relay_watch_rest(struct pollfd *watched) {
    while (!has_rest(&to_client) && count_unread() > 0)
        read_some(&to_client, &to_server);
    *watched = (struct pollfd){to_client.to, POLLOUT, 0};
    return has_rest(&to_client);
}

void relay_serve_rest(void) { write_rest(&to_client); }

void relay_drain(void) {
    int unread = count_unread(); /* now: a process that was left, or that nobody can end, may write for ever */
    while (has_rest(&to_client) || (unread > 0 && to_client.from >= 0)) {
        struct pollfd ready = {to_client.to, POLLOUT, 0};
        if (!has_rest(&to_client)) {
            read_some(&to_client, &to_server);
            unread -= (int)to_client.end;
        } else if (poll(&ready, 1, DRAIN_MS) > 0) {
            write_rest(&to_client);
        } else {
            to_client.from = to_client.to = -1; /* we have waited: the next call does not */
            to_client.begin = to_client.end;
        }
    }
}

void relay_close(void) {
    relay_close_server();
    close(server_output);
    to_client.from = -1;
}

int relay_client_news(void) {
    struct pollfd watched = {0, POLLIN | POLLRDHUP, 0};
    int waiting = 0;
    if (poll(&watched, 1, 0) <= 0)
        return 0;
    /* Ready, and empty: the end. Of a terminal only this tells of Ctrl-D. In this order: what comes later is no end. */
    if (ioctl(0, FIONREAD, &waiting) == 0)
        return waiting > 0 ? 1 : -1;
    return (watched.revents & POLLIN) != 0 ? 1 : -1; /* a stream that does not count: the next relay reads it */
}
