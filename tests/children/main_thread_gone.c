/*
 * main_thread_gone [MILLISECONDS [CODE]]: the main thread ends with pthread_exit, so /proc shows the process as a
 * zombie (Z); another thread says "ready" once that is so, works for MILLISECONDS (for ever when 0), says "still here"
 * and exits with CODE (7).
 */
#include "child.h"
#include <pthread.h>

static int64_t milliseconds;
static int code;

static char state_of_main(void)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", getpid(), getpid());
    int fd = open(path, O_RDONLY);
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    char *end = length > 0 ? strrchr(text, ')') : NULL;
    return end ? end[2] : '?';
}

static void *go_on(void *unused)
{
    (void)unused;
    while (state_of_main() != 'Z')
        pause_for_ms(1);
    say("ready pid=%d", getpid());
    if (milliseconds == 0)
        wait_for_ever();
    pause_for_ms(milliseconds);
    say("still here");
    _exit(code);
}

int main(int argc, char **argv)
{
    mortal();
    milliseconds = number(argc, argv, 1, 0);
    code = (int)number(argc, argv, 2, 7);
    pthread_t thread;
    if (pthread_create(&thread, NULL, go_on, NULL))
        die("pthread_create");
    pthread_exit(NULL);
}
