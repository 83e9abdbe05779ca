/* control: the sockets of a run's owners, and the packets on them */
#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "descriptors.h"

enum { PEER_PIDFD = 77 }; /* SO_PEERPIDFD, Linux 6.5; our headers may be older */

static void learn_peer(struct owner *owner) {
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(owner->fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0) {
        owner->pid = peer.pid;
        owner->uid = peer.uid;
    }
}

void control_open(struct control *control, int first) {
    for (int i = 0; i < OWNERS_MAX; i++)
        control->owners[i].fd = -1;
    control->owners[0].fd = first;
    learn_peer(&control->owners[0]);
    control->listener = control->directory = -1;
}

int control_owner_process(const struct control *control) {
    int process = -1;
    socklen_t length = sizeof process;
    return getsockopt(control->owners[0].fd, SOL_SOCKET, PEER_PIDFD, &process, &length) == 0 ? process : -1;
}

static void take_descriptors(struct msghdr *message, ssize_t got, struct request *request) {
    const struct cmsghdr *header = got > 0 && message->msg_controllen > 0 ? CMSG_FIRSTHDR(message) : NULL;
    request->descriptors = 0;
    if (header == NULL || header->cmsg_type != SCM_RIGHTS)
        return;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int descriptor;
        memcpy(&descriptor, CMSG_DATA(header) + i * sizeof descriptor, sizeof descriptor);
        if (request->frame.type == PACKET_KEEP && i < KEEP_COUNT)
            request->descriptor[request->descriptors++] = descriptor;
        else
            close(descriptor); /* no other request brings any; the padding of `rights` has room for one more */
    }
}

enum control_news control_receive(struct control *control, int index, struct request *request) {
    struct iovec parts[2] = {{&request->frame, sizeof request->frame}, {&request->body, sizeof request->body}};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int) * KEEP_COUNT)];
    } rights;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (index == 0) { /* without a buffer for them the kernel drops descriptors: so it does for every other owner */
        message.msg_control = &rights;
        message.msg_controllen = sizeof rights;
    }
    memset(&request->body, 0, 64); /* a short payload reads as zeros */
    ssize_t got = recvmsg(control->owners[index].fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == ECONNRESET) /* the owner closed with wakes unread; the packets that it sent come next */
        got = recvmsg(control->owners[index].fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    take_descriptors(&message, got, request);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return CONTROL_NOTHING;
    request->owner = index;
    const size_t header = sizeof request->frame;
    if (got >= (ssize_t)header && request->frame.mark == FRAME_MARK && request->frame.length == (size_t)got - header)
        return CONTROL_REQUEST;
    if (got <= 0)
        return CONTROL_GONE;
    request->frame.type = 0; /* not a packet of ours: the answer will be EINVAL */
    request->frame.length = 0;
    return CONTROL_REQUEST;
}

int control_accept(struct control *control) {
    int fd = accept4(control->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        control->accept_paused = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
        return -1;
    }
    struct owner owner = {.fd = fd, .uid = (uid_t)-1};
    learn_peer(&owner);
    if (owner.uid != 0 && owner.uid != geteuid()) {
        close(fd);
        return -1;
    }
    int place = 1;
    while (place < OWNER_NEWEST && control->owners[place].fd >= 0)
        place++;
    if (control->owners[place].fd >= 0)
        control_drop(control, place);
    control->owners[place] = owner;
    return place;
}

