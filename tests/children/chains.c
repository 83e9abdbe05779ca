/*
 * chains COUNT: COUNT chains of processes. Each process starts its successor as a sibling (CLONE_PARENT) and exits, so
 * the chains never hold still, and every link is a child of the supervisor. All ignore SIGTERM.
 */
#include "child.h"
#include <sched.h>
#include <sys/syscall.h>

static int64_t end_ns;

static pid_t start_sibling(void)
{
    return (pid_t)syscall(SYS_clone, (long)(CLONE_PARENT | SIGCHLD), 0L, 0L, 0L, 0L);
}

static _Noreturn void go_on(void)
{
    while (now_ns() < end_ns) { /* a timer of mortal() would be set anew in every link */
        if (start_sibling() > 0)
            _exit(0);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    mortal();
    end_ns = now_ns() + LIFE_SECONDS * 1000000000LL;
    on(SIGTERM, SIG_IGN);
    for (int64_t left = number(argc, argv, 1, 16); left > 0; left--) {
        if (start_sibling() == 0)
            go_on();
    }
    say("ready pid=%d", getpid());
    wait_for_ever();
}
