/* ignores_term [SIGNAL...]: ignores SIGTERM and the given signal numbers, and goes on for ever. */
#include "child.h"

int main(int argc, char **argv)
{
    mortal();
    on(SIGTERM, SIG_IGN);
    for (int i = 1; i < argc; i++)
        on(atoi(argv[i]), SIG_IGN);
    say("ready pid=%d", getpid());
    wait_for_ever();
}
