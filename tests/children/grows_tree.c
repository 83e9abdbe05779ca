/*
 * grows_tree DEPTH [stubborn]: a chain of DEPTH descendants, each the child of the one before; each names itself
 * ("node pid=PID"), and the deepest says "ready". Stubborn ones ignore SIGTERM.
 */
#include "child.h"

int main(int argc, char **argv)
{
    mortal();
    if (argc > 2)
        on(SIGTERM, SIG_IGN);
    for (int64_t depth = number(argc, argv, 1, 3); depth > 0; depth--) {
        say("node pid=%d", getpid());
        if (spawn() > 0)
            wait_for_ever();
    }
    say("ready pid=%d", getpid());
    wait_for_ever();
}
