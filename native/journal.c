/* journal: the append-only record of a run, which only the guard makes */
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
#include "take_out.h"
#include "writer.h"

enum { RESERVE_STEP = 128 * 1024, MEMORY_MAX = 8 << 20 };
#define HANGS_NS 200000000u /* storage that has not answered for so long hangs */
#define COMMIT_WAIT_NS 100000000u /* how long the guard waits for storage before it goes on without it */
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

/*
 * Up to where output may go. Room that the disk has not promised is used only while the disk hangs: on a full disk such
 * output could never be written, and the end of the record would wait behind it.
 */
static uint64_t output_limit(const struct journal *journal) {
    const struct writer *writer = journal->writer;
    const bool hangs = atomic_load(&writer->error) == 0 && writer_busy_for(writer, clock_now()) >= HANGS_NS;
    return atomic_load(&writer->granted) + (hangs ? journal->beyond : 0);
}

/* Whether output may go up to this offset. The writer has reserved the room for it, or nobody waits for that any more. */
static bool may_append(struct journal *journal, uint64_t to) {
    const struct writer *writer = journal->writer;
    if (to <= output_limit(journal))
        return true;
    const int error = atomic_load(&writer->error);
    errno = error == 0 ? ETIME : error;
    writer_tell(journal->writer); /* it tries again: the disk may have room now */
    return false;
}

