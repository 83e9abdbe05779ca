/*
 * storms [LIVE]: a fork storm: every process keeps starting others, half of them in sessions of their own, and exits
 * itself once it is replaced, all in hundredths of a second. Three bounds keep a bug from taking the machine down: LIVE
 * (at most 400) at once, TOTAL in all, and the life of each process. A killed process still counts as live, so kills
 * make the storm smaller.
 */
#include "child.h"
#include <sys/mman.h>

enum { MOST_LIVE = 400, TOTAL = 50000, PACE_MS = 10 };

static struct {
    int live, total;
} *storm;

static int take_place(int most)
{
    if (__atomic_add_fetch(&storm->total, 1, __ATOMIC_SEQ_CST) > TOTAL)
        return 0;
    if (__atomic_add_fetch(&storm->live, 1, __ATOMIC_SEQ_CST) <= most)
        return 1;
    __atomic_sub_fetch(&storm->live, 1, __ATOMIC_SEQ_CST);
    return 0;
}

/* Starts a process that goes on with the storm. Returns only in the caller. */
static int start(unsigned *seed)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid > 0;
    mortal();
    *seed = *seed * 1103515245 + (unsigned)getpid();
    if (*seed & 0x10000)
        setsid();
    return -1;
}

static _Noreturn void rage(int most, unsigned seed)
{
    for (;;) {
        if (take_place(most)) {
            if (start(&seed) == 0)
                __atomic_sub_fetch(&storm->live, 1, __ATOMIC_SEQ_CST);
        } else if (__atomic_add_fetch(&storm->total, 1, __ATOMIC_SEQ_CST) < TOTAL && start(&seed) == 1) {
            _exit(0); /* replaced: the successor has this one's place */
        }
        pause_for_ms(PACE_MS);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
}

int main(int argc, char **argv)
{
    mortal();
    int most = (int)number(argc, argv, 1, 150);
    if (most > MOST_LIVE)
        most = MOST_LIVE;
    storm = mmap(NULL, sizeof *storm, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (storm == MAP_FAILED)
        die("mmap");
    on(SIGTERM, SIG_IGN);
    storm->live = 1;
    if (fork() == 0) {
        mortal();
        rage(most, (unsigned)getpid());
    }
    while (__atomic_load_n(&storm->live, __ATOMIC_SEQ_CST) < most)
        pause_for_ms(1);
    say("ready");
    wait_for_ever();
}
