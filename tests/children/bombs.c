/*
 * bombs COUNT: a fork bomb: every process forks for ever, and ignores SIGTERM. COUNT is the limit of processes of its
 * user (RLIMIT_NPROC), so each process that dies is replaced. Root becomes a user first whom nobody else is. After half
 * a minute all processes exit, for a test that cannot end them.
 */
#include "child.h"
#include <sys/resource.h>

int main(int argc, char **argv)
{
    mortal();
    const rlim_t most = (rlim_t)number(argc, argv, 1, 200);
    const struct rlimit limit = {most, most};
    const uid_t user = (uid_t)((1 << 30) + getpid());
    if ((getuid() == 0 && (setgid(user) || setuid(user))) || getuid() == 0 || setrlimit(RLIMIT_NPROC, &limit))
        die("needs a user of its own");
    on(SIGTERM, SIG_IGN);
    on(SIGCHLD, SIG_IGN);
    say("ready pid=%d", getpid());
    for (const int64_t end_ns = now_ns() + 30000000000; now_ns() < end_ns;)
        fork();
    return 0;
}
