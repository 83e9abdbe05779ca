/* exits_on_term [CODE]: its SIGTERM handler says "bye" and exits with CODE (0). */
#include "child.h"

static int code;

static void leave(int signal)
{
    (void)signal;
    say("bye");
    _exit(code);
}

int main(int argc, char **argv)
{
    mortal();
    code = (int)number(argc, argv, 1, 0);
    on(SIGTERM, leave);
    say("ready pid=%d", getpid());
    wait_for_ever();
}
