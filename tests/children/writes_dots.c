/* writes_dots COUNT MILLISECONDS: writes ".\r" COUNT times, MILLISECONDS apart, never a newline after "ready". */
#include "child.h"

int main(int argc, char **argv)
{
    mortal();
    say("ready");
    for (int64_t left = number(argc, argv, 1, 10); left > 0; left--) {
        pause_for_ms(number(argc, argv, 2, 50));
        if (write(1, ".\r", 2) != 2)
            die("write");
    }
    return 0;
}
