/* writes_bytes BYTES [stderr]: writes that many bytes as fast as it can, then the count, as a line, to stderr. */
#include "child.h"

int main(int argc, char **argv)
{
    static char block[1 << 20];
    mortal();
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (char)('a' + i % 26);
    int64_t bytes = number(argc, argv, 1, 0), done = 0;
    int fd = argc > 2 ? 2 : 1;
    while (done < bytes) {
        size_t part = bytes - done < (int64_t)sizeof block ? (size_t)(bytes - done) : sizeof block;
        ssize_t wrote = write(fd, block, part); /* each write starts at 'a': cheap, and still shows holes */
        if (wrote < 0)
            die("write");
        done += wrote;
    }
    dprintf(2, "wrote %lld\n", (long long)done);
    return 0;
}
