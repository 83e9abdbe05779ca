/* output: the command's stdout and stderr, or its terminal, on the way into the journal */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"

enum { BUFFER_SIZE = 256 * 1024, RELEASE_OVER = 32 * 1024, TERMINAL_BACKLOG = 64 * 1024 };
enum { DRAIN_ROOM = STREAM_COUNT * PIPE_LARGE + BUFFER_SIZE }; /* what two pipes hold, and frames around it */

static unsigned char buffer[BUFFER_SIZE] __attribute__((aligned(4096)));

void output_prepare(struct output *output, struct journal *journal, const struct spec_options *options) {
    *output = (struct output){
        .journal = journal,
        .streams = {NO_STREAM, NO_STREAM},
        .drops = (options->flags & (SPEC_OUTPUT_DROPS | SPEC_OUTPUT_ROLLS)) != 0,
        .cap = options->output_bytes,
        .window = options->window_bytes,
        .consumed = options->window_bytes > 0 ? journal->length : UINT64_MAX,
    };
    if ((options->flags & SPEC_OUTPUT_ROLLS) == 0 || output->cap == 0)
        return;
    /* A journal in memory with a reader gives everything back as it is read: there is nothing to keep. */
    output->rolls = journal->on_disk || output->window == 0;
    roll_prepare(&output->roll, output->cap);
    output->window = output->rolls ? output->roll.tail : output->window;
    output->cap = output->rolls ? output->cap : 0;
}

bool output_open(struct output *output, int terminal, uint32_t flags, struct child_stdio *stdio) {
    output->terminal = terminal >= 0;
    if (output->terminal) {
        output->streams[0].fd = terminal;
        output->cannot_move = true; /* only out of a pipe */
        *stdio = (struct child_stdio){0, 0};
        return fcntl(terminal, F_SETFL, O_NONBLOCK) == 0;
    }
    stdio->out = GUARD_FD_STDOUT;
    if ((flags & SPEC_GIVES_STDOUT) == 0 && !stream_open(&output->streams[0], &stdio->out))
        return false;
    stdio->err = (flags & SPEC_MERGE) ? stdio->out : GUARD_FD_STDERR;
    return (flags & (SPEC_MERGE | SPEC_GIVES_STDERR)) || stream_open(&output->streams[1], &stdio->err);
}

static bool is_beyond_window(const struct output *output) {
    const uint64_t length = output->journal->length;
    return output->window > 0 && length > output->consumed && length - output->consumed > output->window;
}

static void count_recorded(struct output *output, int index, size_t length, bool late) {
    output->recorded_to = output->journal->length;
    if (output->unannounced == 0)
        output->unannounced = output->recorded_to;
    output->streams[index].bytes += length;
    if (late)
        output->late_bytes += length;
    if (output->rolls)
        roll_recorded(&output->roll, output->journal, roll_kind(index, late), length);
}

static uint8_t flags_of(bool late) { return late ? FRAME_LATE : 0; }

static void keep(struct output *output, int index, const unsigned char *data, size_t length, bool late) {
    if (!journal_output(output->journal, (uint8_t)(index + 1), flags_of(late), clock_boot(), data, length)) {
        output->dropped_bytes += length;
        return;
    }
    count_recorded(output, index, length, late);
}

void output_roll(struct output *output) {
    if (output->rolls && !output->concluded) /* what is missing is on record then: no more may go */
        roll_take_out(&output->roll, output->journal, output->consumed);
}

/* In frames that can be taken out again one by one. */
static void keep_rolling(struct output *output, int index, const unsigned char *data, size_t length, bool late) {
    while (length > 0) {
        const size_t part = roll_next(&output->roll, output->journal, length);
        if (part == 0) {
            output->dropped_bytes += length;
            return;
        }
        keep(output, index, data, part, late);
        output_roll(output);
        data += part;
        length -= part;
    }
}

/* How many of the next bytes may be kept. */
static uint64_t room_left(const struct output *output) {
    if (output->rolls) /* without holes: as a limit that drops, unless somebody reads */
        return output->consumed == UINT64_MAX && roll_is_stuck(&output->roll, output->journal) ? 0 : UINT64_MAX;
    if (output->cap == 0)
        return UINT64_MAX;
    return output->seen_bytes < output->cap ? output->cap - output->seen_bytes : 0;
}

static void record(struct output *output, int index, const unsigned char *data, size_t length, bool late) {
    size_t room = late && is_beyond_window(output) ? 0 : length; /* the command waits no longer, and nobody reads */
    const uint64_t left = room_left(output);
    room = left < room ? (size_t)left : room;
    output->seen_bytes += length;
    output->dropped_bytes += length - room;
    if (room > 0 && output->rolls)
        keep_rolling(output, index, data, room, late);
    else if (room > 0)
        keep(output, index, data, room, late);
}

