/*
 * writes_lines FILE COUNT MICROSECONDS [CODE]: writes COUNT numbered lines of varying length, MICROSECONDS apart, and
 * exits with CODE (0). After each line it stores the number in FILE (8 bytes at least, shared memory). A later reader
 * of the output then knows how many lines were handed over for sure, whatever killed the writer.
 */
#include "child.h"
#include <sys/mman.h>

int main(int argc, char **argv)
{
    mortal();
    int fd = argc > 1 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;
    volatile uint64_t *written = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (written == MAP_FAILED)
        die("map the shared file");
    int64_t count = number(argc, argv, 2, 10), pace_ns = number(argc, argv, 3, 0) * 1000, at_ns = now_ns();
    for (int64_t line = 1; line <= count; line++) {
        char padding[97];
        size_t length = (size_t)(line * 7919 % 97);
        memset(padding, 'a' + (int)(line % 26), length);
        say("%08lld %.*s", (long long)line, (int)length, padding);
        __atomic_store_n(written, (uint64_t)line, __ATOMIC_SEQ_CST);
        if (pace_ns > 0)
            pause_until_ns(at_ns += pace_ns);
    }
    return (int)number(argc, argv, 4, 0);
}
