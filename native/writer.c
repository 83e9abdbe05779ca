/* writer: the process that brings a kept journal to its file, so that the guard never waits for a disk */
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdalign.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "descriptors.h"
#include "fork_sharing.h"
#include "journal.h"
#include "procfs.h"
#include "raw_syscall.h"
#include "shared_memory.h"

enum { COPY_AT_ONCE = 128 * 1024, PAGE = 4096, RELEASE_STEP = 256 * 1024, STACK_SIZE = 16 * 1024 };
enum { FIRST_WINDOW = 128 * 1024, WINDOW = 1024 * 1024 };
#define RETRY_NS 100000000u /* how often the writer tries a disk that is full */
#define REAP_NS 200000000u  /* how long a writer that has finished may take to exit */
#define SIGNAL_ORPHANED SIGCONT /* and so the death of its parent continues a writer that somebody has stopped */
#define WRITER_NAME "holdfast-write" /* only as the name of the process: its command line is the sentinel's */

/* ── the writer's side: in the memory of its parent, so it calls nothing that sets errno ──────────────────────── */

static struct writer *self; /* for the signal handler */
static unsigned char copied[COPY_AT_ONCE] __attribute__((aligned(4096)));
static alignas(16) unsigned char stack[STACK_SIZE];

/* The guard continues us, too, when storage has not answered for a while. */
static void continued(int number) {
    (void)number;
    if (RAW_SYSCALL(SYS_getppid, 0) == self->parent)
        return;
    atomic_store(&self->orphaned, true);
    atomic_fetch_add(&self->turns, 1); /* so that a wait which is just beginning does not begin */
}

static void tell_guard(struct writer *writer) {
    atomic_fetch_add(&writer->news, 1);
    if (atomic_exchange(&writer->asks, false))
        RAW_SYSCALL(SYS_futex, (long)&writer->news, FUTEX_WAKE, 1);
}

static void begin_call(struct writer *writer) {
    if (atomic_load(&writer->busy_ns) == 0)
        atomic_store(&writer->busy_ns, clock_now());
}

/* Storage has answered. An answer that it had no room does not end the wait. */
static void end_call(struct writer *writer, bool done) {
    if (!done)
        return;
    const uint64_t since = atomic_exchange(&writer->busy_ns, 0), now = clock_now();
    if (since > 0 && now - since >= WRITER_STALL_NS)
        atomic_fetch_add(&writer->stalled_ns, now - since);
    if (atomic_load(&writer->error) != EFBIG)
        atomic_store(&writer->error, 0);
}

