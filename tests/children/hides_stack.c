/*
 * hides_stack FILE ARGUMENT: maps FILE over the whole pages of its own arguments and environment, so that a process that
 * reads them in /proc reads FILE. ARGUMENT and the environment are long enough for that. Says "ready" and sleeps.
 */
#include "child.h"
#include <sys/mman.h>

extern char **environ;

int main(int argc, char **argv)
{
    mortal();
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
    const uintptr_t first = ((uintptr_t)argv[0] + page - 1) / page * page;
    uintptr_t last = (uintptr_t)argv[0];
    for (char **one = environ; *one; one++)
        last = (uintptr_t)*one + strlen(*one);
    last = last / page * page;
    if (fd < 0 || last <= first ||
        mmap((void *)first, last - first, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
        die("mmap");
    close(fd); /* a file system that does not answer would not let it go at the end */
    say("ready pid=%d", getpid());
    wait_for_ever();
}
