/* exits_on_term [CODE [FILE [SIGNAL]]]: its handler of SIGNAL (SIGTERM) makes FILE, says "bye" and exits with CODE (0). */
#include "child.h"

static int code;
static const char *mark;

static void leave(int signal)
{
    (void)signal;
    if (mark)
        close(open(mark, O_CREAT | O_WRONLY, 0644));
    say("bye");
    _exit(code);
}

int main(int argc, char **argv)
{
    mortal();
    code = (int)number(argc, argv, 1, 0);
    mark = argc > 2 ? argv[2] : NULL;
    on((int)number(argc, argv, 3, SIGTERM), leave);
    say("ready pid=%d", getpid());
    wait_for_ever();
}
