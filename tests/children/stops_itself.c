/*
 * stops_itself [CODE [FILE]]: stops itself with SIGSTOP; its SIGTERM handler says "handled", makes FILE, and exits with
 * CODE (0). The file is for peers that do not read output after the deadline.
 */
#include "child.h"

static int code;
static const char *mark;

static void leave(int signal)
{
    (void)signal;
    if (mark)
        close(open(mark, O_CREAT | O_WRONLY, 0644));
    say("handled");
    _exit(code);
}

int main(int argc, char **argv)
{
    mortal();
    code = (int)number(argc, argv, 1, 0);
    mark = argc > 2 ? argv[2] : NULL;
    on(SIGTERM, leave);
    say("ready pid=%d", getpid());
    raise(SIGSTOP);
    say("continued");
    wait_for_ever();
}
