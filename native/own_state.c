/* own_state: whether this guard still is as it was before its first command, which may have changed it */
#include "own_state.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "descriptors.h"

enum { FILES = 3, SCHED_ATTRIBUTES = 56, CPU_MASK = 1024, IOPRIO_PROCESS = 1, SESSION_KEYRING = -3 };

static int files[FILES];
static bool is_noted;
static uint64_t noted; /* 0: the note could not be taken */

/* FNV-1a: nobody gains by two states with the same number, and a copy of everything would take a page. */
static void mix(uint64_t *sum, const void *bytes, size_t length) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < length; i++)
        *sum = (*sum ^ at[i]) * 0x100000001b3u;
}

static void mix_number(uint64_t *sum, long number) { mix(sum, &number, sizeof number); }

/* What other processes can change in us. A call that fails is mixed in as its failure. */
static uint64_t look(void) {
    _Alignas(uint64_t) char room[4096] = {0};
    uint64_t sum = 0xcbf29ce484222325u;
    for (int which = 0; which < RLIM_NLIMITS; which++) {
        struct rlimit limit = {0};
        mix_number(&sum, syscall(SYS_getrlimit, which, &limit)); /* libc's takes twice as long */
        mix(&sum, &limit, sizeof limit);
    }
    mix_number(&sum, syscall(SYS_sched_getattr, 0, room, SCHED_ATTRIBUTES, 0));
    mix(&sum, room, SCHED_ATTRIBUTES);
    const long mask = syscall(SYS_sched_getaffinity, 0, CPU_MASK, room);
    mix(&sum, room, mask > 0 ? (size_t)mask : 0);
    mix_number(&sum, syscall(SYS_ioprio_get, IOPRIO_PROCESS, 0));
    mix_number(&sum, prctl(PR_GET_TIMERSLACK));
    if (prctl(PR_GET_SECCOMP) == 0) /* a filter may kill us for a call that it does not expect */
        mix_number(&sum, syscall(SYS_keyctl, 0 /* KEYCTL_GET_KEYRING_ID */, SESSION_KEYRING, 0));
    for (int i = 0; i < FILES; i++) {
        const ssize_t got = files[i] < 0 ? 0 : pread(files[i], room, sizeof room, 0);
        mix(&sum, room, got > 0 ? (size_t)got : 0);
    }
    return sum == 0 ? 1 : sum;
}

void own_state_note(void) {
    static const char *const paths[FILES] = {"/proc/self/oom_score_adj", "/proc/self/coredump_filter",
                                             "/proc/self/cgroup"};
    if (is_noted)
        return;
    is_noted = true;
    for (int i = 0; i < FILES; i++) {
        files[i] = open(paths[i], O_RDONLY | O_CLOEXEC);
        if (files[i] >= 0 && !raise_descriptor(&files[i]))
            return; /* no later look finds the same */
    }
    noted = look();
}

bool own_state_is_as_noted(void) { return !is_noted || look() == noted; }
