/* kills_at PID CALLS: holds a process, and on a line of input lets it make so many steps in and out of the kernel and
 * kills it. Says `killed` or, when the process ended before that, `ended`. */
#include "child.h"

#include <sys/ptrace.h>

int main(int argc, char **argv)
{
    mortal();
    const pid_t pid = (pid_t)number(argc, argv, 1, 0);
    const long steps = number(argc, argv, 2, 1);
    int status;
    char go;
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, pid, NULL, NULL))
        die("ptrace");
    if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
        die("it does not stop");
    say("ready pid=%d", getpid());
    if (read(0, &go, 1) != 1)
        die("read");
    for (long i = 0; i < steps; i++) {
        if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) || waitpid(pid, &status, __WALL) != pid)
            die("ptrace");
        if (!WIFSTOPPED(status)) {
            say("ended");
            return 0;
        }
    }
    if (kill(pid, SIGKILL) || waitpid(pid, &status, __WALL) != pid)
        die("kill");
    say("killed");
    return 0;
}
