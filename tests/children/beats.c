/*
 * beats COUNT MILLISECONDS: touches the file $HOLDFAST_HEARTBEAT COUNT times, MILLISECONDS apart, in silence, then says
 * "done" and exits 0. Exits 3 when there is nothing to touch.
 */
#include "child.h"
#include <sys/stat.h>

int main(int argc, char **argv)
{
    mortal();
    const char *path = getenv("HOLDFAST_HEARTBEAT");
    if (!path)
        return 3;
    say("ready pid=%d", getpid());
    for (int64_t left = number(argc, argv, 1, 10); left > 0; left--) {
        pause_for_ms(number(argc, argv, 2, 50));
        if (utimensat(AT_FDCWD, path, NULL, 0))
            die(path);
    }
    say("done");
    return 0;
}
