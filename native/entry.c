/* entry: what a child does last before it executes the command, and how the owner hears that it has done so */
#include "entry.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "raw_syscall.h"

enum { KERNEL_SIGNALS = 64, SIGNAL_SET_SIZE = KERNEL_SIGNALS / 8, NUMBER_SIZE = 4 };

static int answers = -1; /* the socket; -1: this run has no entry */

static union {
    struct entry entry;
    char bytes[ENTRY_MAX];
} message;

static union {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int) * ENTRY_DESCRIPTORS_MAX)];
} rights;

static int passed[ENTRY_DESCRIPTORS_MAX];

void entry_expect(bool is_given) { answers = is_given ? GUARD_FD_ENTRY : -1; }

bool entry_is_given(void) { return answers >= 0; }

void entry_tell_failure(const struct fact_spawn_failed *failure) {
    if (answers >= 0)
        RAW_SYSCALL(SYS_sendto, answers, (long)failure, sizeof *failure, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Receives the message and checks that it is whole. Sets where its parts are. */
static long receive(const char **groups, const char **numbers, const char **program) {
    struct iovec bytes = {message.bytes, sizeof message.bytes};
    struct msghdr header = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = sizeof rights};
    const long got = RAW_SYSCALL(SYS_recvmsg, answers, (long)&header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0)
        return got;
    const struct entry *entry = &message.entry;
    if ((size_t)got <= sizeof *entry || (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
        return -EMSGSIZE;
    const size_t group_bytes = entry->groups < 0 ? 0 : (size_t)entry->groups * NUMBER_SIZE;
    const size_t number_bytes = (size_t)entry->descriptors * NUMBER_SIZE;
    const struct cmsghdr *first = header.msg_controllen > 0 ? CMSG_FIRSTHDR(&header) : NULL;
    const size_t arrived = first == NULL ? 0 : (first->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    if (sizeof *entry + group_bytes + number_bytes >= (size_t)got || arrived != entry->descriptors ||
        arrived > ENTRY_DESCRIPTORS_MAX || message.bytes[got - 1] != '\0')
        return -EBADMSG;
    if (first != NULL)
        memcpy(passed, CMSG_DATA(first), arrived * sizeof(int));
    *groups = message.bytes + sizeof *entry;
    *numbers = *groups + group_bytes;
    if ((*numbers)[number_bytes] != '\0')
        *program = *numbers + number_bytes;
    return 0;
}

/*
 * Gives the passed descriptors their numbers. First everything goes above all of these numbers, because one descriptor
 * may be where another has to go. What the guard has under such a number is a copy that the child does not need.
 */
static long place_descriptors(const char *numbers) {
    const uint32_t count = message.entry.descriptors;
    int above = GUARD_FD_FIRST_FREE, number;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(&number, numbers + (size_t)i * NUMBER_SIZE, sizeof number);
        above = number >= above ? number + 1 : above;
    }
    long moved = count == 0 ? answers : RAW_SYSCALL(SYS_fcntl, answers, F_DUPFD_CLOEXEC, above);
    if (moved < 0)
        return moved;
    answers = (int)moved;
    for (uint32_t i = 0; i < count; i++) {
        moved = RAW_SYSCALL(SYS_fcntl, passed[i], F_DUPFD_CLOEXEC, above);
        if (moved < 0)
            return moved;
        passed[i] = (int)moved;
    }
    for (uint32_t i = 0; i < count; i++) {
        memcpy(&number, numbers + (size_t)i * NUMBER_SIZE, sizeof number);
        moved = RAW_SYSCALL(SYS_dup3, passed[i], number, 0);
        if (moved < 0)
            return moved;
    }
    return 0;
}

static void ignore_signals(uint64_t ignored) {
    struct { /* the kernel's own layout */
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        unsigned char mask[SIGNAL_SET_SIZE];
    } ignore = {.handler = SIG_IGN};
    for (int number = 1; number <= KERNEL_SIGNALS; number++) {
        if (ignored >> (number - 1) & 1)
            RAW_SYSCALL(SYS_rt_sigaction, number, (long)&ignore, 0, SIGNAL_SET_SIZE);
    }
}

/* The groups first: afterwards we may not be allowed to change them. */
static long take_identity(const char *groups) {
    const struct entry *entry = &message.entry;
    long result = 0;
    if (entry->groups >= 0)
        result = RAW_SYSCALL(SYS_setgroups, entry->groups, (long)groups);
    if (result == 0 && entry->group != ~0u)
        result = RAW_SYSCALL(SYS_setregid, entry->group, entry->group);
    if (result == 0 && entry->user != ~0u)
        result = RAW_SYSCALL(SYS_setreuid, entry->user, entry->user);
    return result;
}

long entry_take(const char **program) {
    const char *groups = NULL, *numbers = NULL;
    long result = receive(&groups, &numbers, program);
    if (result == 0)
        result = place_descriptors(numbers);
    if (result < 0)
        return result;
    ignore_signals(message.entry.ignored);
    if (message.entry.umask >= 0)
        RAW_SYSCALL(SYS_umask, message.entry.umask);
    return take_identity(groups);
}