/* Copies memory to the file up to `to`. Returns 0, or the errno of storage that refuses. */
static int copy(struct writer *writer, uint64_t to) {
    uint64_t at = atomic_load(&writer->committed);
    while (at < to) {
        const size_t wanted = to - at < sizeof copied ? (size_t)(to - at) : sizeof copied;
        const long got = RAW_SYSCALL(SYS_pread64, writer->memory, (long)copied, (long)wanted, (long)at);
        if (got <= 0)
            return EIO; /* memory does not fail */
        begin_call(writer);
        const long written = RAW_SYSCALL(SYS_pwrite64, writer->file, (long)copied, got, (long)at);
        end_call(writer, written > 0);
        if (written == -EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? (int)-written : EIO;
        at += (uint64_t)written;
        atomic_store(&writer->committed, at);
    }
    return 0;
}

/* Everything before this frame is in the file. In steps: a short record stays in memory, for owners that need it. */
static void give_memory_back(struct writer *writer, uint64_t frame) {
    const uint64_t from = writer->released_to, to = frame & ~(uint64_t)(PAGE - 1);
    if (to < from + RELEASE_STEP || atomic_load(&writer->finished)) /* owners may read a finished one */
        return;
    atomic_store(&writer->kept_from, frame);
    if (RAW_SYSCALL(SYS_fallocate, writer->memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (long)from,
                    (long)(to - from)) == 0)
        writer->released_to = to;
}

/* Reserves room on the disk for output up to `to`, and for facts after it. A file system may not know how: 0, too. */
static int reserve(struct writer *writer, uint64_t to) {
    const uint64_t from = atomic_load(&writer->committed), wanted = to + JOURNAL_FACTS_ROOM;
    if (wanted <= writer->reserved_to)
        return 0;
    begin_call(writer);
    long result;
    do /* a signal continues us, whether we are stopped or not */
        result = RAW_SYSCALL(SYS_fallocate, writer->file, FALLOC_FL_KEEP_SIZE, (long)from, (long)(wanted - from));
    while (result == -EINTR);
    const bool refused = result == -ENOSPC || result == -EDQUOT || result == -EFBIG;
    end_call(writer, !refused || from == atomic_load(&writer->appended)); /* nothing waits that is not in the file */
    if (result == 0)
        writer->reserved_to = wanted;
    return refused ? (int)-result : 0;
}

/* Grants more output when half of the last grant is used up. */
static void grant(struct writer *writer) {
    const uint64_t committed = atomic_load(&writer->committed), granted = atomic_load(&writer->granted);
    const uint64_t window = committed - writer->begin < FIRST_WINDOW ? FIRST_WINDOW : WINDOW;
    const uint64_t most = writer->size_limit > JOURNAL_FACTS_ROOM ? writer->size_limit - JOURNAL_FACTS_ROOM : 0;
    uint64_t to = committed + window < most ? committed + window : most;
    if (to == most && to <= granted)
        atomic_store(&writer->error, EFBIG); /* there will never be more */
    if (granted >= committed + window / 2 || to <= granted)
        return;
    int error = reserve(writer, to);
    if (error != 0 && committed + PAGE < to) { /* a disk that is almost full may still have room for a little */
        to = committed + PAGE;
        error = to <= granted ? error : reserve(writer, to);
    }
    if (error == 0 && to > granted)
        atomic_store(&writer->granted, to);
    atomic_store(&writer->error, error);
}

/*
 * END is in the file. Says behind it how long recording had stood still, and gives back the reserved room that was not
 * needed. If either fails, the record is whole all the same.
 */
static void complete(struct writer *writer, uint64_t length) {
    unsigned char frame[sizeof(struct frame) + sizeof(struct fact_recording_stalled)];
    const struct fact_recording_stalled stalled = {.for_ns = atomic_exchange(&writer->stalled_ns, 0)};
    const size_t size = journal_encode(frame, FACT_RECORDING_STALLED, &stalled, sizeof stalled);
    const bool tells = stalled.for_ns > 0;
    if (tells && RAW_SYSCALL(SYS_pwrite64, writer->file, (long)frame, (long)size, (long)length) == (long)size)
        length += size;
    if (tells || writer->reserved_to > length)
        RAW_SYSCALL(SYS_ftruncate, writer->file, (long)length);
}

/* One pass over all that the guard has told. True: it is all in the file. */
static bool catch_up(struct writer *writer) {
    const uint64_t appended = atomic_load(&writer->appended), end_at = atomic_load(&writer->end_at);
    const bool ends = end_at > 0 && end_at < appended;
    if (atomic_load(&writer->committed) == appended)
        return true;
    if (ends && writer->directory >= 0) { /* before END is in the file: a run that has ended has no socket */
        begin_call(writer);
        RAW_SYSCALL(SYS_unlinkat, writer->directory, (long)"guard.sock", 0);
        end_call(writer, true);
        writer->directory = -1;
    }
    const int error = copy(writer, appended);
    if (error != 0) {
        atomic_store(&writer->error, error);
        return false;
    }
    if (ends)
        complete(writer, appended);
    give_memory_back(writer, appended);
    return true;
}

/* Makes the hole that the guard asks for. On a full disk, too: it gives room back. */
static void take_out(struct writer *writer) {
    const uint32_t asked = atomic_load(&writer->take_outs);
    if (asked == atomic_load(&writer->taken_out))
        return;
    begin_call(writer);
    if (atomic_load(&writer->holes) == HOLES_UNKNOWN)
        atomic_store(&writer->holes, take_out_probe(writer->file) ? HOLES_MADE : HOLES_REFUSED);
    else
        take_out_perform(writer->file, &writer->take_out);
    end_call(writer, atomic_load(&writer->error) == 0);
    atomic_store(&writer->taken_out, asked);
}

static void sleep_until_told(struct writer *writer, uint32_t seen, bool again_soon) {
    const struct timespec timeout = {0, RETRY_NS};
    atomic_store(&writer->asleep, true);
    if (atomic_load(&writer->turns) == seen)
        RAW_SYSCALL(SYS_futex, (long)&writer->turns, FUTEX_WAIT, (long)seen, again_soon ? (long)&timeout : 0L);
    atomic_store(&writer->asleep, false);
}

static bool is_removed(const struct writer *writer) {
    struct stat status;
    return fstat(writer->file, &status) == 0 && status.st_nlink == 0; /* it cannot fail: the file is open */
}

static _Noreturn void keep_writing(struct writer *writer) {
    struct storage told = {0};
    grant(writer); /* before the start is in the file: the room for facts is reserved when the command runs */
    for (;;) {
        const uint32_t seen = atomic_load(&writer->turns);
        const bool last = atomic_load(&writer->finished) || atomic_load(&writer->orphaned);
        const bool done = catch_up(writer);
        take_out(writer);
        if (!last && done)
            grant(writer);
        const struct storage now = writer_storage(writer);
        if (now.committed != told.committed || now.granted != told.granted || now.taken_out != told.taken_out ||
            now.error != told.error)
            tell_guard(writer);
        told = now;
        if (last && (done || is_removed(writer)))
            _exit(0);
        sleep_until_told(writer, seen, !done);
    }
}

/* Nothing that is called here can fail. */
static void become_writer(const void *context) {
    struct writer *writer = (struct writer *)(uintptr_t)context;
    const struct sigaction action = {.sa_handler = continued};
    sigset_t others;
    sigfillset(&others);
    sigdelset(&others, SIGNAL_ORPHANED);
    sigaction(SIGNAL_ORPHANED, &action, NULL);
    sigprocmask(SIG_SETMASK, &others, NULL);
    prctl(PR_SET_NAME, WRITER_NAME);
    prctl(PR_SET_PDEATHSIG, SIGNAL_ORPHANED);
    if (getppid() != writer->parent)
        atomic_store(&writer->orphaned, true);
    keep_writing(writer);
}

/* ── the guard's side ─────────────────────────────────────────────────────────────────────────────────────────── */

static pid_t fork_copying(struct clone_args arguments, const struct writer *writer) {
    const long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid == 0)
        become_writer(writer);
    return (pid_t)pid;
}

