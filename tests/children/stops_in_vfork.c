/*
 * stops_in_vfork: a supervisor that starts its child with vfork, and the child is stopped (as by Ctrl-Z to the whole
 * group) before it executes anything. The parent cannot go on before the child does: says "ready child=PID" from the
 * child, and "started" when the parent got on.
 */
#include "child.h"

int main(void)
{
    mortal();
    pid_t child = vfork();
    if (child == 0) {
        say("ready child=%d", getpid());
        raise(SIGSTOP);
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    say("started");
    waitpid(child, NULL, 0);
    return 0;
}
