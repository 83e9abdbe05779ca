/* holds PID: seizes a process with ptrace and leaves it in a stop that no SIGCONT ends, until this one is killed. */
#include "child.h"

#include <sys/ptrace.h>

int main(int argc, char **argv)
{
    mortal();
    const pid_t pid = (pid_t)number(argc, argv, 1, 0);
    int status;
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, pid, NULL, NULL))
        die("ptrace");
    if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
        die("it does not stop");
    say("ready pid=%d", getpid());
    wait_for_ever();
}
