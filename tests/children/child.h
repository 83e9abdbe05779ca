/*
 * What every misbehaving child shares: it says when it is in position, and it cannot outlive a broken test.
 *
 * mortal() arms a timer that delivers SIGKILL, not an alarm: SIGALRM does nothing to a process that is stopped or that
 * ignores it, SIGKILL always does. Timers are lost at fork and exec, so each new process calls it again.
 */
#ifndef HOLDFAST_TEST_CHILD_H
#define HOLDFAST_TEST_CHILD_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIFE_SECONDS 120

static inline _Noreturn void die(const char *what)
{
    fprintf(stderr, "child: %s: %s\n", what, strerror(errno));
    _exit(99);
}

static inline void mortal(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec life = {.it_value = {.tv_sec = LIFE_SECONDS}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &life, NULL))
        die("cannot set the timer that ends this child");
}

/* One write(2) of one line, so that lines of several processes do not mix. */
__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    line[length++] = '\n';
    if (write(1, line, (size_t)length) != length)
        _exit(98);
}

static inline void on(int signal, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    if (sigaction(signal, &action, NULL))
        die("sigaction");
}

static inline _Noreturn void wait_for_ever(void)
{
    for (;;)
        pause();
}

/* A mortal child; fork failing is an error of the machine, not of the test. */
static inline pid_t spawn(void)
{
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0)
        mortal();
    return pid;
}

static inline int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void pause_until_ns(int64_t at_ns)
{
    struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

static inline void pause_for_ms(int64_t milliseconds)
{
    pause_until_ns(now_ns() + milliseconds * 1000000);
}

static inline int64_t number(int count, char **argv, int index, int64_t otherwise)
{
    return count > index ? strtoll(argv[index], NULL, 10) : otherwise;
}

#endif
