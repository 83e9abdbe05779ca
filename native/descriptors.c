/* descriptors: closing and moving open files by their numbers */
#include "descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "frame.h"

void close_between(unsigned first, unsigned last, unsigned flags) {
    if (syscall(SYS_close_range, first, last, flags) == 0)
        return;
    struct rlimit limit; /* a kernel before 5.9, or 5.11 for the flag */
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        limit.rlim_cur = 1024;
    for (unsigned fd = first; fd <= last && fd < limit.rlim_cur; fd++) {
        if (flags & CLOSE_RANGE_CLOEXEC)
            fcntl((int)fd, F_SETFD, FD_CLOEXEC);
        else
            close((int)fd);
    }
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
