/* without_calls NUMBER[,NUMBER...] PROGRAM [ARG]...: runs PROGRAM on a kernel that seems to lack these system calls. */
#include "child.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#define CALLS_MAX 16

int main(int argc, char **argv)
{
    struct sock_filter program[2 * CALLS_MAX + 2];
    unsigned short length = 0;
    if (argc < 3)
        die("usage");
    program[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (char *at = strtok(argv[1], ","); at != NULL && length < 2 * CALLS_MAX; at = strtok(NULL, ",")) {
        program[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(at), 0, 1);
        program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
    }
    program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {length, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        die("seccomp");
    execvp(argv[2], argv + 2);
    die(argv[2]);
}
