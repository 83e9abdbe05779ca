/*
 * leader_exits_on_term [CODE]: the leader exits on SIGTERM (by CODE, or by the signal itself); its child in the same
 * process group ignores it and shares the leader's output.
 */
#include "child.h"

static int code;

static void leave(int signal)
{
    (void)signal;
    _exit(code);
}

int main(int argc, char **argv)
{
    mortal();
    code = (int)number(argc, argv, 1, -1);
    on(SIGTERM, SIG_IGN); /* inherited: the child never has a moment in which SIGTERM would end it */
    pid_t child = spawn();
    if (child == 0)
        wait_for_ever();
    on(SIGTERM, code < 0 ? SIG_DFL : leave);
    say("ready child=%d", child);
    wait_for_ever();
}
