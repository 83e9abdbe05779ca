/*
 * bombs COUNT [UID]: a fork bomb: every process forks for ever, and ignores SIGTERM. COUNT is the limit of processes of
 * its user (RLIMIT_NPROC), so each process that dies is replaced. Root becomes UID first, whom nobody else is.
 */
#include "child.h"
#include <sys/resource.h>

int main(int argc, char **argv)
{
    mortal();
    const rlim_t most = (rlim_t)number(argc, argv, 1, 200);
    const struct rlimit limit = {most, most};
    const uid_t user = (uid_t)number(argc, argv, 2, (int64_t)getuid());
    if (user == 0 || (user != getuid() && (setgid(user) || setuid(user))) || setrlimit(RLIMIT_NPROC, &limit))
        die("needs a user of its own");
    on(SIGTERM, SIG_IGN);
    on(SIGCHLD, SIG_IGN);
    say("ready pid=%d", getpid());
    for (;;) {
        if (fork() == 0)
            mortal();
    }
}
