/* descriptors: closing and moving open files by their numbers */
#include "descriptors.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "frame.h"
#include "procfs.h"

struct closing {
    unsigned first;
    unsigned last;
    unsigned flags;
    int lister; /* the open directory that lists our descriptors; -1: none */
};

static void close_one(const struct closing *closing, unsigned fd) {
    if (closing->flags & CLOSE_RANGE_CLOEXEC)
        fcntl((int)fd, F_SETFD, FD_CLOEXEC);
    else
        close((int)fd);
}

static void close_entry(const char *name, bool is_directory, void *context) {
    const struct closing *closing = context;
    const unsigned fd = (unsigned)strtoul(name, NULL, 10);
    (void)is_directory;
    if (fd >= closing->first && fd <= closing->last && fd != (unsigned)closing->lister)
        close_one(closing, fd);
}

void close_between(unsigned first, unsigned last, unsigned flags) {
    if (syscall(SYS_close_range, first, last, flags) == 0)
        return;
    struct closing closing = {first, last, flags, -1}; /* a kernel before 5.9, or 5.11 for the flag */
    closing.lister = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (closing.lister >= 0) { /* not one number after the other: RLIMIT_NOFILE may allow 2^30 */
        each_entry(closing.lister, close_entry, &closing);
        close(closing.lister);
        return;
    }
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        limit.rlim_cur = 1024;
    for (unsigned fd = first; fd <= last && fd < limit.rlim_cur; fd++)
        close_one(&closing, fd);
}

void limit_descriptors(uint64_t soft) {
    struct rlimit limit;
    if (soft == 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0 || soft > limit.rlim_max)
        return;
    limit.rlim_cur = soft;
    setrlimit(RLIMIT_NOFILE, &limit);
}

bool raise_descriptor(int *fd) {
    if (*fd >= GUARD_FD_FIRST_FREE)
        return true;
    int raised = fcntl(*fd, F_DUPFD_CLOEXEC, GUARD_FD_FIRST_FREE);
    if (raised < 0)
        return false;
    close(*fd);
    *fd = raised;
    return true;
}
