/* priority: the guard's own turn on the processor, which its command must not take away and does not inherit */
#include "priority.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "procfs.h"

enum { HIGHEST = -20 };
#define SHORT_TURN_NS 100000u /* the shortest that Linux takes, from 6.12 on; older ones ignore it */

/* The kernel's struct sched_attr in its first version. Our headers may be older than the kernel. */
struct attributes {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns; /* of an ordinary task: how long one turn lasts */
    uint64_t deadline_ns;
    uint64_t period_ns;
};

static struct attributes given; /* what the guard had before it took short turns */
static bool is_short, is_raised;

static bool get(struct attributes *attributes) {
    return syscall(SYS_sched_getattr, 0, attributes, sizeof *attributes, 0) == 0;
}

static bool set(struct attributes attributes) { return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0; }

static struct attributes with_short_turns(int nice) {
    struct attributes wanted = given;
    wanted.nice = nice;
    wanted.runtime_ns = SHORT_TURN_NS;
    return wanted;
}

void priority_take_short_turns(void) {
    if (is_short || !get(&given))
        return;
    given.size = sizeof given;
    given.flags = 0;
    /* Not for a task of another class: there the number of nanoseconds means something else, or the owner chose. */
    is_short = given.policy == SCHED_OTHER && set(with_short_turns(given.nice));
}

void priority_give_back_turns(void) {
    struct attributes now;
    if (is_short && get(&now) && now.policy == given.policy && now.nice == given.nice && now.runtime_ns == SHORT_TURN_NS)
        is_short = !set(given);
}

/* The kernel refuses a number below what RLIMIT_NICE allows, and does not choose the nearest. */
static int lowest_allowed(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NICE, &limit) < 0 || limit.rlim_cur > 40)
        return HIGHEST;
    return 20 - (int)limit.rlim_cur;
}

void priority_raise(void) {
    priority_take_short_turns();
    if (!is_short || is_raised)
        return;
    is_raised = set(with_short_turns(HIGHEST)) ||
                (lowest_allowed() < given.nice && set(with_short_turns(lowest_allowed())));
    if (is_raised) /* of our session, against those of the tree; for a nice guard in it, see above */
        write_small(AT_FDCWD, "/proc/self/autogroup", "-20");
}

void priority_lower(void) {
    if (!is_raised)
        return;
    is_raised = !set(with_short_turns(given.nice));
    write_small(AT_FDCWD, "/proc/self/autogroup", "0");
}
