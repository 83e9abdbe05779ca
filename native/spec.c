/* spec: what the launcher asked for, read from a descriptor or sent with the next run */
#include "spec.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared_memory.h"

enum { FEW_STRINGS = 256 }; /* with the NULL at the end of each list */

/* In shared memory, because the sentinel may have to end a run that came after the first. */
static char *buffer;
static char **few_pointers;
static struct spec_foreign *foreign;

bool spec_prepare(void) {
    buffer = shared_memory(SPEC_SMALL);
    few_pointers = shared_memory(FEW_STRINGS * sizeof *few_pointers);
    foreign = shared_memory(sizeof *foreign);
    return buffer != NULL && few_pointers != NULL && foreign != NULL;
}

char *spec_buffer(void) { return buffer; }

struct part {
    uint16_t type;
    char *payload;
    size_t length;
};

/* Takes the part at `at`. False: the end, or anything that is not a whole frame. */
static bool next_part(const struct spec *spec, size_t *at, struct part *part) {
    struct frame frame;
    if (spec->length - *at < sizeof frame)
        return false;
    memcpy(&frame, spec->bytes + *at, sizeof frame);
    if (frame.mark != FRAME_MARK || frame.length > spec->length - *at - sizeof frame)
        return false;
    *part = (struct part){frame.type, spec->bytes + *at + sizeof frame, frame.length};
    *at += sizeof frame + frame.length;
    return true;
}

static bool is_text(const struct part *part) { return part->length > 0 && part->payload[part->length - 1] == '\0'; }

static size_t count_strings(const struct part *part) {
    size_t count = 0;
    for (size_t i = 0; i < part->length; i++)
        count += part->payload[i] == '\0';
    return count;
}

static char **point_into(const struct part *part, char **pointers) {
    for (size_t at = 0; at < part->length; at += strlen(part->payload + at) + 1)
        *pointers++ = part->payload + at;
    *pointers++ = NULL;
    return pointers;
}

static bool take_ladder(struct spec *spec, const struct part *part) {
    spec->rungs = part->length / sizeof(struct spec_rung);
    if (spec->rungs == 0 || spec->rungs > SPEC_RUNGS_MAX || part->length % sizeof(struct spec_rung) != 0)
        return false;
    memcpy(spec->ladder, part->payload, part->length);
    return true;
}

static bool take_foreign(struct spec *spec, const struct part *part) {
    if (part->length != sizeof *foreign)
        return false;
    memcpy(foreign, part->payload, sizeof *foreign); /* a copy: the bytes of the spec have no alignment */
    spec->foreign = foreign;
    return foreign->pid > 1;
}

static bool take_number(uint64_t *where, const struct part *part) {
    if (part->length != sizeof *where)
        return false;
    memcpy(where, part->payload, sizeof *where);
    return true;
}

static bool take_text(const char **where, const struct part *part) {
    *where = part->payload;
    return is_text(part);
}

/* The parts that are lists of strings. */
enum { LIST_ARGV, LIST_ENV, LIST_ENTER, LIST_COPY, LIST_LOOK, LIST_SWEEP, LIST_COUNT };

static bool take_list(struct part *list, const struct part *part) {
    *list = *part;
    return is_text(part);
}