/* All that is too much, but it does not wait for storage that does not answer. */
static void take_out_rest(struct output *output) {
    struct roll *roll = &output->roll;
    for (bool answers = true; answers;) {
        const uint32_t seen = journal_news(output->journal);
        if (!roll_is_full(roll, output->journal, output->consumed))
            return;
        if (!roll_take_out(roll, output->journal, output->consumed))
            answers = journal_await_news(output->journal, seen);
    }
}

void output_conclude(struct output *output) {
    if (!output->rolls || output->concluded)
        return;
    take_out_rest(output);
    const uint64_t *gone = output->roll.gone;
    const uint64_t late = gone[roll_kind(0, true)] + gone[roll_kind(1, true)];
    const struct fact_output_rolled missing = {gone[roll_kind(0, false)] + gone[roll_kind(0, true)],
                                               gone[roll_kind(1, false)] + gone[roll_kind(1, true)]};
    output->concluded = true;
    if (missing.stdout_bytes + missing.stderr_bytes == 0)
        return;
    journal_fact(output->journal, FACT_OUTPUT_ROLLED, &missing, sizeof missing);
    output->streams[0].bytes -= missing.stdout_bytes;
    output->streams[1].bytes -= missing.stderr_bytes;
    output->late_bytes -= late;
    output->dropped_bytes += missing.stdout_bytes + missing.stderr_bytes;
}

/* How much may be read now. Output that rolls becomes more frames, and they take room, too. */
static uint64_t room_for_output(const struct output *output) {
    const uint64_t room = journal_room(output->journal);
    return output->rolls && room < UINT64_MAX ? roll_fits(&output->roll, room) : room;
}

/* ── from the pipe straight into the journal ──────────────────────────────────────────────────────────────────── */

/* How many of the next bytes can become one frame as they are. 0: they have to be looked at, or are to be dropped. */
static size_t next_frame(struct output *output, int index, uint64_t room, bool late) {
    const struct stream *stream = &output->streams[index];
    uint64_t most = room_left(output);
    if (output->cannot_move || (late && is_beyond_window(output)) || (output->rolls && !roll_is_in_head(&output->roll)))
        return 0;
    if (output->fenced && !late && stream->on_time < most)
        most = stream->on_time;
    most = room < most ? room : most;
    most = most < BUFFER_SIZE ? most : BUFFER_SIZE;
    return output->rolls ? roll_next(&output->roll, output->journal, (size_t)most) : (size_t)most;
}

/* Between these two, a guard that dies leaves a taking for output_take_over(). */
static void begin_taking(struct output *output, int index, enum taking_how how, bool late) {
    const struct stream *stream = &output->streams[index];
    output->taking = (struct taking){
        .index = index,
        .late = late,
        .at = output->journal->length + output->journal->pending_length,
        .bytes = stream->bytes,
        .on_time = stream->on_time,
        .late_bytes = output->late_bytes,
        .seen_bytes = output->seen_bytes,
        .passed = output->roll.passed[roll_kind(index, late)],
    };
    atomic_signal_fence(memory_order_seq_cst);
    output->taking.how = how;
    atomic_signal_fence(memory_order_seq_cst);
}

static void end_taking(struct output *output) {
    atomic_signal_fence(memory_order_seq_cst);
    output->taking.how = TAKING_NOTHING;
}

static void count_moved(struct output *output, int index, size_t length, bool late, bool recorded) {
    output->seen_bytes += length;
    if (output->fenced && !late)
        output->streams[index].on_time -= length;
    if (recorded)
        count_recorded(output, index, length, late);
    else
        output->dropped_bytes += length;
}

/* As read(). -1 with ENOTSUP: the bytes have to be read. */
static ssize_t move(struct output *output, int index, uint64_t room) {
    const bool late = output->fenced && output->streams[index].on_time == 0;
    const size_t most = next_frame(output, index, room, late);
    if (most == 0) {
        errno = ENOTSUP;
        return -1;
    }
    begin_taking(output, index, TAKING_MOVES, late);
    const ssize_t got = stream_move(&output->streams[index], output->journal, most);
    if (got > 0) {
        const bool recorded = journal_moved(output->journal, (uint8_t)(index + 1), flags_of(late), (size_t)got);
        count_moved(output, index, (size_t)got, late, recorded);
    }
    end_taking(output);
    if (got < 0 && errno != EAGAIN && errno != EINTR) {
        output->cannot_move = errno == EINVAL || errno == ENOSYS || errno == EPERM;
        errno = ENOTSUP;
    }
    return got;
}

