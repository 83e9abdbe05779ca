/* activity: whether a command is idle, by its output, its CPU time or its heartbeat file */
#include "activity.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tree.h"

/* A process that wakes only for its timers is idle: CPU time below this share does not count. */
enum { BUSY_PER_MILLE = 10 };

/* The time that the kernel knows. To ask a file system over the network, or one that hangs, could take for ever. */
static struct timespec modified(int fd) {
    struct statx status = {0};
    if (fd >= 0 && syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MTIME, &status) < 0)
        return (struct timespec){0};
    return (struct timespec){(time_t)status.stx_mtime.tv_sec, (long)status.stx_mtime.tv_nsec};
}

void activity_start(struct activity *activity, int heartbeat, uint64_t now) {
    activity->last_ns = activity->sampled_ns = activity->looked_ns = now;
    activity->heartbeat = heartbeat;
    activity->beat = modified(heartbeat);
}

void activity_seen(struct activity *activity, uint64_t now) { activity->last_ns = now; }

/*
 * The file's time is wall-clock time. That the file changed since we last looked is certain. When it changed is only as
 * certain as that clock. If the clock says that it was before our last look, or in the future, the clock has jumped.
 * Then the beat counts as of now: a jump of the clock never ends a run early, and keeps it for one idle time at most.
 */
static void check_heartbeat(struct activity *activity, uint64_t now) {
    struct timespec beat = modified(activity->heartbeat), wall;
    const uint64_t looked_ns = activity->looked_ns;
    activity->looked_ns = now;
    if (beat.tv_sec == activity->beat.tv_sec && beat.tv_nsec == activity->beat.tv_nsec)
        return;
    activity->beat = beat;
    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t age = (wall.tv_sec - beat.tv_sec) * 1000000000LL + (wall.tv_nsec - beat.tv_nsec);
    const bool has_jumped = age < 0 || (uint64_t)age > now - looked_ns;
    const uint64_t beat_ns = has_jumped ? now : now - (uint64_t)age;
    if (beat_ns > activity->last_ns)
        activity->last_ns = beat_ns;
}

static void check_cpu(struct activity *activity, uint64_t reaped_us, uint64_t now) {
    const uint64_t per_second = (uint64_t)sysconf(_SC_CLK_TCK), elapsed = now - activity->sampled_ns;
    const struct tree_usage usage = tree_usage(UINT64_MAX, UINT64_MAX);
    const uint64_t ticks = usage.cpu_ticks + reaped_us * per_second / 1000000u;
    const uint64_t enough = elapsed / 1000000000u * per_second * BUSY_PER_MILLE / 1000;
    if (ticks > activity->cpu_ticks + enough || !usage.is_whole) /* a tree too busy, or too large, to be seen whole */
        activity->last_ns = now;
    activity->cpu_ticks = ticks;
    activity->sampled_ns = now;
}

uint64_t activity_check(struct activity *activity, const struct spec_options *options, uint64_t reaped_us,
                        uint64_t now) {
    if (options->flags & SPEC_IDLE_HEARTBEAT)
        check_heartbeat(activity, now);
    if (options->flags & SPEC_IDLE_CPU)
        check_cpu(activity, reaped_us, now);
    uint64_t due = activity->last_ns + options->idle_ns;
    uint64_t sample = now + options->idle_ns / 4;
    return (options->flags & SPEC_IDLE_CPU) && sample < due ? sample : due;
}
