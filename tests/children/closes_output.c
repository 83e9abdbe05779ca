/* closes_output [MILLISECONDS [CODE]]: closes stdout and stderr, works on for MILLISECONDS (300), exits with CODE (5). */
#include "child.h"

int main(int argc, char **argv)
{
    mortal();
    say("ready pid=%d", getpid());
    close(1);
    close(2);
    pause_for_ms(number(argc, argv, 1, 300));
    _exit((int)number(argc, argv, 2, 5));
}