/* The exit signal is 0: see writer.h. */
static bool fork_writer(struct writer *writer) {
    int process = -1;
    struct clone_args arguments = {.flags = CLONE_FILES | CLONE_PIDFD, .pidfd = (uintptr_t)&process};
    self = writer;
    writer->parent = getpid();
    writer->pid = writer->process = -1;
    atomic_store(&writer->orphaned, false);
    if (FORK_MAY_SHARE) {
        arguments.stack = (uintptr_t)stack;
        arguments.stack_size = sizeof stack;
    }
    const pid_t pid =
        FORK_MAY_SHARE ? fork_sharing(arguments, become_writer, writer) : fork_copying(arguments, writer);
    if (pid < 0)
        return false;
    if (!raise_descriptor(&process)) { /* without its pidfd nobody would know whether it lives */
        close(process);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, __WALL);
        return false;
    }
    writer->pid = pid;
    writer->process = process;
    return true;
}

void writer_revive(struct writer *writer) {
    struct pollfd exited = {writer->process, POLLIN, 0};
    if (writer->process >= 0 && poll(&exited, 1, 0) == 0 && !is_being_killed(writer->pid)) {
        syscall(SYS_pidfd_send_signal, writer->process, SIGCONT, NULL, 0);
        return;
    }
    if (writer->process >= 0)
        close(writer->process);
    if (writer->pid > 0)
        waitpid(writer->pid, NULL, __WALL | WNOHANG); /* it may be another process's child */
    fork_writer(writer);
}

