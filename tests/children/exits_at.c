/* exits_at NS|+NS [CODE]: exits at that instant of CLOCK_MONOTONIC, or that long after it was started. */
#include "child.h"

int main(int argc, char **argv)
{
    int64_t at_ns = number(argc, argv, 1, 0);
    if (argc > 1 && argv[1][0] == '+')
        at_ns += now_ns();
    mortal();
    say("ready");
    pause_until_ns(at_ns - 100000); /* the timer's slack is 50 us: spin for the rest */
    while (now_ns() < at_ns)
        ;
    _exit((int)number(argc, argv, 2, 0));
}
