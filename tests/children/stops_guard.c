/*
 * stops_guard HOW [GUARD]: ignores SIGTERM, and stops its guard and the sentinel above it. The guard is the parent, or
 * the given process. HOW: "once" until both stand still, and then goes on for ever; "exits" does the same and then exits
 * with code 7; "loop" stops them again and again; "asked" waits for SIGUSR1, and then does so. Before that its guard can
 * pass its output on, which a guard that is stopped in a loop may never do.
 */
#include "child.h"

static pid_t parent_of(pid_t pid, char *state)
{
    char path[64], text[512] = "";
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL || fread(text, 1, sizeof text - 1, file) == 0)
        die(path);
    fclose(file);
    if (sscanf(strrchr(text, ')') + 1, " %c %d", state, &parent) != 2)
        die("not a line of stat");
    return parent;
}

static char state_of(pid_t pid)
{
    char state = '?';
    parent_of(pid, &state);
    return state;
}

static void stop(pid_t sentinel, pid_t guard)
{
    if (kill(sentinel, SIGSTOP) || kill(guard, SIGSTOP))
        die("cannot stop them");
}

int main(int argc, char **argv)
{
    mortal();
    on(SIGTERM, SIG_IGN);
    const char *how = argc > 1 ? argv[1] : "once";
    const pid_t guard = (pid_t)number(argc, argv, 2, getppid());
    const int waits = strcmp(how, "asked") == 0, loops = waits || strcmp(how, "loop") == 0;
    char state;
    const pid_t sentinel = parent_of(guard, &state);
    sigset_t asked;
    int number_of_signal;
    sigemptyset(&asked);
    sigaddset(&asked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &asked, NULL);
    say("ready pid=%d guard=%d sentinel=%d", getpid(), guard, sentinel);
    if (waits)
        sigwait(&asked, &number_of_signal);
    do {
        stop(sentinel, guard);
    } while (loops || state_of(sentinel) != 'T' || state_of(guard) != 'T');
    if (strcmp(how, "exits") == 0)
        return 7;
    wait_for_ever();
}
