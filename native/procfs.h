/* procfs: reading and writing the small files of /proc and of the cgroup file system */
#ifndef HOLDFAST_PROCFS_H
#define HOLDFAST_PROCFS_H

/* Nothing here allocates memory. A file that cannot be read means that nothing is known. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process_stat {
    char state;
    pid_t parent;
    long threads;
    uint64_t cpu_ticks; /* its own, and those of the children it has waited for */
    uint64_t start_ticks;
};

/* Reads a small file whole and ends it with NUL. Returns its length, or -1. `directory` may be AT_FDCWD. */
ssize_t read_small(int directory, const char *path, char *buffer, size_t size);
bool write_small(int directory, const char *path, const char *text);
/* Finds the decimal number after `key` in lines of the form "key number". */
bool find_number(const char *text, const char *key, uint64_t *number);

/* Calls `visit` for every entry of an open directory but "." and "..". Unlike readdir it allocates nothing. */
void each_entry(int directory, void (*visit)(const char *name, bool is_directory, void *context), void *context);

/*
 * Whether /proc shows our own PID namespace. After `unshare --pid` without a new /proc it does not: its numbers are then
 * those of strangers, and everything below knows nothing.
 */
bool proc_is_ours(void);
bool read_stat(pid_t pid, struct process_stat *out);
/*
 * Whether the process runs the same program as this one. Nothing here asks the program's file system: `stat` of
 * /proc/PID/exe would, and a file system that the command has chosen (FUSE, NFS) may never answer. The kernel knows the
 * link's text and the sizes of code and data by itself. The text alone would be the same in another mount namespace.
 */
bool runs_our_program(pid_t pid);
/* Whether the process has a handler of its own for the signal. */
bool catches_signal(pid_t pid, int signal);
/* Whether SIGKILL waits for the process to come out of the kernel. It runs no more code of its own then. */
bool is_being_killed(pid_t pid);
/* A zombie whose other threads still run is alive (its main thread called pthread_exit). */
bool is_dead(const struct process_stat *status);

#endif
