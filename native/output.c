/* output: the command's stdout and stderr, or its terminal, on the way into the journal */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BUFFER_SIZE = 256 * 1024, PIPE_DEFAULT = 64 * 1024, PIPE_LARGE = 1024 * 1024 };
enum { RELEASE_OVER = 32 * 1024, TERMINAL_BACKLOG = 64 * 1024 };

static unsigned char buffer[BUFFER_SIZE] __attribute__((aligned(4096)));

static bool open_pipe(struct stream *stream, int *child_end) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0) {
        close(ends[0]);
        close(ends[1]);
        return false;
    }
    stream->fd = ends[0];
    *child_end = ends[1];
    return true;
}

void output_prepare(struct output *output, struct journal *journal, const struct spec_options *options) {
    *output = (struct output){
        .journal = journal,
        .streams = {{.fd = -1}, {.fd = -1}},
        .drops = (options->flags & SPEC_OUTPUT_DROPS) != 0,
        .cap = options->output_bytes,
        .window = options->window_bytes,
        .consumed = journal->length,
    };
}

bool output_open(struct output *output, int terminal, bool merge, struct child_stdio *stdio) {
    output->terminal = terminal >= 0;
    if (output->terminal) {
        output->streams[0].fd = terminal;
        *stdio = (struct child_stdio){0, 0};
        return fcntl(terminal, F_SETFL, O_NONBLOCK) == 0;
    }
    if (!open_pipe(&output->streams[0], &stdio->out))
        return false;
    stdio->err = stdio->out;
    return merge || open_pipe(&output->streams[1], &stdio->err);
}

static bool is_beyond_window(const struct output *output) {
    return output->window > 0 && output->journal->length - output->consumed > output->window;
}

static void record(struct output *output, int index, const unsigned char *data, size_t length, bool late) {
    struct stream *stream = &output->streams[index];
    size_t room = late && is_beyond_window(output) ? 0 : length; /* the command waits no longer, and nobody reads */
    if (output->cap > 0) {
        uint64_t left = output->seen_bytes < output->cap ? output->cap - output->seen_bytes : 0;
        room = left < room ? (size_t)left : room;
    }
    output->seen_bytes += length;
    output->dropped_bytes += length - room;
    if (room == 0)
        return;
    if (!journal_output(output->journal, (uint8_t)(index + 1), late ? FRAME_LATE : 0, data, room)) {
        output->dropped_bytes += room;
        return;
    }
    output->recorded_to = output->journal->length;
    stream->bytes += room;
    if (late)
        output->late_bytes += room;
}

/* A command that fills its pipe gets a larger one; others never pay for it. A refusal costs nothing but speed. */
static void enlarge(struct stream *stream, size_t got) {
    if (stream->enlarged || got < PIPE_DEFAULT)
        return;
    stream->enlarged = true;
    if (fcntl(stream->fd, F_SETPIPE_SZ, PIPE_LARGE) < 0 && fcntl(stream->fd, F_SETPIPE_SZ, BUFFER_SIZE) < 0)
        return;
}

bool output_read(struct output *output, int index) {
    struct stream *stream = &output->streams[index];
    if (stream->fd < 0)
        return false;
    ssize_t got = read(stream->fd, buffer, sizeof buffer);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got <= 0) { /* end of file; a terminal says EIO while no process has it open, which may change */
        stream->hung = output->terminal && !output->final;
        if (!stream->hung) {
            close(stream->fd);
            stream->fd = -1;
        }
        return false;
    }
    stream->hung = false;
    size_t length = (size_t)got, on_time = length;
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
    enlarge(stream, length);
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

static uint64_t waiting_bytes(const struct stream *stream) {
    int waiting = 0;
    return stream->fd >= 0 && ioctl(stream->fd, FIONREAD, &waiting) == 0 && waiting > 0 ? (uint64_t)waiting : 0;
}

bool output_will_be_over_cap(const struct output *output) {
    return output->cap > 0 && output->seen_bytes + waiting_bytes(&output->streams[0]) +
                                      waiting_bytes(&output->streams[1]) > output->cap;
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
        output->streams[index].on_time = waiting_bytes(&output->streams[index]);
}

bool output_at_end(const struct output *output) { return output->streams[0].fd < 0 && output->streams[1].fd < 0; }

bool output_over_cap(const struct output *output) { return output->cap > 0 && output->seen_bytes > output->cap; }

bool output_waits_for_owner(const struct output *output) {
    return !output->fenced && is_beyond_window(output);
}

void output_close(struct output *output) {
    for (int index = 0; index < STREAM_COUNT; index++) {
        if (output->streams[index].fd >= 0)
            close(output->streams[index].fd);
        output->streams[index].fd = -1;
    }
}

void output_release_buffer(struct output *output) {
    if (output->touched <= RELEASE_OVER)
        return;
    output->touched = 0;
    madvise(buffer, sizeof buffer, MADV_DONTNEED);
}
