/* doing: what a command was doing when its time was over */
#include "doing.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "procfs.h"

/*
 * Only files that the kernel answers by itself: `cmdline` and `syscall` can wait for a lock of the process, which the
 * command may hold for ever.
 */

enum { DEEPEST = 16 };

static void read_channel(pid_t pid, char *channel, size_t size) {
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/wchan", pid);
    if (read_small(AT_FDCWD, path, channel, size) <= 0 || strcmp(channel, "0") == 0)
        snprintf(channel, size, "-");
}

static bool waits_for_child(const char *channel) {
    return strcmp(channel, "do_wait") == 0 || strncmp(channel, "kernel_wait", 11) == 0;
}

static pid_t first_child(pid_t pid) {
    char path[60], text[256];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    return read_small(AT_FDCWD, path, text, sizeof text) > 0 ? (pid_t)strtol(text, NULL, 10) : 0;
}

size_t doing_text(pid_t leader, char text[DOING_TEXT]) {
    char channel[64], name[32], path[40];
    struct process_stat status;
    pid_t pid = leader;
    read_channel(pid, channel, sizeof channel);
    for (int depth = 0; depth < DEEPEST && waits_for_child(channel); depth++) {
        const pid_t child = first_child(pid);
        if (child <= 0)
            break;
        pid = child;
        read_channel(pid, channel, sizeof channel);
    }
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    if (!read_stat(pid, &status) || is_dead(&status) || read_small(AT_FDCWD, path, name, sizeof name) <= 0)
        return 0;
    name[strcspn(name, "\n")] = '\0';
    const int length = snprintf(text, DOING_TEXT, "%d %c %s %s", pid, status.state, channel, name);
    return length > 0 && length < DOING_TEXT ? (size_t)length : 0;
}