void output_take_over(struct output *output) {
    const struct taking taking = output->taking;
    struct journal *journal = output->journal;
    if (taking.how == TAKING_NOTHING)
        return;
    end_taking(output);
    stream_take_over(&output->streams[taking.index]);
    if (taking.how == TAKING_READS) {
        output->interrupted = true;
        return;
    }
    if (journal->length == taking.at)
        journal_complete_move(journal, (uint8_t)(taking.index + 1), flags_of(taking.late));
    if (journal->length <= taking.at)
        return; /* nothing had been moved */
    output->streams[taking.index].bytes = taking.bytes;
    output->streams[taking.index].on_time = taking.on_time;
    output->late_bytes = taking.late_bytes;
    output->seen_bytes = taking.seen_bytes;
    output->roll.passed[roll_kind(taking.index, taking.late)] = taking.passed;
    count_moved(output, taking.index, (size_t)(journal->length - taking.at) - sizeof(struct frame), taking.late, true);
}

/* ── through our memory ───────────────────────────────────────────────────────────────────────────────────────── */

/* Output that was read: what was on time, and what is late. */
static void record_read(struct output *output, int index, size_t length) {
    struct stream *stream = &output->streams[index];
    size_t on_time = length;
    if (length > output->touched)
        output->touched = length;
    if (output->fenced) {
        on_time = stream->on_time < length ? (size_t)stream->on_time : length;
        stream->on_time -= on_time;
    }
    if (on_time > 0)
        record(output, index, buffer, on_time, false);
    if (on_time < length)
        record(output, index, buffer + on_time, length - on_time, true);
}

static ssize_t copy(struct output *output, int index, uint64_t room) {
    begin_taking(output, index, TAKING_READS, false);
    const ssize_t got =
        stream_read(&output->streams[index], buffer, room < sizeof buffer ? (size_t)room : sizeof buffer);
    if (got > 0)
        record_read(output, index, (size_t)got);
    end_taking(output);
    return got;
}

bool output_read(struct output *output, int index) {
    struct stream *stream = &output->streams[index];
    if (stream->fd < 0)
        return false;
    const uint64_t room = output->over ? sizeof buffer : room_for_output(output);
    if (room == 0)
        return false;
    ssize_t got = move(output, index, room);
    if (got < 0 && errno == ENOTSUP)
        got = copy(output, index, room);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got <= 0) { /* end of file; a terminal says EIO while no process has it open, which may change */
        stream->hung = output->terminal && !output->final;
        if (!stream->hung)
            stream_close(stream);
        return false;
    }
    stream->hung = false;
    stream_enlarge(stream, (size_t)got, !output->cannot_move);
    return true;
}

void output_read_all(struct output *output, uint64_t bound) {
    uint64_t until = output->seen_bytes + bound;
    bool more = true;
    while (more && output->seen_bytes < until) {
        more = false;
        for (int index = 0; index < STREAM_COUNT; index++)
            more |= output_read(output, index);
    }
}

bool output_will_be_over_cap(const struct output *output) {
    return output->cap > 0 && output->seen_bytes + stream_waiting(&output->streams[0]) +
                                      stream_waiting(&output->streams[1]) > output->cap;
}

void output_fence(struct output *output) {
    if (output->fenced)
        return;
    /* FIONREAD counts only the first 4 KiB in a terminal. Reading brings the rest forward before it says EAGAIN. */
    for (uint64_t until = output->seen_bytes + TERMINAL_BACKLOG;
         output->terminal && output->seen_bytes < until && output_read(output, 0);)
        continue;
    output->fenced = true;
    for (int index = 0; index < STREAM_COUNT; index++)
        output->streams[index].on_time = stream_waiting(&output->streams[index]);
}

bool output_at_end(const struct output *output) { return output->streams[0].fd < 0 && output->streams[1].fd < 0; }

bool output_over_cap(const struct output *output) { return output->cap > 0 && output->seen_bytes > output->cap; }

bool output_awaits_storage(const struct output *output) {
    return !output->over && room_for_output(output) == 0;
}

bool output_waits(const struct output *output) {
    return (!output->fenced && is_beyond_window(output)) || output_awaits_storage(output);
}

void output_begin_drain(struct output *output) {
    output->final = true;
    output->journal->beyond = DRAIN_ROOM;
}

void output_end_drain(struct output *output) { output->over = true; }

void output_keep_open(struct output *output, int streams[STREAM_COUNT]) {
    for (int index = 0; index < STREAM_COUNT; index++) {
        streams[index] = output->streams[index].fd;
        output->streams[index].fd = -1;
        stream_close(&output->streams[index]);
    }
}

void output_close(struct output *output) {
    for (int index = 0; index < STREAM_COUNT; index++)
        stream_close(&output->streams[index]);
}

void output_release_buffer(struct output *output) {
    if (output->touched <= RELEASE_OVER)
        return;
    output->touched = 0;
    madvise(buffer, sizeof buffer, MADV_DONTNEED);
}
