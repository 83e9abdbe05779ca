/*
 * traced HOW: what ptrace makes of parents and children; each ends with code 7 where nobody stands in its way.
 *   execs       asks its parent to trace it, then executes another program
 *   signalled   asks its parent to trace it, then gets a signal that it handles
 *   trapped     asks its parent to trace it, then dies of its own SIGTRAP
 *   orphan      leaves an orphan that asks its new parent to trace it, then gets a signal that ends it with code 0
 *   by-child    is traced by its own child, which never waits for it, and exits
 */
#include "child.h"

#include <sys/prctl.h>
#include <sys/ptrace.h>

static int code = 7;

static void leave(int signal)
{
    (void)signal;
    _exit(code);
}

static void ask_to_be_traced(void)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        _exit(97);
}

/* A pipe whose writing end only the caller has: its end of file is the caller's end. */
static void wait_for_end_of(int *pipe_of_parent)
{
    char nothing;
    close(pipe_of_parent[1]);
    if (read(pipe_of_parent[0], &nothing, 1) != 0)
        die("read");
}

static _Noreturn void orphan(void)
{
    int ends[2];
    pid_t parent = getpid();
    if (pipe(ends))
        die("pipe");
    if (spawn()) {
        say("ready pid=%d", parent);
        _exit(code);
    }
    wait_for_end_of(ends);
    while (getppid() == parent) /* the pipe is closed a moment before the orphan gets its new parent */
        pause_for_ms(1);
    ask_to_be_traced();
    code = 0;
    raise(SIGUSR1);
    wait_for_ever();
}

static _Noreturn void by_child(void)
{
    int ready[2];
    char word;
    if (pipe(ready) || prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0))
        errno = 0; /* a kernel without Yama knows no such limit */
    pid_t tracer = spawn();
    if (tracer == 0) {
        if (ptrace(PTRACE_SEIZE, getppid(), NULL, NULL))
            _exit(97);
        if (write(ready[1], "", 1) != 1)
            die("write");
        wait_for_ever();
    }
    close(ready[1]);
    if (read(ready[0], &word, 1) != 1)
        _exit(97);
    say("ready tracer=%d", tracer);
    _exit(code);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "exits";
    mortal();
    on(SIGUSR1, leave);
    if (strcmp(how, "exits") == 0)
        return code;
    if (strcmp(how, "orphan") == 0)
        orphan();
    if (strcmp(how, "by-child") == 0)
        by_child();
    ask_to_be_traced();
    if (strcmp(how, "execs") == 0)
        execl(argv[0], argv[0], "exits", (char *)NULL);
    if (strcmp(how, "trapped") == 0)
        raise(SIGTRAP);
    raise(SIGUSR1);
    die("still there");
}
