/* writer: the process that brings a kept journal to its file, so that the guard never waits for a disk */
#ifndef HOLDFAST_WRITER_H
#define HOLDFAST_WRITER_H

/*
 * A file system may stop answering: a frozen one, a dead server. A process that writes there then sleeps, and not even
 * SIGKILL wakes it. So for a journal that is a file, the guard writes frames to a memfd, at the offsets that they will
 * have in the file. The writer, a process of its own, copies them over and says how far it has come (`committed`).
 *
 *   guard ──frames──▶ memfd ──▶ writer ──▶ the journal's file
 *
 *   - Not a thread: a thread that sleeps there would keep a killed guard half alive. Not a usual child either: ECHILD is
 *     the proof that the tree is gone. The writer's exit signal is 0, so wait4() without __WALL does not see it.
 *   - It shares the memory of its parent, the sentinel (fork_sharing.h): a fork would copy page tables, and then pages.
 *     So all that it writes is `struct writer`, its stack and one buffer.
 *   - As long as storage answers, the guard waits on a futex for it, as it would wait in pwritev(). When storage has not
 *     answered for a tenth of a second, the guard goes on, and looks ten times a second whether it does again.
 *   - The memory is bounded. Output goes only up to `granted`: the writer reserves room on the disk first, then grants
 *     it. While there is no room the guard does not read, and the command waits as with any pipe that is full. On a full
 *     disk (`error`) the guard reads and drops. Facts need no grant; they are few.
 *   - The memory before `kept_from` is given back. It never holds a part of a frame that is not in the file as a whole.
 *   - All writes have explicit offsets. A writer that was killed can be replaced: the next one writes the same bytes to
 *     the same places.
 *   - Output that is taken out of the journal (roll.h) is taken out by the writer, which also knows whether it can be.
 *   - A writer whose parent has died writes what is there, and exits.
 *   - When the run has ended and the file system still hangs, guard and sentinel exit; the writer stays, with the rest in
 *     memory. It has the guard's descriptors (CLONE_FILES), and so the lock on the journal: no reader takes the run for a
 *     lost one. When storage is back, it writes the rest, and behind END how long recording had stood still.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "take_out.h"

enum writer_holes { HOLES_UNKNOWN, HOLES_MADE, HOLES_REFUSED };

/* How far the file of a journal has come: see struct writer. */
struct storage {
    uint64_t committed, granted;
    uint32_t taken_out;
    int error;
};

/* In memory that guard, sentinel and writer share. Offsets are those of the journal. Times are CLOCK_MONOTONIC. */
struct writer {
    int file;
    int directory; /* of guard.sock, which has to go before END is in the file; -1: none, or it is gone */
    int memory;    /* memfd: what may not be in the file yet */
    int process;   /* pidfd of the writer */
    pid_t pid;
    pid_t parent;
    uint64_t begin;      /* where the guard's first frame goes */
    uint64_t size_limit; /* RLIMIT_FSIZE */
    /* The guard tells. */
    _Atomic uint64_t appended; /* whole frames are in memory up to here */
    _Atomic uint64_t end_at;   /* where END begins; 0: it is not there yet */
    _Atomic bool finished;     /* nothing more comes */
    _Atomic bool asks;         /* the guard waits for `news` */
    _Atomic uint32_t turns;    /* a futex: how often the guard has told something */
    _Atomic uint32_t take_outs; /* how often the guard has asked for a hole; the first time, whether there can be one */
    struct take_out take_out;  /* the last of them; the guard changes it when that one is done */
    /* The writer tells. */
    _Atomic bool asleep;
    _Atomic bool orphaned;       /* its parent has died */
    _Atomic uint32_t news;       /* a futex: how often one of `committed`, `granted` and `error` has changed */
    _Atomic uint64_t committed;  /* the file has everything up to here */
    _Atomic uint64_t kept_from;  /* the memory has everything from here */
    _Atomic uint64_t granted;    /* output may go up to here */
    _Atomic uint32_t taken_out;  /* so many holes are made */
    _Atomic int holes;           /* enum writer_holes */
    _Atomic int error;           /* errno of storage that refuses; 0: it does not */
    _Atomic uint64_t busy_ns;    /* since when the writer has waited for storage; 0: it does not wait */
    _Atomic uint64_t stalled_ns; /* how long storage had not answered when it did again; 0: nothing to tell */
    uint64_t reserved_to;        /* the room up to this offset is reserved on disk */
    uint64_t released_to;        /* the memory before this offset was given back to the kernel */
};

/* A writer that is busy with one call for this long has met storage that hangs, or that is as good as hanging. */
#define WRITER_STALL_NS 500000000u

/*
 * Prepares the memory and starts a writer for the journal behind `file`, whose first free offset is `begin`. NULL: there
 * is no memory, descriptor or process for it. The guard then writes to the file itself, as well as it can.
 */
struct writer *writer_start(int file, int directory, uint64_t begin, uint64_t size_limit);
/*
 * Starts another writer when the last one has died, or will die as soon as storage lets it, and continues one that
 * somebody has stopped.
 */
void writer_revive(struct writer *writer);
/* Reaps a writer that has written everything, if it is our child. A writer that waits for storage is left alone. */
void writer_reap(struct writer *writer);

/* Waits until a writer that has written everything is gone, and kills one that somebody has stopped. */
bool writer_has_exited(const struct writer *writer);

/* The guard has changed `appended`, `finished`, or wants the writer to try again. */
void writer_tell(struct writer *writer);
/* Waits until `news` is no longer `seen`, at most until `until_ns`. False: there is no news. */
bool writer_await(struct writer *writer, uint32_t seen, uint64_t until_ns);
struct storage writer_storage(const struct writer *writer);
/* Asks for a hole in the file; NULL: whether it can have one. Not before the last request is done. */
void writer_take_out(struct writer *writer, const struct take_out *request);
/* Whether holes can be made, and the last one is. */
bool writer_takes_out(const struct writer *writer);
/* How long the writer has been waiting for storage that does not answer, or that refuses. */
uint64_t writer_busy_for(const struct writer *writer, uint64_t now);

#endif
