/*
 * forks_on_term [COUNT]: its SIGTERM handler starts COUNT (3) children that ignore SIGTERM, each in a session of its
 * own, names them ("spawned child=PID"), and exits 0.
 */
#include "child.h"

static int count;

static void multiply(int signal)
{
    (void)signal;
    on(SIGTERM, SIG_IGN);
    for (int i = 0; i < count; i++) {
        pid_t child = spawn();
        if (child == 0) {
            setsid();
            wait_for_ever();
        }
        say("spawned child=%d", child);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    mortal();
    count = (int)number(argc, argv, 1, 3);
    on(SIGTERM, multiply);
    say("ready pid=%d", getpid());
    wait_for_ever();
}
