/*
 * daemonises stay|exit|crash: a double-forked daemon in a session of its own, all descriptors closed, environment
 * cleared; then the leader stays, exits 0, or dies of SIGSEGV. The environment is cleared by an exec, because
 * /proc/PID/environ shows what the last exec was given.
 */
#include "child.h"
#include <sys/resource.h>

static _Noreturn void become_daemon(int announce)
{
    if (setsid() < 0)
        die("setsid");
    if (fork() != 0)
        _exit(0);
    char *argv[] = {"daemonises", "as-daemon", NULL};
    char *env[] = {NULL};
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    pid_t pid = getpid();
    if (self < 0 || write(announce, &pid, sizeof pid) != sizeof pid)
        die("announce");
    for (int fd = 0; fd < 64; fd++)
        if (fd != self && fd != announce) /* announce closes at exec: that is how the leader knows it happened */
            close(fd);
    fexecve(self, argv, env);
    _exit(97);
}

int main(int argc, char **argv)
{
    mortal();
    const char *then = argc > 1 ? argv[1] : "stay";
    on(SIGTERM, SIG_IGN);
    if (strcmp(then, "as-daemon") == 0)
        wait_for_ever();

    int announce[2];
    pid_t first, daemon;
    char nothing;
    if (pipe2(announce, O_CLOEXEC))
        die("pipe2");
    first = spawn();
    if (first == 0)
        become_daemon(announce[1]);
    close(announce[1]);
    if (read(announce[0], &daemon, sizeof daemon) != sizeof daemon || read(announce[0], &nothing, 1) != 0)
        die("the daemon did not start");
    waitpid(first, NULL, 0);
    on(SIGTERM, SIG_DFL);
    say("ready daemon=%d", daemon);

    if (strcmp(then, "exit") == 0)
        return 0;
    if (strcmp(then, "crash") == 0) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        raise(SIGSEGV);
    }
    wait_for_ever();
}
