/* stops_itself [CODE]: stops itself with SIGSTOP; its SIGTERM handler says "handled" and exits with CODE (0). */
#include "child.h"

static int code;

static void leave(int signal)
{
    (void)signal;
    say("handled");
    _exit(code);
}

int main(int argc, char **argv)
{
    mortal();
    code = (int)number(argc, argv, 1, 0);
    on(SIGTERM, leave);
    say("ready pid=%d", getpid());
    raise(SIGSTOP);
    say("continued");
    wait_for_ever();
}
