/* journal: the append-only record of a run; the guard is its only writer */
#include "journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "clock.h"

enum { FACTS_ROOM = 32 * 1024, RESERVE_STEP = 128 * 1024 };
#define PAGE_MASK 4095u

/* CRC-32 as zlib computes it, half a byte at a time: facts are small, and a table of 64 bytes is enough. */
static uint32_t crc32(uint32_t crc, const void *data, size_t length) {
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    const unsigned char *byte = data;
    crc = ~crc;
    for (size_t i = 0; i < length; i++) {
        crc = (crc >> 4) ^ table[(crc ^ byte[i]) & 15];
        crc = (crc >> 4) ^ table[(crc ^ (byte[i] >> 4)) & 15];
    }
    return ~crc;
}

static uint32_t frame_check(const struct frame *frame, const void *payload, size_t covered) {
    const unsigned char *bytes = (const unsigned char *)frame;
    const size_t type = offsetof(struct frame, type), check = offsetof(struct frame, check);
    uint32_t crc = crc32(0, bytes + type, check - type);
    crc = crc32(crc, &frame->at_ns, sizeof frame->at_ns);
    return crc32(crc, payload, covered);
}

static struct frame frame_make(uint16_t type, size_t length) {
    return (struct frame){.mark = FRAME_MARK, .type = type, .length = (uint32_t)length, .at_ns = clock_boot()};
}

/* Reserves `needed` bytes, and room for facts after them. */
static bool reserve(struct journal *journal, size_t needed) {
    const uint64_t from = journal->length, wanted = from + needed + FACTS_ROOM;
    if (wanted > journal->size_limit) { /* not every file system asks for this limit when it reserves room */
        errno = EFBIG;
        return false;
    }
    if (!journal->on_disk || wanted <= journal->reserved_to)
        return true;
    for (uint64_t ahead = RESERVE_STEP;; ahead = 0) { /* a disk that is almost full may still have room for facts */
        if (fallocate(journal->fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(wanted + ahead - from)) == 0) {
            journal->reserved_to = wanted + ahead;
            return true;
        }
        if (errno != ENOSPC && errno != EDQUOT && errno != EFBIG)
            return true; /* a file system that cannot reserve: the write will tell */
        if (ahead == 0)
            return false;
    }
}

bool journal_open(struct journal *journal, int fd) {
    /*
     * The first byte is the guard's. A POSIX lock belongs to this process: the command that we fork never holds it, and
     * the kernel drops it when we die. The second byte is the launcher's, which locks it on the open file that we
     * inherit. So there is no moment between the two in which a reader could take a starting run for a lost one.
     */
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    struct stat status;
    if (fcntl(fd, F_SETLK, &lock) < 0 || fstat(fd, &status) < 0)
        return false;
    journal->fd = fd;
    journal->length = (uint64_t)status.st_size;
    journal->on_disk = status.st_nlink > 0; /* a memfd has no name */
    struct rlimit limit;
    journal->size_limit = getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : UINT64_MAX;
    reserve(journal, 0); /* room for facts; if there is none, the write will tell */
    return true;
}

/* Whether a whole frame of output is at the end. Facts are whole, or still in `pending`: see journal_flush. */
static bool next_output(const struct journal *journal, uint64_t size, struct frame *frame) {
    return pread(journal->fd, frame, sizeof *frame, (off_t)journal->length) == (ssize_t)sizeof *frame &&
           frame->mark == FRAME_MARK && frame->type == FACT_OUTPUT && frame->check == frame_check(frame, "", 0) &&
           frame->length <= size - journal->length - sizeof *frame;
}

/* The facts in a row of whole frames; stops at a frame that is not whole. */
static size_t whole_facts(const unsigned char *bytes, size_t length) {
    struct frame frame;
    size_t at = 0;
    while (length - at >= sizeof frame) {
        memcpy(&frame, bytes + at, sizeof frame);
        if (frame.mark != FRAME_MARK || frame.length > length - at - sizeof frame ||
            frame.check != frame_check(&frame, bytes + at + sizeof frame, frame.length))
            break;
        at += sizeof frame + frame.length;
    }
    return at;
}

