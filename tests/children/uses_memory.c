/*
 * uses_memory now|on-term BYTES: touches BYTES of memory at once, or when SIGTERM comes; never more than that. Says
 * "used" when it got there. The pages are left to the kernel to kill for: overcommit means malloc itself succeeds.
 */
#include "child.h"
#include <sys/mman.h>

static volatile sig_atomic_t asked;

static void ask(int signal)
{
    (void)signal;
    asked = 1;
}

int main(int argc, char **argv)
{
    mortal();
    int64_t bytes = number(argc, argv, 2, 64 << 20);
    sigset_t term, before;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, &before); /* no gap between the test of `asked` and the wait for the signal */
    on(SIGTERM, ask);
    say("ready pid=%d", getpid());
    while (argc > 1 && strcmp(argv[1], "on-term") == 0 && !asked)
        sigsuspend(&before);
    char *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        die("mmap");
    for (int64_t at = 0; at < bytes; at += 4096)
        memory[at] = 1;
    say("used");
    wait_for_ever();
}
