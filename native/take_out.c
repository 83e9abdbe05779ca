/* take_out: make a hole in a journal, behind a frame that says so */
#include "take_out.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/syscall.h>

#include "raw_syscall.h"

enum { LARGEST_BLOCK = 1 << 20 }; /* of a file system: the block that an earlier hole ended in becomes free now */
#define FAR_BEHIND ((uint64_t)1 << 40) /* no journal is nearly so long, and room is reserved only near its end */

static long punch(int fd, uint64_t from, uint64_t to) {
    long result;
    do
        result = RAW_SYSCALL(SYS_fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (long)from,
                             (long)(to - from));
    while (result == -EINTR);
    return result;
}

bool take_out_probe(int fd) { return punch(fd, FAR_BEHIND, FAR_BEHIND + LARGEST_BLOCK) == 0; }

struct take_out take_out_make(const struct journal_gap *gap) {
    struct take_out request = {.at = gap->at, .hole_to = gap->fact.resume_at};
    journal_encode(request.frame, FACT_OUTPUT_GAP, &gap->fact, sizeof gap->fact);
    const uint64_t behind_frame = gap->at + sizeof request.frame;
    const uint64_t from = gap->hole_from > LARGEST_BLOCK ? gap->hole_from - LARGEST_BLOCK : 0;
    request.hole_from = from > behind_frame ? from : behind_frame;
    return request;
}

void take_out_perform(int fd, const struct take_out *request) {
    const long size = sizeof request->frame;
    long written;
    do
        written = RAW_SYSCALL(SYS_pwrite64, fd, (long)request->frame, size, (long)request->at);
    while (written == -EINTR);
    if (written == size) /* otherwise all stays as it is, and only takes room */
        punch(fd, request->hole_from, request->hole_to);
}
