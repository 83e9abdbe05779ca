/*
 * leaves_holder silent|writes|null [EARLY_BYTES [stubborn]]: writes EARLY_BYTES of 'e' and "early\n", exits 0, and
 * leaves a child behind that holds stdout silently, writes "late\n" to it every millisecond for ever, or has null
 * stdio. A stubborn one ignores SIGTERM.
 */
#include "child.h"

static void write_early(int64_t bytes)
{
    static char block[65536];
    memset(block, 'e', sizeof block);
    while (bytes > 0) {
        ssize_t wrote = write(1, block, bytes < (int64_t)sizeof block ? (size_t)bytes : sizeof block);
        if (wrote < 0)
            die("write");
        bytes -= wrote;
    }
    say("early");
}

static _Noreturn void hold(const char *how, int in_position)
{
    if (strcmp(how, "null") == 0) {
        int null = open("/dev/null", O_RDWR);
        for (int fd = 0; fd < 3; fd++)
            dup2(null, fd);
    }
    close(in_position);
    if (strcmp(how, "writes") == 0)
        for (;;) {
            say("late");
            pause_for_ms(1);
        }
    wait_for_ever();
}

int main(int argc, char **argv)
{
    mortal();
    const char *how = argc > 1 ? argv[1] : "silent";
    int in_position[2];
    char nothing;
    if (pipe(in_position))
        die("pipe");
    on(SIGPIPE, SIG_DFL);
    write_early(number(argc, argv, 2, 0));
    if (argc > 3)
        on(SIGTERM, SIG_IGN);
    pid_t holder = spawn();
    if (holder == 0) {
        close(in_position[0]);
        hold(how, in_position[1]);
    }
    close(in_position[1]);
    if (read(in_position[0], &nothing, 1) != 0)
        die("the holder did not start");
    say("ready holder=%d", holder);
    return 0;
}