void journal_take_over(struct journal *journal) {
    struct stat status;
    struct frame frame;
    if (journal->pending_length > sizeof journal->pending)
        journal->pending_length = 0;
    journal->pending_length = whole_facts(journal->pending, journal->pending_length);
    if (journal->pending_length > 0 || fstat(journal->fd, &status) < 0)
        return; /* what the guard may have written beyond `length` is the same bytes: the next write covers them */
    unsigned char facts[sizeof journal->pending];
    const ssize_t got = pread(journal->fd, facts, sizeof facts, (off_t)journal->length);
    const size_t whole = got <= 0 ? 0 : whole_facts(facts, (size_t)got);
    if (whole > 0)
        journal->length += whole;
    else if (next_output(journal, (uint64_t)status.st_size, &frame))
        journal->length += sizeof frame + frame.length;
    if ((uint64_t)status.st_size > journal->length && ftruncate(journal->fd, (off_t)journal->length) == 0)
        journal->reserved_to = 0;
}

static bool write_whole(struct journal *journal, const void *head, size_t head_length, const void *body,
                        size_t body_length) {
    size_t done = 0;
    const size_t total = head_length + body_length;
    while (done < total) {
        size_t from_head = done < head_length ? done : head_length;
        size_t from_body = done - from_head;
        struct iovec parts[2] = {
            {(char *)(uintptr_t)head + from_head, head_length - from_head},
            {(char *)(uintptr_t)body + from_body, body_length - from_body},
        };
        ssize_t written = pwritev(journal->fd, parts, 2, (off_t)(journal->length + done));
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            if (journal->error == 0)
                journal->error = written < 0 ? errno : EIO;
            /* Half a frame must not remain after the next, shorter one. */
            if (ftruncate(journal->fd, (off_t)journal->length) == 0)
                journal->reserved_to = 0; /* that gave the reserved room back, too */
            return false;
        }
        done += (size_t)written;
    }
    journal->pending_length = 0; /* before the length: a sentinel that takes over must not find both (see above) */
    atomic_signal_fence(memory_order_seq_cst);
    journal->length += total;
    return true;
}

void journal_flush(struct journal *journal) {
    if (journal->pending_length == 0)
        return;
    /* A failure leaves the facts in `pending`, in order, for the next try. */
    write_whole(journal, journal->pending, journal->pending_length, NULL, 0);
}

void journal_fact_text(struct journal *journal, enum fact type, const void *payload, size_t length, const char *text,
                       size_t text_length) {
    struct frame frame = frame_make((uint16_t)type, length + text_length);
    size_t size = sizeof frame + length + text_length;
    if (journal->pending_length + size > sizeof journal->pending)
        journal_flush(journal);
    if (journal->pending_length + size > sizeof journal->pending)
        return; /* the disk has been full for 8 KiB of facts: the end of the run records journal->error */
    unsigned char *at = journal->pending + journal->pending_length;
    memcpy(at + sizeof frame, payload, length);
    memcpy(at + sizeof frame + length, text, text_length);
    frame.check = frame_check(&frame, at + sizeof frame, length + text_length);
    memcpy(at, &frame, sizeof frame);
    atomic_signal_fence(memory_order_seq_cst); /* a sentinel that takes over finds whole facts */
    journal->pending_length += size;
    journal->ended = journal->ended || type == FACT_END;
}

void journal_fact(struct journal *journal, enum fact type, const void *payload, size_t length) {
    journal_fact_text(journal, type, payload, length, "", 0);
}

bool journal_output(struct journal *journal, uint8_t stream, uint8_t flags, const void *data, size_t length) {
    journal_flush(journal);
    if (journal->pending_length > 0)
        return false;
    struct frame frame = frame_make(FACT_OUTPUT, length);
    frame.stream = stream;
    frame.flags = flags;
    frame.check = frame_check(&frame, "", 0);
    if (!reserve(journal, sizeof frame + length)) {
        if (journal->error == 0)
            journal->error = errno;
        return false;
    }
    return write_whole(journal, &frame, sizeof frame, data, length);
}

void journal_release(struct journal *journal, uint64_t consumed) {
    if (journal->on_disk || consumed > journal->length)
        return;
    uint64_t to = consumed & ~(uint64_t)PAGE_MASK;
    if (to <= journal->released_to)
        return;
    if (fallocate(journal->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)journal->released_to,
                  (off_t)(to - journal->released_to)) == 0)
        journal->released_to = to;
}

void journal_close(struct journal *journal) {
    journal_flush(journal);
    const bool has_spare_room = journal->on_disk && journal->reserved_to > journal->length;
    if (has_spare_room && ftruncate(journal->fd, (off_t)journal->length) < 0)
        return; /* the room stays reserved, but the record is whole */
}
