/* breeds COUNT: starts a process that sleeps every half millisecond, up to COUNT of them. All of them end at SIGTERM. */
#include "child.h"

int main(int argc, char **argv)
{
    mortal();
    say("ready pid=%d", getpid());
    for (int64_t left = number(argc, argv, 1, 1000); left > 0; left--) {
        if (spawn() == 0)
            wait_for_ever();
        pause_until_ns(now_ns() + 500000);
    }
    wait_for_ever();
}
