/* sentinel: the process above a guard, which watches it and ends the run when the guard cannot */
#ifndef HOLDFAST_SENTINEL_H
#define HOLDFAST_SENTINEL_H

/*
 *   owner ──posix_spawn──▶ sentinel ──clone──▶ guard ──▶ the command and everything it starts
 *
 * The owner starts the sentinel. The sentinel reads the spec, makes itself a subreaper, and forks the guard, which has
 * the same descriptors (CLONE_FILES, one table) and the same `struct run` (shared_memory.h). The guard does all the
 * work. The sentinel sleeps until the guard stops, dies, or is late.
 *
 *   - The guard stopped: the sentinel continues it at once. A guard that is stopped over and over is replaced.
 *   - The guard is late: one of its timers is past, and it does not answer a ping either. The sentinel replaces it.
 *   - The guard died: every process of the run has become a child of the sentinel. The sentinel takes the run over, on
 *     the same `struct run`, kills the tree, and proves with ECHILD that it is gone (takeover.h).
 *   - The sentinel stopped: the guard continues it once a second, without looking.
 *   - The sentinel died: the guard goes on, says so in the record, and starts a stand-in (stand_in.h).
 *
 * A ping is SIGCONT, which continues a stopped guard, and SIGNAL_WAKE, for which the guard makes a turn of its loop. So a
 * guard that is well answers it, and a guard that was only frozen with its sentinel (a suspended virtual machine) is
 * well again before anybody judges it.
 *
 * Consequences of the one table: the lock on the journal (a POSIX lock belongs to the table) and the owner's sockets are
 * open until both processes are gone. The sentinel opens no descriptor while the guard lives, because the number of a
 * descriptor may have a meaning to the guard.
 *
 * The writer of a kept run (writer.h) is one more child of the sentinel, and no process of the run. Its exit signal is 0:
 * wait4() without __WALL does not see it, and ECHILD still means that every process of the run is gone. (A process that
 * the kernel gives to a subreaper always has the exit signal SIGCHLD, and so has one that is made with CLONE_PARENT.)
 */

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct run;

#define SIGNAL_WAKE SIGURG /* between sentinel and guard, and from the kernel when the sentinel dies */

/* What the two tell each other, in shared memory. Times are CLOCK_MONOTONIC; 0 means none. */
struct sentinel {
    _Atomic pid_t pid; /* of the sentinel; 0: there is none */
    _Atomic pid_t guard;
    _Atomic bool keeps_run;      /* the guard keeps a run: its journal is open */
    _Atomic bool exits;          /* the guard is about to exit in order */
    _Atomic uint64_t turns;      /* how often the guard was about to sleep */
    _Atomic uint64_t due_ns;     /* when the guard has to do something that bounds the run */
    _Atomic uint64_t sleeps_to_ns; /* when the sentinel looks again by itself */
};

extern struct sentinel *sentinel;

/* Makes the shared part. False: no memory. */
bool sentinel_prepare(void);
/* Forks the guard. True in the guard, and in a process that could fork none and so has to be the guard itself. */
bool sentinel_fork_guard(void);
/* The life of the sentinel, up to the end of its guard or of the run that it took over. Returns the exit code. */
int sentinel_watch(struct run *run, int signals);

/* The guard's side. */
/* Before the guard sleeps: tells what is due, and returns when to wake at the latest. 0: whenever something happens. */
uint64_t sentinel_before_sleep(uint64_t due_ns, uint64_t wake_ns);
/* The parent of the process that the owner started; 0: not known. */
pid_t sentinel_parent(void);
/* The guard is about to exit in order: its sentinel must not stand still then. */
void sentinel_let_go(void);
/* Whether the sentinel has died since the last call. */
bool sentinel_has_died(void);

#endif
