/*
 * changes_user: installed setuid by a test that is root. Becomes the file's owner for good (real, effective and saved),
 * so that its starter may not signal it any more; says so and goes on. SIGKILL of its own timer still ends it.
 */
#include "child.h"

int main(void)
{
    mortal();
    uid_t owner = geteuid();
    if (setresuid(owner, owner, owner))
        die("setresuid");
    on(SIGTERM, SIG_IGN);
    on(SIGHUP, SIG_IGN);
    say("ready pid=%d uid=%d", getpid(), (int)getuid());
    wait_for_ever();
}
