/*
 * The physical limit, and the commands that are measured: one program, so that the benchmarks need gcc and nothing else.
 *
 *   limit spawn COUNT AT_ONCE COMMAND...   run COMMAND that often with both streams on pipes; seconds and CPU as JSON
 *   limit collect BYTES COMMAND...         read that much of COMMAND's stdout into memory; the same JSON
 *   limit produce BYTES                    write that many bytes to stdout, as fast as the pipe takes them
 *   limit tree COUNT                       COUNT processes that wait for a signal; prints their ids, then waits too
 *   limit idle                             waits for a signal
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void fail(const char *what)
{
    fprintf(stderr, "limit: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double cpu_us(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void print_cost(double seconds, double self_us, double children_us)
{
    printf("{\"seconds\": %.9f, \"self_us\": %.0f, \"children_us\": %.0f}\n", seconds, self_us, children_us);
}

struct child {
    pid_t pid;
    int out;
    int err;
};

/* What subprocess.run(capture_output=True, stdin=DEVNULL) asks of the kernel, and nothing besides. */
static struct child start(char **command, int null_fd, int with_err)
{
    struct child child = {0, -1, -1};
    int out[2];
    int err[2] = {-1, -1};
    if (pipe2(out, O_CLOEXEC) < 0 || (with_err && pipe2(err, O_CLOEXEC) < 0))
        fail("pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, null_fd, 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    if (with_err)
        posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    errno = posix_spawn(&child.pid, command[0], &actions, NULL, command, environ);
    if (errno)
        fail(command[0]);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    child.out = out[0];
    if (with_err) {
        close(err[1]);
        child.err = err[0];
    }
    return child;
}

static void drain(int fd)
{
    char buffer[4096];
    while (read(fd, buffer, sizeof buffer) > 0) {
    }
    close(fd);
}

/* The command must write less than a pipe holds: this reads after the exit, which is the least work there is. */
static void spawn_many(long count, long at_once, char **command)
{
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct child *children = calloc((size_t)at_once, sizeof *children);
    long started = 0;
    double begin = now_s(), self = cpu_us(RUSAGE_SELF), theirs = cpu_us(RUSAGE_CHILDREN);
    for (; started < at_once && started < count; started++)
        children[started] = start(command, null_fd, 1);
    for (long ended = 0; ended < count; ended++) {
        pid_t pid = waitpid(-1, NULL, 0);
        long slot = 0;
        while (slot < at_once && children[slot].pid != pid)
            slot++;
        if (pid < 0 || slot == at_once)
            fail("waitpid");
        drain(children[slot].out);
        drain(children[slot].err);
        children[slot].pid = 0;
        if (started < count) {
            children[slot] = start(command, null_fd, 1);
            started++;
        }
    }
    print_cost(now_s() - begin, cpu_us(RUSAGE_SELF) - self, cpu_us(RUSAGE_CHILDREN) - theirs);
    free(children);
}

static void collect(size_t size, char **command)
{
    double begin = now_s(), self = cpu_us(RUSAGE_SELF), theirs = cpu_us(RUSAGE_CHILDREN);
    struct child child = start(command, open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    fcntl(child.out, F_SETPIPE_SZ, 1 << 20);
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("mmap");
    size_t at = 0;
    for (ssize_t got; at < size && (got = read(child.out, memory + at, size - at)) > 0;)
        at += (size_t)got;
    close(child.out);
    waitpid(child.pid, NULL, 0);
    if (at != size)
        fail("the command wrote too little");
    print_cost(now_s() - begin, cpu_us(RUSAGE_SELF) - self, cpu_us(RUSAGE_CHILDREN) - theirs);
}

static void produce(size_t size)
{
    static char block[256 << 10];
    memset(block, 'x', sizeof block);
    while (size > 0) {
        ssize_t written = write(1, block, size < sizeof block ? size : sizeof block);
        if (written < 0)
            fail("write");
        size -= (size_t)written;
    }
}

static void grow_tree(long count)
{
    char line[1 << 12];
    int length = snprintf(line, sizeof line, "%d", (int)getpid());
    for (long i = 1; i < count; i++) {
        pid_t pid = fork();
        if (pid < 0)
            fail("fork");
        if (pid == 0)
            for (;;)
                pause();
        length += snprintf(line + length, sizeof line - (size_t)length, " %d", (int)pid);
    }
    line[length++] = '\n';
    if (write(1, line, (size_t)length) < 0)
        fail("write");
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "spawn") && argc > 4)
        spawn_many(atol(argv[2]), atol(argv[3]), argv + 4);
    else if (!strcmp(mode, "collect") && argc > 3)
        collect(strtoul(argv[2], NULL, 10), argv + 3);
    else if (!strcmp(mode, "produce") && argc > 2)
        produce(strtoul(argv[2], NULL, 10));
    else if (!strcmp(mode, "tree") && argc > 2)
        grow_tree(atol(argv[2]));
    else if (strcmp(mode, "idle") != 0)
        return 2;
    if (!strcmp(mode, "tree") || !strcmp(mode, "idle"))
        for (;;)
            pause();
    return 0;
}