/* Sends a packet, but never waits. An owner that does not read has unread wakes, which tell it to read the journal. */
static void send_packet(const struct owner *owner, uint16_t type, uint64_t ticket, const void *body, size_t length,
                        int descriptor) {
    if (owner->fd < 0)
        return;
    struct frame frame = {.mark = FRAME_MARK, .type = type, .length = (uint32_t)length, .at_ns = ticket};
    struct iovec parts[2] = {{&frame, sizeof frame}, {(char *)(uintptr_t)body, length}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } rights = {0};
    if (descriptor >= 0) {
        rights.header =
            (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&rights.header), &descriptor, sizeof descriptor);
        message.msg_control = &rights;
        message.msg_controllen = sizeof rights.space;
    }
    if (sendmsg(owner->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return; /* the owner is gone, or does not read: end of file, or the unread wakes, tell it the rest */
}

void control_answer(struct control *control, const struct request *request, int error, int descriptor) {
    struct packet_answer answer = {.error = error};
    const struct owner *owner = &control->owners[request->owner];
    send_packet(owner, PACKET_ANSWER, request->frame.at_ns, &answer, sizeof answer, descriptor);
}

void control_wake(struct control *control, uint64_t journal_length) {
    struct packet_wake wake = {journal_length};
    for (int i = 0; i < OWNERS_MAX; i++)
        send_packet(&control->owners[i], PACKET_WAKE, 0, &wake, sizeof wake, -1);
}

bool control_has_readers(const struct control *control) {
    bool found = false;
    for (int i = 0; i < OWNERS_MAX; i++)
        found = found || control->owners[i].wants_output;
    return found;
}

void control_wake_readers(struct control *control, uint64_t journal_length) {
    struct packet_wake wake = {journal_length};
    for (int i = 0; i < OWNERS_MAX; i++) {
        if (!control->owners[i].wants_output)
            continue;
        control->owners[i].wants_output = false;
        send_packet(&control->owners[i], PACKET_WAKE, 0, &wake, sizeof wake, -1);
    }
}

void control_tell_unrecorded(struct control *control, const struct packet_unrecorded *rest, int memory) {
    for (int i = 0; i < OWNERS_MAX; i++)
        send_packet(&control->owners[i], PACKET_UNRECORDED, 0, rest, sizeof *rest, memory);
}

uint64_t control_held_from(const struct control *control) {
    uint64_t from = UINT64_MAX;
    for (int i = 0; i < OWNERS_MAX; i++) {
        const struct owner *owner = &control->owners[i];
        if (owner->fd >= 0 && owner->holds_from > 0 && owner->holds_from < from)
            from = owner->holds_from;
    }
    return from;
}

void control_close(struct control *control) {
    for (int i = 0; i < OWNERS_MAX; i++) {
        if (control->owners[i].fd >= 0)
            control_drop(control, i);
    }
    if (control->listener >= 0)
        close(control->listener);
    control->listener = -1;
}

void control_drop(struct control *control, int index) {
    close(control->owners[index].fd);
    control->owners[index] = (struct owner){.fd = -1};
}

void control_take_no_more(struct control *control) {
    control->takes_no_more = true;
    shutdown(control->owners[0].fd, SHUT_RD);
}

/*
 * Moves a descriptor to the number that it has in every guard. The kernel gives each arriving descriptor the lowest
 * free number. The journal comes first, and the last run's journal is closed, so the new one has its number already.
 * The number of stdin is never free.
 */
static bool put_in_place(int arrived, enum next_descriptor which) {
    static const int place[NEXT_DIRECTORY] = {GUARD_FD_JOURNAL, GUARD_FD_STDIN, GUARD_FD_HEARTBEAT, GUARD_FD_STDOUT,
                                               GUARD_FD_STDERR};
    const int to = place[which];
    if (arrived == to)
        return to != GUARD_FD_STDIN;
    const bool done = dup3(arrived, to, to == GUARD_FD_STDIN ? 0 : O_CLOEXEC) == to;
    close(arrived);
    return done;
}

/*
 * The directory is in use only until the child is forked, so any number will do that is no other descriptor's place. It
 * comes last, so it goes up first, unless only the journal came with it: that has its place already.
 */
static bool put_all_in_place(struct control *control, const int *arrived, size_t count, uint64_t which) {
    bool done = (which & 1u << NEXT_JOURNAL) != 0;
    size_t next = 0;
    if ((which & 1u << NEXT_DIRECTORY) != 0 && count > 0) {
        control->directory = arrived[--count];
        done = (count == 1 || raise_descriptor(&control->directory)) && done;
    }
    for (int i = 0; i < NEXT_DIRECTORY; i++) {
        if ((which & 1u << i) == 0)
            continue;
        done = next < count && put_in_place(arrived[next], (enum next_descriptor)i) && done;
        next++;
    }
    return done && next == count;
}

enum control_news control_next_run(struct control *control, char *spec, size_t *length) {
    struct frame frame;
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int) * NEXT_COUNT)];
    } rights;
    for (;;) {
        struct iovec parts[2] = {{&frame, sizeof frame}, {spec, NEXT_SPEC_MAX}};
        struct msghdr message = {
            .msg_iov = parts, .msg_iovlen = 2, .msg_control = &rights, .msg_controllen = sizeof rights};
        ssize_t got = recvmsg(control->owners[0].fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == ECONNRESET)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return CONTROL_NOTHING;
        if (got < (ssize_t)sizeof frame || frame.mark != FRAME_MARK)
            return CONTROL_GONE;
        const struct cmsghdr *header = message.msg_controllen > 0 ? CMSG_FIRSTHDR(&message) : NULL;
        if (frame.type == PACKET_NEXT && header != NULL && header->cmsg_type == SCM_RIGHTS) {
            int arrived[NEXT_COUNT];
            size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            if (count > NEXT_COUNT || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
                return CONTROL_GONE; /* not everything fitted; the padding of `rights` has room for one more */
            memcpy(arrived, CMSG_DATA(header), count * sizeof(int));
            *length = (size_t)got - sizeof frame;
            return put_all_in_place(control, arrived, count, frame.at_ns) ? CONTROL_REQUEST : CONTROL_GONE;
        }
        if (frame.type != PACKET_READ) { /* a request that came after the last run's end */
            struct packet_answer answer = {.error = ESRCH};
            send_packet(&control->owners[0], PACKET_ANSWER, frame.at_ns, &answer, sizeof answer, -1);
        }
    }
}
