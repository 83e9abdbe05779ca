/*
 * stops_often COUNT: is stopped (SIGSTOP) by itself and continued by its child, COUNT times, then says "done". The child
 * leaves a third of a millisecond for the parent to see each stop: a stop that is over before that is no news.
 */
#include "child.h"

static char state_of(pid_t pid)
{
    char path[32], text[256];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0)
        return 0;
    text[length] = 0;
    char *end = strrchr(text, ')');
    return end ? end[2] : 0;
}

int main(int argc, char **argv)
{
    mortal();
    const pid_t self = getpid();
    const int64_t count = number(argc, argv, 1, 100);
    if (spawn() == 0) {
        while (getppid() == self) {
            if (state_of(self) != 'T')
                continue;
            pause_until_ns(now_ns() + 300000);
            kill(self, SIGCONT);
        }
        _exit(0);
    }
    for (int64_t i = 0; i < count; i++)
        kill(self, SIGSTOP);
    say("done");
    return 0;
}
