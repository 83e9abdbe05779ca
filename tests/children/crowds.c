/*
 * crowds idle|busy|left COUNT [FILE [MARK]]: starts COUNT processes that sleep, or that use the processor for ever, and
 * says "ready". `left`: they sleep, and the first process exits. With FILE each of them, the first one included, takes
 * SIGTERM, counts itself in FILE (a 64-bit number) and exits; without it they ignore SIGTERM. The first process waits
 * until all have counted themselves, and then makes MARK.
 */
#include "child.h"
#include <sys/mman.h>

static uint64_t *told, all;
static const char *mark; /* of the first process */

static void count_and_leave(int signal)
{
    (void)signal;
    __atomic_add_fetch(told, 1, __ATOMIC_SEQ_CST);
    while (mark && __atomic_load_n(told, __ATOMIC_SEQ_CST) < all)
        pause_for_ms(1);
    if (mark)
        close(open(mark, O_CREAT | O_WRONLY, 0644));
    _exit(0);
}

static void share(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0666);
    if (fd < 0 || lseek(fd, 0, SEEK_END) < 0 || (lseek(fd, 0, SEEK_CUR) == 0 && ftruncate(fd, sizeof *told)))
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
    all = (uint64_t)number(argc, argv, 2, 10) + 1;
    const int is_busy = argc > 1 && strcmp(argv[1], "busy") == 0;
    int gate[2];
    char none;
    if (pipe(gate))
        die("pipe");
    for (int64_t left = number(argc, argv, 2, 10); left > 0; left--) {
        if (spawn() > 0)
            continue;
        close(gate[1]);
        while (is_busy && read(gate[0], &none, 1) < 0) /* until all are there: they begin together */
            ;
        while (is_busy)
            ;
        wait_for_ever();
    }
    mark = argc > 4 ? argv[4] : NULL; /* not in the others, which are forked above */
    say("ready pid=%d", getpid());
    close(gate[1]);
    if (argc > 1 && strcmp(argv[1], "left") == 0)
        return 0;
    wait_for_ever();
}
