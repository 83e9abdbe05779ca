/*
 * crowds idle|busy COUNT [FILE]: starts COUNT processes that sleep, or that use the processor for ever, and says
 * "ready". With FILE each of them, the first one included, takes SIGTERM, counts itself in FILE (a 64-bit number) and
 * exits; without it they ignore SIGTERM.
 */
#include "child.h"
#include <sys/mman.h>

static uint64_t *told;

static void count_and_leave(int signal)
{
    (void)signal;
    __atomic_add_fetch(told, 1, __ATOMIC_SEQ_CST);
    _exit(0);
}

static void share(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0666);
    if (fd < 0 || ftruncate(fd, sizeof *told))
        die(path);
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (told == MAP_FAILED)
        die("mmap");
    close(fd);
}

int main(int argc, char **argv)
{
    mortal();
    if (argc > 3)
        share(argv[3]);
    on(SIGTERM, argc > 3 ? count_and_leave : SIG_IGN);
    const int is_busy = argc > 1 && strcmp(argv[1], "busy") == 0;
    for (int64_t left = number(argc, argv, 2, 10); left > 0; left--) {
        if (spawn() > 0)
            continue;
        while (is_busy)
            ;
        wait_for_ever();
    }
    say("ready pid=%d", getpid());
    wait_for_ever();
}
