/* raw_syscall: system calls that leave errno alone, for a child that shares the guard's memory */
#ifndef HOLDFAST_RAW_SYSCALL_H
#define HOLDFAST_RAW_SYSCALL_H

/*
 * The result is the kernel's own answer; a negative number is an error. fork_sharing.h says why the child must not
 * touch errno.
 */

#include <stddef.h>

struct raw_arguments {
    long at[6];
};

static inline long raw_syscall(long number, struct raw_arguments given) {
#if defined(__x86_64__)
    register long d __asm__("r10") = given.at[3];
    register long e __asm__("r8") = given.at[4];
    register long f __asm__("r9") = given.at[5];
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(given.at[0]), "S"(given.at[1]), "d"(given.at[2]), "r"(d), "r"(e), "r"(f)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long number_in __asm__("x8") = number;
    register long a __asm__("x0") = given.at[0];
    register long b __asm__("x1") = given.at[1];
    register long c __asm__("x2") = given.at[2];
    register long d __asm__("x3") = given.at[3];
    register long e __asm__("x4") = given.at[4];
    register long f __asm__("x5") = given.at[5];
    __asm__ volatile("svc 0" : "+r"(a) : "r"(number_in), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f) : "memory");
    return a;
#else
#error "there is no guard for this architecture"
#endif
}

#define RAW_SYSCALL(number, ...) raw_syscall((number), (struct raw_arguments){{__VA_ARGS__}})

#endif
