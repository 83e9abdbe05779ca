/* stays_busy MILLISECONDS: uses the processor for that long in silence, then says "done" and exits 0. */
#include "child.h"

int main(int argc, char **argv)
{
    mortal();
    say("ready pid=%d", getpid());
    int64_t until_ns = now_ns() + number(argc, argv, 1, 500) * 1000000;
    while (now_ns() < until_ns)
        ;
    say("done");
    return 0;
}
