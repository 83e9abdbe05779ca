/* hangs_up CODE: hangs up its own terminal, as getty does before it uses one, and exits with CODE. */
#include "child.h"

int main(int argc, char **argv)
{
    mortal();
    signal(SIGHUP, SIG_IGN);
    if (vhangup() && errno != EPERM) /* an ordinary user may not, and then nothing happens */
        die("vhangup");
    pause_for_ms(300); /* a supervisor that takes the hang-up for a request acts on it now */
    return (int)number(argc, argv, 1, 0);
}
