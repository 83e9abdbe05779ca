/*
 * real_time: uses the processor for ever, with a real-time priority if it may have one, and ignores SIGTERM. It stays on
 * one processor, so that a machine with two of them goes on.
 */
#include "child.h"
#include <sched.h>

int main(void)
{
    mortal();
    const struct sched_param highest = {.sched_priority = 99};
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    on(SIGTERM, SIG_IGN);
    say("ready pid=%d", getpid());
    if (sched_setaffinity(0, sizeof first, &first) || sched_setscheduler(0, SCHED_FIFO, &highest))
        errno = 0; /* an ordinary user may not: then it is only busy */
    for (const int64_t end_ns = now_ns() + 20000000000; now_ns() < end_ns;)
        ;
    return 0;
}