void writer_reap(struct writer *writer) {
    struct pollfd exited = {writer->process, POLLIN, 0};
    if (writer->pid <= 0 || writer->parent != getpid() || atomic_load(&writer->committed) < atomic_load(&writer->appended))
        return; /* it stays until storage is back, and its next parent reaps it */
    const struct timespec timeout = {0, REAP_NS};
    if (ppoll(&exited, 1, &timeout, NULL) == 0)
        kill(writer->pid, SIGKILL); /* somebody has stopped it; it has nothing left to do */
    waitpid(writer->pid, NULL, __WALL);
}

bool writer_has_exited(const struct writer *writer) {
    struct pollfd exited = {writer->process, POLLIN, 0};
    const struct timespec timeout = {0, REAP_NS};
    if (writer->process < 0 || ppoll(&exited, 1, &timeout, NULL) > 0)
        return true;
    syscall(SYS_pidfd_send_signal, writer->process, SIGKILL, NULL, 0);
    return ppoll(&exited, 1, &timeout, NULL) > 0;
}

struct writer *writer_start(int file, int directory, uint64_t begin, uint64_t size_limit) {
    struct writer *writer = shared_memory(sizeof *writer);
    if (writer == NULL)
        return NULL;
    writer->file = file;
    writer->directory = directory;
    writer->begin = begin;
    writer->size_limit = size_limit;
    writer->appended = writer->committed = writer->kept_from = writer->granted = begin;
    writer->memory = memfd_create("journal", MFD_CLOEXEC);
    if (writer->memory < 0)
        return NULL;
    if (!raise_descriptor(&writer->memory) || !fork_writer(writer)) {
        close(writer->memory);
        return NULL;
    }
    return writer;
}

struct storage writer_storage(const struct writer *writer) {
    return (struct storage){atomic_load(&writer->committed), atomic_load(&writer->granted),
                            atomic_load(&writer->taken_out), atomic_load(&writer->error)};
}

void writer_tell(struct writer *writer) {
    atomic_fetch_add(&writer->turns, 1);
    if (atomic_load(&writer->asleep))
        syscall(SYS_futex, &writer->turns, FUTEX_WAKE, 1);
}

bool writer_takes_out(const struct writer *writer) {
    return atomic_load(&writer->holes) == HOLES_MADE &&
           atomic_load(&writer->taken_out) == atomic_load(&writer->take_outs);
}

void writer_take_out(struct writer *writer, const struct take_out *request) {
    if (request != NULL)
        writer->take_out = *request;
    atomic_fetch_add(&writer->take_outs, 1);
    writer_tell(writer);
}

bool writer_await(struct writer *writer, uint32_t seen, uint64_t until_ns) {
    for (;;) {
        atomic_store(&writer->asks, true);
        if (atomic_load(&writer->news) != seen)
            return true;
        const uint64_t now = clock_now();
        if (now >= until_ns)
            return false;
        const uint64_t left = until_ns - now;
        const struct timespec timeout = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
        syscall(SYS_futex, &writer->news, FUTEX_WAIT, seen, &timeout);
    }
}

uint64_t writer_busy_for(const struct writer *writer, uint64_t now) {
    const uint64_t since = atomic_load(&writer->busy_ns);
    return since > 0 && now > since ? now - since : 0;
}
