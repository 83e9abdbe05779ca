/* stream: one pipe of the command's output, or its terminal, and how bytes come out of it */
#include "stream.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "descriptors.h"

enum { PIPE_DEFAULT = 64 * 1024, PIPE_SMALLER = 256 * 1024 };

bool stream_open(struct stream *stream, int *child_end) {
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

void stream_close(struct stream *stream) {
    const int all[] = {stream->fd, stream->own_out, stream->own_in};
    stream->fd = stream->own_out = stream->own_in = -1;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i] >= 0)
            close(all[i]);
    }
}

static void make_own_pipe(struct stream *stream) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return;
    if (!raise_descriptor(&ends[0]) || !raise_descriptor(&ends[1])) {
        close(ends[0]);
        close(ends[1]);
        return;
    }
    fcntl(ends[1], F_SETPIPE_SZ, PIPE_SMALLER); /* a smaller one does, too */
    stream->own_out = ends[0];
    stream->own_in = ends[1];
}

/* Commands that write little never pay for it. A refusal costs nothing but speed. */
void stream_enlarge(struct stream *stream, size_t got, bool moves) {
    if (stream->enlarged || got < PIPE_DEFAULT)
        return;
    stream->enlarged = true;
    if (moves)
        make_own_pipe(stream);
    if (fcntl(stream->fd, F_SETPIPE_SZ, PIPE_LARGE) < 0 && fcntl(stream->fd, F_SETPIPE_SZ, PIPE_SMALLER) < 0)
        return;
}

int stream_watched(const struct stream *stream) {
    return stream->fd >= 0 && stream->in_own > 0 ? stream->own_out : stream->fd;
}

static uint64_t bytes_in(int pipe) {
    int waiting = 0;
    return pipe >= 0 && ioctl(pipe, FIONREAD, &waiting) == 0 && waiting > 0 ? (uint64_t)waiting : 0;
}

uint64_t stream_waiting(const struct stream *stream) { return bytes_in(stream->fd) + stream->in_own; }

ssize_t stream_move(struct stream *stream, struct journal *journal, size_t most) {
    if (stream->own_in >= 0 && stream->in_own == 0) {
        const ssize_t drawn = splice(stream->fd, NULL, stream->own_in, NULL, most, SPLICE_F_NONBLOCK);
        if (drawn <= 0)
            return drawn;
        stream->in_own = (uint64_t)drawn;
    }
    if (stream->in_own == 0)
        return journal_move(journal, stream->fd, most);
    const ssize_t moved = journal_move(journal, stream->own_out, most);
    if (moved > 0)
        stream->in_own -= (uint64_t)moved;
    return moved;
}

ssize_t stream_read(struct stream *stream, void *to, size_t most) {
    if (stream->in_own == 0)
        return read(stream->fd, to, most);
    const ssize_t got = read(stream->own_out, to, most);
    if (got > 0)
        stream->in_own -= (uint64_t)got;
    return got;
}

void stream_take_over(struct stream *stream) { stream->in_own = bytes_in(stream->own_out); }
