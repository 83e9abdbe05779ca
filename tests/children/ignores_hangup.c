/*
 * ignores_hangup [SIGNAL...]: ignores SIGHUP and the given signal numbers. Says whether its stdio is a terminal and
 * whether that is its controlling one, then goes on for ever.
 */
#include "child.h"

int main(int argc, char **argv)
{
    mortal();
    on(SIGHUP, SIG_IGN);
    for (int i = 1; i < argc; i++)
        on(atoi(argv[i]), SIG_IGN);
    int controlling = open("/dev/tty", O_RDWR | O_NOCTTY);
    say("ready pid=%d terminal=%d%d%d controlling=%d foreground=%d", getpid(), isatty(0), isatty(1), isatty(2),
        controlling >= 0, tcgetpgrp(0) == getpgrp());
    wait_for_ever();
}
