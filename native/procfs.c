/* procfs: reading and writing the small files of /proc and of the cgroup file system */
#include "procfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DIRECTORY_ENTRY = 4 }; /* DT_DIR */

ssize_t read_small(int directory, const char *path, char *buffer, size_t size) {
    int fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t got = read(fd, buffer, size - 1);
    close(fd);
    if (got >= 0)
        buffer[got] = '\0';
    return got;
}

bool write_small(int directory, const char *path, const char *text) {
    int fd = openat(directory, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = (ssize_t)strlen(text);
    bool whole = write(fd, text, (size_t)length) == length;
    close(fd);
    return whole;
}

void each_entry(int directory, void (*visit)(const char *name, bool is_directory, void *context), void *context) {
    struct entry { /* linux_dirent64 */
        uint64_t inode;
        int64_t offset;
        uint16_t length;
        uint8_t type;
        char name[];
    };
    _Alignas(uint64_t) char buffer[4096];
    for (long got = syscall(SYS_getdents64, directory, buffer, sizeof buffer); got > 0;
         got = syscall(SYS_getdents64, directory, buffer, sizeof buffer)) {
        for (long at = 0; at < got;) {
            const struct entry *entry = (const struct entry *)(const void *)(buffer + at);
            if (strcmp(entry->name, ".") != 0 && strcmp(entry->name, "..") != 0)
                visit(entry->name, entry->type == DIRECTORY_ENTRY, context);
            at += entry->length;
        }
    }
}

bool find_number(const char *text, const char *key, uint64_t *number) {
    const size_t length = strlen(key);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0 && (line[length] == ' ' || line[length] == '\t')) {
            *number = strtoull(line + length + 1, NULL, 10);
            return true;
        }
    }
    return false;
}

bool read_stat(pid_t pid, struct process_stat *out) {
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (read_small(AT_FDCWD, path, text, sizeof text) <= 0)
        return false;
    const char *rest = strrchr(text, ')'); /* the process name before it may contain parentheses, too */
    if (rest == NULL)
        return false;
    int parent;
    long threads;
    unsigned long user, system;
    long children_user, children_system;
    unsigned long long start;
    if (sscanf(rest + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld %*d %*d %ld %*d %llu", &out->state,
               &parent, &user, &system, &children_user, &children_system, &threads, &start) != 8)
        return false;
    out->parent = parent;
    out->threads = threads;
    out->start_ticks = start;
    out->cpu_ticks = user + system + (unsigned long)children_user + (unsigned long)children_system;
    return true;
}

bool catches_signal(pid_t pid, int signal) {
    static char text[128 * 1024]; /* the groups of the process come first, and there may be 65,536 */
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    if (read_small(AT_FDCWD, path, text, sizeof text) <= 0)
        return false;
    const char *caught = strstr(text, "\nSigCgt:");
    return caught != NULL && (strtoull(caught + 8, NULL, 16) >> (signal - 1) & 1) != 0;
}

bool is_dead(const struct process_stat *status) {
    return (status->state == 'Z' && status->threads <= 1) || status->state == 'X';
}