static bool take_part(struct spec *spec, const struct part *part, struct part *lists) {
    switch (part->type) {
    case PART_OPTIONS:
        if (part->length != sizeof spec->options)
            return false;
        memcpy(&spec->options, part->payload, sizeof spec->options);
        return true;
    case PART_ARGV:
        return take_list(&lists[LIST_ARGV], part);
    case PART_ENV:
        return take_list(&lists[LIST_ENV], part) || part->length == 0;
    case PART_ENTER:
        return take_list(&lists[LIST_ENTER], part);
    case PART_COPY:
        return take_list(&lists[LIST_COPY], part);
    case PART_LOOK:
        return take_list(&lists[LIST_LOOK], part);
    case PART_SWEEP:
        return take_list(&lists[LIST_SWEEP], part);
    case PART_CONTAINER:
        return take_text(&spec->container, part);
    case PART_INSIDE:
        spec->agent_spec = part->payload;
        spec->agent_spec_length = part->length;
        return true;
    case PART_FOREIGN:
        return take_foreign(spec, part);
    case PART_DESCRIPTORS:
        return take_number(&spec->descriptors, part);
    case PART_LADDER:
        return take_ladder(spec, part);
    case PART_CWD:
        return take_text(&spec->cwd, part);
    case PART_RUN_ID:
        return take_text(&spec->run_id, part);
    case PART_CGROUP:
        return take_text(&spec->cgroup, part);
    case PART_MEMORY_GROUP:
        return take_text(&spec->memory_group, part);
    case PART_PIDS_GROUP:
        return take_text(&spec->pids_group, part);
    default:
        return false; /* the launcher is newer than this guard: refusing is safer than ignoring a limit */
    }
}

static bool make_table(struct spec *spec, const struct part *lists) {
    size_t strings = 0;
    for (int i = 0; i < LIST_COUNT; i++)
        strings += count_strings(&lists[i]) + 1;
    spec->argv = few_pointers;
    if (strings > FEW_STRINGS) {
        spec->mapped_pointers = strings * sizeof(char *);
        spec->argv = mmap(NULL, spec->mapped_pointers, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (spec->argv == MAP_FAILED)
            return false;
    }
    spec->env = point_into(&lists[LIST_ARGV], spec->argv);
    spec->enter = point_into(&lists[LIST_ENV], spec->env);
    spec->copy = point_into(&lists[LIST_ENTER], spec->enter);
    spec->look = point_into(&lists[LIST_COPY], spec->copy);
    spec->sweep = point_into(&lists[LIST_LOOK], spec->look);
    point_into(&lists[LIST_SWEEP], spec->sweep);
    return true;
}

static bool parse(struct spec *spec) {
    struct part part, lists[LIST_COUNT] = {0};
    size_t at = 0;
    while (next_part(spec, &at, &part)) {
        if (!take_part(spec, &part, lists))
            return false;
    }
    if (at != spec->length || lists[LIST_ARGV].length == 0 || spec->rungs == 0 || spec->run_id == NULL)
        return false;
    if (spec->container != NULL && (lists[LIST_ENTER].length == 0 || lists[LIST_COPY].length == 0 ||
                                    lists[LIST_LOOK].length == 0 || lists[LIST_SWEEP].length == 0 ||
                                    spec->agent_spec == NULL))
        return false;
    return make_table(spec, lists);
}

bool spec_parse_buffer(struct spec *spec, size_t length) {
    spec->bytes = buffer;
    spec->length = length;
    return parse(spec);
}

bool spec_read(struct spec *spec, int fd) {
    struct stat status;
    if (fstat(fd, &status) < 0 || status.st_size <= 0)
        return false;
    const size_t length = (size_t)status.st_size;
    if (length <= SPEC_SMALL)
        return pread(fd, buffer, length, 0) == (ssize_t)length && spec_parse_buffer(spec, length);
    spec->length = length;
    spec->bytes = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);
    return spec->bytes != MAP_FAILED && parse(spec);
}

const char *spec_token(const struct spec *spec, char token[static SPEC_TOKEN_SIZE]) {
    static const char mark[] = "HOLDFAST_RUN_MARK=";
    for (char **variable = spec->env; *variable != NULL; variable++) {
        if (strncmp(*variable, mark, sizeof mark - 1) == 0)
            return *variable;
    }
    snprintf(token, SPEC_TOKEN_SIZE, "HOLDFAST_RUN_ID=%s", spec->run_id);
    return token;
}

void spec_forget(struct spec *spec) {
    if (spec->mapped_pointers > 0)
        munmap(spec->argv, spec->mapped_pointers); /* the ranges are our own: this cannot fail */
    if (spec->bytes != buffer)
        munmap(spec->bytes, spec->length);
}
