/* meeting: how the agent and the client that attaches to it find each other in a container */
#include "meeting.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { SECRET_MAX = 64 };

/* An abstract address needs no writable file system. */
static socklen_t address_of(const char *meeting, struct sockaddr_un *address) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int length = (int)strcspn(meeting, ":");
    const int written = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "holdfast-%.*s", length, meeting);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)written);
}

static const char *secret_of(const char *meeting) { return meeting + strcspn(meeting, ":"); }

int meeting_open(const char *meeting) {
    struct sockaddr_un address;
    socklen_t length = address_of(meeting, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    return fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, 4) == 0 ? fd : -1;
}

bool meeting_receive(int fd, const char *meeting, int *stdio) {
    char said[SECRET_MAX] = "";
    struct iovec data = {said, sizeof said - 1};
    struct ucred peer;
    socklen_t size = sizeof peer;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(3 * sizeof(int))];
    } extra;
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &extra, .msg_controllen = sizeof extra};
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != geteuid() ||
        recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) < 1)
        return false;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header == NULL || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(3 * sizeof(int)))
        return false;
    memcpy(stdio, CMSG_DATA(header), 3 * sizeof(int));
    if (strcmp(said, secret_of(meeting)) == 0)
        return true;
    for (int i = 0; i < 3; i++)
        close(stdio[i]);
    return false;
}

static bool send_stdio(int fd, const char *secret) {
    char said[SECRET_MAX];
    const int length = snprintf(said, sizeof said, "%s", secret);
    struct iovec data = {said, (size_t)length};
    const int stdio[] = {0, 1, 2};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof stdio)];
    } extra = {0};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &extra, .msg_controllen = sizeof extra};
    extra.header =
        (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof stdio)};
    memcpy(CMSG_DATA(&extra.header), stdio, sizeof stdio);
    return length > 0 && length < SECRET_MAX && sendmsg(fd, &message, MSG_NOSIGNAL) == length;
}

bool meeting_attach(const char *meeting, int *code) {
    struct sockaddr_un address;
    socklen_t length = address_of(meeting, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, length) < 0)
        return false;
    if (isatty(0))
        ioctl(0, TIOCNOTTY); /* so that the agent's session can take it */
    return send_stdio(fd, secret_of(meeting)) && recv(fd, code, sizeof *code, 0) == (ssize_t)sizeof *code;
}
