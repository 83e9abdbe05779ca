/* procfs: reading and writing the small files of /proc and of the cgroup file system */
#include "procfs.h"

#include <fcntl.h>
#include <signal.h>
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

bool proc_is_ours(void) {
    static pid_t known; /* for which process the answer below was found */
    static bool is_ours;
    if (known != getpid()) {
        char self[16] = "";
        const ssize_t length = readlink("/proc/self", self, sizeof self - 1);
        known = getpid();
        is_ours = length > 0 && strtol(self, NULL, 10) == known;
    }
    return is_ours;
}

bool read_stat(pid_t pid, struct process_stat *out) {
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (!proc_is_ours() || read_small(AT_FDCWD, path, text, sizeof text) <= 0)
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

struct program {
    ssize_t length;
    char path[4096]; /* not NUL-terminated; " (deleted)" follows the path of a file that was replaced or removed */
};

static bool read_program(const char *pid, struct program *program) {
    char path[40];
    snprintf(path, sizeof path, "/proc/%s/exe", pid);
    program->length = readlink(path, program->path, sizeof program->path);
    return program->length > 0;
}

/* The sizes of the program's code and data. They do not depend on where the program is loaded. */
static bool read_sizes(const char *pid, unsigned long sizes[2]) {
    char path[40], text[1024];
    unsigned long code, code_end, data, data_end;
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    const char *rest = read_small(AT_FDCWD, path, text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
    if (rest == NULL || sscanf(rest + 1,
                               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %*u %*u"
                               " %*d %*u %lu %lu %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*d %*d %*u %*u %*u %*u %*d"
                               " %lu %lu",
                               &code, &code_end, &data, &data_end) != 4)
        return false;
    sizes[0] = code_end - code;
    sizes[1] = data_end - data;
    return true;
}

bool runs_our_program(pid_t pid) {
    static struct program ours, theirs;
    char name[16];
    unsigned long our_sizes[2], their_sizes[2];
    snprintf(name, sizeof name, "%d", pid);
    /* Both now: the text of our own link changes when a new version replaces our file. */
    return proc_is_ours() && read_program(name, &theirs) && read_program("self", &ours) && theirs.length == ours.length &&
           memcmp(theirs.path, ours.path, (size_t)ours.length) == 0 && read_sizes(name, their_sizes) &&
           read_sizes("self", our_sizes) && memcmp(our_sizes, their_sizes, sizeof our_sizes) == 0;
}

/* Whether a set of signals in /proc/PID/status has this one. The label begins with a line end. */
static bool set_has(pid_t pid, const char *label, int signal) {
    static char text[128 * 1024]; /* the groups of the process come first, and there may be 65,536 */
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    if (!proc_is_ours() || read_small(AT_FDCWD, path, text, sizeof text) <= 0)
        return false;
    const char *set = strstr(text, label);
    return set != NULL && (strtoull(set + strlen(label), NULL, 16) >> (signal - 1) & 1) != 0;
}

bool catches_signal(pid_t pid, int signal) { return set_has(pid, "\nSigCgt:", signal); }

bool is_being_killed(pid_t pid) { return set_has(pid, "\nSigPnd:", SIGKILL) || set_has(pid, "\nShdPnd:", SIGKILL); }

bool is_dead(const struct process_stat *status) {
    return (status->state == 'Z' && status->threads <= 1) || status->state == 'X';
}