/* Reserves `needed` bytes, and room for facts after them. */
static bool reserve(struct journal *journal, size_t needed) {
    const uint64_t from = journal->length, wanted = from + needed + JOURNAL_FACTS_ROOM;
    if (wanted > journal->size_limit) { /* not every file system asks for this limit when it reserves room */
        errno = EFBIG;
        return false;
    }
    if (journal->writer != NULL)
        return may_append(journal, from + needed);
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

static uint64_t size_limit(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : UINT64_MAX;
}

void journal_start_writer(struct journal *journal, int fd, int directory) {
    struct stat status;
    if (fstat(fd, &status) == 0 && status.st_nlink > 0) /* a memfd has no name */
        journal->writer = writer_start(fd, directory, (uint64_t)status.st_size, size_limit());
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
    journal->fd = journal->writer == NULL ? fd : journal->writer->memory;
    journal->length = (uint64_t)status.st_size;
    journal->on_disk = status.st_nlink > 0; /* a memfd has no name */
    journal->given_up_at = UINT64_MAX;
    journal->size_limit = size_limit();
    reserve(journal, 0); /* room for facts; if there is none, the write will tell */
    return true;
}

static void tell_writer(struct journal *journal) {
    if (journal->writer == NULL)
        return;
    atomic_store(&journal->writer->appended, journal->length);
    writer_tell(journal->writer);
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
    tell_writer(journal);
}

/* Writes so many bytes behind the end, but does not say so yet. */
static bool put(struct journal *journal, size_t behind, const void *head, size_t head_length, const void *body,
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
        ssize_t written = pwritev(journal->fd, parts, 2, (off_t)(journal->length + behind + done));
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
    return true;
}

static void advance(struct journal *journal, size_t total) {
    journal->pending_length = 0; /* before the length: a sentinel that takes over must not find both (see above) */
    atomic_signal_fence(memory_order_seq_cst);
    journal->length += total;
    tell_writer(journal);
}

static bool write_whole(struct journal *journal, const void *head, size_t head_length, const void *body,
                        size_t body_length) {
    if (!put(journal, 0, head, head_length, body, body_length))
        return false;
    advance(journal, head_length + body_length);
    return true;
}

void journal_flush(struct journal *journal) {
    if (journal->pending_length == 0)
        return;
    /* A failure leaves the facts in `pending`, in order, for the next try. */
    write_whole(journal, journal->pending, journal->pending_length, NULL, 0);
}

/* Whether memory is full of what storage does not take. Facts that a run may have any number of are left out then. */
static bool is_flooded(const struct journal *journal, enum fact type) {
    const bool repeats = type == FACT_STOPPED || type == FACT_CONTINUED || type == FACT_SIGNALLED ||
                         type == FACT_WARNED || type == FACT_OWNER_CAME || type == FACT_EXTENDED;
    return repeats && journal->length - journal_committed(journal) > MEMORY_MAX;
}

void journal_fact_text(struct journal *journal, enum fact type, const void *payload, size_t length, const char *text,
                       size_t text_length) {
    if (journal->ended)
        return; /* END is the last word: while storage takes it, an owner may come and a sentinel may die */
    if (is_flooded(journal, type)) {
        journal->error = journal->error == 0 ? ETIME : journal->error;
        return;
    }
    struct frame frame = frame_make((uint16_t)type, length + text_length);
    size_t size = sizeof frame + length + text_length;
    if (journal->pending_length + size > sizeof journal->pending)
        journal_flush(journal);
    if (journal->pending_length + size > sizeof journal->pending)
        return; /* the disk has been full for 8 KiB of facts: the end of the run records journal->error */
    if (type == FACT_END)
        journal->end_at = journal->length + journal->pending_length;
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

static struct frame output_frame(uint8_t stream, uint8_t flags, uint64_t at_ns, size_t length) {
    struct frame frame = frame_make(FACT_OUTPUT, length);
    frame.at_ns = at_ns;
    frame.stream = stream;
    frame.flags = flags;
    frame.check = frame_check(&frame, "", 0);
    return frame;
}

bool journal_output(struct journal *journal, uint8_t stream, uint8_t flags, uint64_t at_ns, const void *data,
                    size_t length) {
    journal_flush(journal);
    if (journal->pending_length > 0)
        return false;
    const struct frame frame = output_frame(stream, flags, at_ns, length);
    if (!reserve(journal, sizeof frame + length)) {
        if (journal->error == 0)
            journal->error = errno;
        return false;
    }
    return write_whole(journal, &frame, sizeof frame, data, length);
}

ssize_t journal_move(struct journal *journal, int pipe, size_t most) {
    journal_flush(journal);
    if (journal->pending_length > 0 || !reserve(journal, sizeof(struct frame) + most)) {
        errno = ENOSPC;
        return -1;
    }
    loff_t to = (loff_t)(journal->length + sizeof(struct frame));
    return splice(pipe, NULL, journal->fd, &to, most, SPLICE_F_NONBLOCK);
}

/*
 * A reader takes the zeros in the place of the frame for a torn tail. The kernel copies page by page, and may let others
 * run between two pages: so the mark, which says that there is a frame, comes after all else of it.
 */
bool journal_moved(struct journal *journal, uint8_t stream, uint8_t flags, size_t length) {
    const struct frame frame = output_frame(stream, flags, clock_boot(), length);
    const size_t mark = sizeof frame.mark;
    if (!put(journal, mark, (const char *)&frame + mark, sizeof frame - mark, NULL, 0) ||
        !put(journal, 0, &frame, mark, NULL, 0))
        return false;
    advance(journal, sizeof frame + length);
    return true;
}

void journal_complete_move(struct journal *journal, uint8_t stream, uint8_t flags) {
    struct stat status;
    struct frame frame;
    const uint64_t body = journal->length + sizeof frame;
    if (fstat(journal->fd, &status) < 0 || (uint64_t)status.st_size <= body)
        return;
    if (next_output(journal, (uint64_t)status.st_size, &frame))
        advance(journal, sizeof frame + frame.length); /* readers may have seen it: it is not written again */
    else
        journal_moved(journal, stream, flags, (size_t)((uint64_t)status.st_size - body));
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

void journal_prepare_take_out(struct journal *journal) {
    if (journal->writer != NULL)
        writer_take_out(journal->writer, NULL);
    else
        journal->cannot_take_out = !take_out_probe(journal->fd);
}

bool journal_cannot_take_out(const struct journal *journal) {
    return journal->writer == NULL ? journal->cannot_take_out : atomic_load(&journal->writer->holes) == HOLES_REFUSED;
}

bool journal_takes_out(const struct journal *journal) {
    return journal->writer == NULL ? !journal->cannot_take_out : writer_takes_out(journal->writer);
}

void journal_take_out(struct journal *journal, const struct journal_gap *gap) {
    const struct take_out request = take_out_make(gap);
    if (journal->writer != NULL)
        writer_take_out(journal->writer, &request);
    else
        take_out_perform(journal->fd, &request);
}

void journal_close(struct journal *journal) {
    if (journal->writer != NULL) { /* before the flush tells it of END */
        atomic_store(&journal->writer->end_at, journal->end_at);
        atomic_store(&journal->writer->finished, true);
    }
    journal_flush(journal);
    if (journal->writer != NULL)
        return;
    const bool has_spare_room = journal->on_disk && journal->reserved_to > journal->length;
    if (has_spare_room && ftruncate(journal->fd, (off_t)journal->length) < 0)
        return; /* the room stays reserved, but the record is whole */
}

/* ── what the file has ────────────────────────────────────────────────────────────────────────────────────────── */

size_t journal_encode(unsigned char *to, enum fact type, const void *payload, size_t length) {
    struct frame frame = frame_make((uint16_t)type, length);
    frame.check = frame_check(&frame, payload, length);
    memcpy(to, &frame, sizeof frame);
    memcpy(to + sizeof frame, payload, length);
    return sizeof frame + length;
}

uint64_t journal_room(const struct journal *journal) {
    const struct writer *writer = journal->writer;
    if (writer == NULL || atomic_load(&writer->error) != 0)
        return UINT64_MAX; /* a full disk: what is read is dropped, and counted */
    const uint64_t to = output_limit(journal);
    /* What is read may become two frames: on time, and late. */
    const uint64_t used = journal->length + journal->pending_length + 2 * sizeof(struct frame);
    return to > used ? to - used : 0;
}

uint64_t journal_committed(const struct journal *journal) {
    return journal->writer == NULL ? journal->length : atomic_load(&journal->writer->committed);
}

uint32_t journal_news(const struct journal *journal) {
    return journal->writer == NULL ? 0 : atomic_load(&journal->writer->news);
}

/* As journal_await_news(), with a bound that several waits share. */
static bool await_until(struct journal *journal, uint32_t seen, uint64_t until_ns) {
    if (journal_news(journal) != seen)
        return true;
    if (seen == journal->given_up_at)
        return false;
    if (writer_await(journal->writer, seen, until_ns))
        return true;
    journal->given_up_at = seen;
    return false;
}

bool journal_await_news(struct journal *journal, uint32_t seen) {
    return await_until(journal, seen, clock_now() + COMMIT_WAIT_NS);
}

void journal_make_room(struct journal *journal, uint64_t length) {
    for (bool answers = true; answers;) {
        const uint32_t seen = journal_news(journal);
        if (journal_room(journal) >= length)
            return;
        answers = journal_await_news(journal, seen);
    }
}

bool journal_commit(struct journal *journal) {
    journal_flush(journal);
    if (journal->writer == NULL)
        return true;
    const uint64_t until = clock_now() + COMMIT_WAIT_NS;
    for (;;) {
        const uint32_t seen = journal_news(journal);
        if (journal_committed(journal) >= journal->length)
            return true;
        if (!await_until(journal, seen, until))
            return false;
    }
}

void journal_note_stall(struct journal *journal) {
    if (journal->writer == NULL || atomic_load(&journal->writer->stalled_ns) == 0)
        return;
    const struct fact_recording_stalled stalled = {atomic_exchange(&journal->writer->stalled_ns, 0)};
    journal_fact(journal, FACT_RECORDING_STALLED, &stalled, sizeof stalled);
}
