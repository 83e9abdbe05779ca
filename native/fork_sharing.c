/* fork_sharing: a fork that copies no memory; the child is in the guard's memory until it executes a program */
#include "fork_sharing.h"

#include <errno.h>
#include <stdalign.h>
#include <stdint.h>
#include <sys/syscall.h>

enum { STACK_SIZE = 16 * 1024 };

static alignas(16) unsigned char stack[STACK_SIZE];

/* The child returns from the system call with the guard's registers, all but the stack pointer. */
static long clone_onto(const struct clone_args *arguments, void (*child)(const void *), const void *context) {
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "mov %[context], %%rdi\n\t"
                     "call *%[child]\n\t"
                     "hlt\n"
                     "1:"
                     : "=a"(result)
                     : "a"((long)SYS_clone3), "D"(arguments), "S"(sizeof *arguments), [child] "r"(child),
                       [context] "r"(context)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long number __asm__("x8") = SYS_clone3;
    register long result __asm__("x0") = (long)arguments;
    register long size __asm__("x1") = sizeof *arguments;
    __asm__ volatile("svc 0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x0, %[context]\n\t"
                     "blr %[child]\n\t"
                     "brk 0\n"
                     "1:"
                     : "+r"(result)
                     : "r"(number), "r"(size), [child] "r"(child), [context] "r"(context)
                     : "memory");
    return result;
#else
#error "there is no guard for this architecture"
#endif
}

pid_t fork_sharing(struct clone_args arguments, void (*child)(const void *context), const void *context) {
    arguments.flags |= CLONE_VM;
    if (arguments.stack == 0) {
        arguments.stack = (uintptr_t)stack;
        arguments.stack_size = sizeof stack;
    }
    const long result = clone_onto(&arguments, child, context);
    if (result >= 0)
        return (pid_t)result;
    errno = (int)-result;
    return -1;
}
