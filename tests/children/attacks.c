/*
 * attacks kill|stop|hammer parent|grandparent|both SPARED [hidden|marked]: says "ready", and attacks the processes above
 * it, except SPARED and everything above that one. `hammer` stops them again and again. `both` are stopped before they
 * are killed, so that neither sees the other die. Before that it starts a companion in a session of its own that ignores
 * SIGTERM: `hidden` with no environment, `marked` with all of it.
 */
#include "child.h"

extern char **environ;

static pid_t parent_of(pid_t pid)
{
    char path[32], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0)
        return 0;
    text[length] = 0;
    char *end = strrchr(text, ')');
    return end ? (pid_t)strtol(end + 4, NULL, 10) : 0;
}

static void start_companion(int has_environment)
{
    int started[2];
    char none;
    char *argv[] = {"attacks", "companion", NULL};
    char *empty[] = {NULL};
    if (pipe2(started, O_CLOEXEC))
        die("pipe");
    if (spawn() == 0) {
        if (setsid() < 0 || fork() != 0)
            _exit(0);
        execve("/proc/self/exe", argv, has_environment ? environ : empty);
        die("execve");
    }
    close(started[1]);
    if (read(started[0], &none, 1) < 0) /* until it has executed */
        die("read");
    wait(NULL);
}

static void send(const pid_t *targets, int signal)
{
    for (int i = 1; i >= 0; i--) /* the grandparent first: the end of the parent may be ours */
        if (targets[i] > 1)
            kill(targets[i], signal);
}

int main(int argc, char **argv)
{
    mortal();
    if (argc == 2) {
        on(SIGTERM, SIG_IGN);
        for (int fd = 0; fd < 3; fd++)
            close(fd);
        wait_for_ever();
    }
    if (argc < 4)
        die("arguments");
    const pid_t spared = (pid_t)number(argc, argv, 3, 1), parent = getppid();
    const pid_t grandparent = parent > 1 && parent != spared ? parent_of(parent) : 0;
    pid_t targets[2] = {parent, grandparent};
    if (strcmp(argv[2], "parent") == 0)
        targets[1] = 0;
    if (strcmp(argv[2], "grandparent") == 0)
        targets[0] = 0;
    for (int i = 0; i < 2; i++)
        if (targets[i] == spared)
            targets[i] = 0;
    if (argc > 4)
        start_companion(strcmp(argv[4], "marked") == 0);
    say("ready pid=%d", getpid());
    if (strcmp(argv[1], "kill") != 0 || strcmp(argv[2], "both") == 0)
        send(targets, SIGSTOP);
    if (strcmp(argv[1], "kill") == 0)
        send(targets, SIGKILL);
    for (const int64_t end_ns = now_ns() + 5000000000; strcmp(argv[1], "hammer") == 0 && now_ns() < end_ns;)
        send(targets, SIGSTOP);
    wait_for_ever();
}
