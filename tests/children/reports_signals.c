/* reports_signals: survives every signal it can, and says "got NUMBER" for each. */
#include "child.h"

static void report(int signal)
{
    say("got %d", signal);
}

int main(void)
{
    mortal();
    int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM, SIGWINCH};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        on(signals[i], report);
    say("ready pid=%d", getpid());
    wait_for_ever();
}
