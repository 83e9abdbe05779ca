/*
 * reforks FILE [stay|exit]: a chain of processes, each of which lives about a millisecond, starts its successor in a
 * new session and exits. FILE (16 bytes at least) is shared memory: the first u64 counts generations, a second u64
 * other than zero ends the chain, so that a test that let it escape can still clean up.
 */
#include "child.h"
#include <sys/mman.h>

static _Noreturn void refork(volatile uint64_t *shared, int64_t until_ns)
{
    for (;;) {
        __atomic_add_fetch(&shared[0], 1, __ATOMIC_SEQ_CST);
        pause_for_ms(1);
        if (shared[1] || now_ns() > until_ns)
            _exit(0);
        pid_t next = fork();
        if (next > 0)
            _exit(0);
        if (next == 0)
            setsid(); /* a failed fork leaves this generation to try again */
    }
}

int main(int argc, char **argv)
{
    mortal();
    on(SIGTERM, SIG_IGN);
    int fd = argc > 1 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;
    volatile uint64_t *shared = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED)
        die("map the shared file");
    int64_t until_ns = now_ns() + (int64_t)LIFE_SECONDS * 1000000000;
    if (fork() == 0)
        refork(shared, until_ns);
    while (shared[0] < 5)
        pause_for_ms(1);
    on(SIGTERM, SIG_DFL);
    say("ready");
    if (argc > 2 && strcmp(argv[2], "exit") == 0)
        return 0;
    wait_for_ever();
}
