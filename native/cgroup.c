/* cgroup: the run's own leaf in the cgroup file system, and the budgets that the kernel keeps there */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "descriptors.h"
#include "procfs.h"

enum { NESTING_MAX = 16, MOVE_OUT_ROUNDS = 64 };
#define FREEZE_WAIT_NS 100000000u

static void group_make(struct group *group, const char *base, const char *name) {
    group->base = group->leaf = -1;
    if (base == NULL)
        return;
    int directory = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return;
    /* The base comes first: if the guard dies right after it has made the leaf, its sentinel knows where to look. */
    group->base = directory;
    if (mkdirat(directory, name, 0755) == 0) {
        group->leaf = openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (group->leaf >= 0)
            return;
        unlinkat(directory, name, AT_REMOVEDIR);
    }
    group->base = -1;
    close(directory);
}

static bool set_number(int directory, const char *file, uint64_t number) {
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    return write_small(directory, file, text);
}

static void remove_group(struct group *group, const char *name);

/* Sets the limit of a leaf. A leaf that does not take it is dropped, and the guard samples the tree instead. */
static void limit_or_drop(struct group *group, const char *file, uint64_t limit, const char *name) {
    if (group->leaf >= 0 && !set_number(group->leaf, file, limit))
        remove_group(group, name);
}

static bool has_budget(const struct spec *spec) {
    return spec->options.memory_bytes > 0 || spec->options.processes > 0 || spec->options.cpu_ns > 0;
}

static bool is_kept_for(const struct cgroup *cgroup, const struct spec *spec) {
    return cgroup->unified.leaf >= 0 && spec->cgroup != NULL && strcmp(cgroup->base_path, spec->cgroup) == 0;
}

void cgroup_none(struct cgroup *cgroup) {
    const struct group none = {-1, -1};
    *cgroup = (struct cgroup){.unified = none, .memory = none, .pids = none};
}

void cgroup_make(struct cgroup *cgroup, const struct spec *spec) {
    const struct spec_options *options = &spec->options;
    cgroup->entered_at_clone = false;
    if (is_kept_for(cgroup, spec) && !has_budget(spec))
        return;
    cgroup_remove(cgroup);
    if (cgroup->name[0] == '\0') /* after the guard's first run: a process that cleans up after a guard knows that id */
        snprintf(cgroup->name, sizeof cgroup->name, "holdfast-%s", spec->run_id);
    group_make(&cgroup->unified, spec->cgroup, cgroup->name);
    leaf_settings_begin(&cgroup->settings, cgroup->unified.leaf);
    cgroup->base_path[0] = '\0';
    if (spec->cgroup != NULL && strlen(spec->cgroup) < sizeof cgroup->base_path)
        memcpy(cgroup->base_path, spec->cgroup, strlen(spec->cgroup) + 1);
    cgroup->controls = cgroup->unified.leaf >= 0 && (options->flags & SPEC_CGROUP_CONTROLS);
    if (cgroup->controls) {
        if (options->memory_bytes > 0) {
            cgroup->controls = set_number(cgroup->unified.leaf, "memory.max", options->memory_bytes);
            /* The budget belongs to the tree: when it is spent, the whole tree ends, not one process of it. */
            write_small(cgroup->unified.leaf, "memory.oom.group", "1");
        }
        if (options->processes > 0)
            cgroup->controls = set_number(cgroup->unified.leaf, "pids.max", options->processes) && cgroup->controls;
    }
    bool elsewhere = !cgroup->controls;
    group_make(&cgroup->memory, elsewhere && options->memory_bytes > 0 ? spec->memory_group : NULL, cgroup->name);
    limit_or_drop(&cgroup->memory, "memory.limit_in_bytes", options->memory_bytes, cgroup->name);
    group_make(&cgroup->pids, elsewhere && options->processes > 0 ? spec->pids_group : NULL, cgroup->name);
    limit_or_drop(&cgroup->pids, "pids.max", options->processes, cgroup->name);
}

static void add_or_drop(struct group *group, int pid, const char *name) {
    if (group->leaf >= 0 && !set_number(group->leaf, "cgroup.procs", (uint64_t)pid))
        remove_group(group, name);
}

void cgroup_add_child(struct cgroup *cgroup, int pid) {
    if (!cgroup->entered_at_clone) {
        add_or_drop(&cgroup->unified, pid, cgroup->name);
        cgroup->controls = cgroup->controls && cgroup->unified.leaf >= 0;
    }
    add_or_drop(&cgroup->memory, pid, cgroup->name);
    add_or_drop(&cgroup->pids, pid, cgroup->name);
}

bool cgroup_keeps_memory(const struct cgroup *cgroup) { return cgroup->controls || cgroup->memory.leaf >= 0; }

bool cgroup_keeps_pids(const struct cgroup *cgroup) { return cgroup->controls || cgroup->pids.leaf >= 0; }

static uint64_t read_count(int directory, const char *file, const char *key) {
    char text[512];
    uint64_t number = 0;
    if (directory >= 0 && read_small(directory, file, text, sizeof text) > 0)
        find_number(text, key, &number);
    return number;
}

uint64_t cgroup_oom_kills(const struct cgroup *cgroup) {
    if (cgroup->controls)
        return read_count(cgroup->unified.leaf, "memory.events", "oom_kill");
    return read_count(cgroup->memory.leaf, "memory.oom_control", "oom_kill");
}

uint64_t cgroup_refused_forks(const struct cgroup *cgroup) {
    return read_count(cgroup->controls ? cgroup->unified.leaf : cgroup->pids.leaf, "pids.events", "max");
}

uint64_t cgroup_cpu_us(const struct cgroup *cgroup) {
    return read_count(cgroup->unified.leaf, "cpu.stat", "usage_usec");
}

/*
 * Calls `visit`, if there is one, for each of the leaf's own members, and counts them. Nested runs have leaves below
 * it, and their members are not counted. A PID may be cut at the end of our buffer: the rest comes with the next read.
 */
static int each_member(const struct group *group, void (*visit)(const struct group *group, uint64_t pid)) {
    char text[4096];
    int count = 0;
    uint64_t pid = 0;
    int fd = openat(group->leaf, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    for (ssize_t got = read(fd, text, sizeof text); got > 0; got = read(fd, text, sizeof text)) {
        for (ssize_t i = 0; i < got; i++) {
            if (text[i] != '\n') {
                pid = pid * 10 + (uint64_t)(text[i] - '0');
                continue;
            }
            if (visit != NULL)
                visit(group, pid);
            count++;
            pid = 0;
        }
    }
    close(fd);
    return count;
}

bool cgroup_is_empty(const struct cgroup *cgroup) {
    char text[128];
    uint64_t populated = 1;
    const ssize_t got = read_small(cgroup->unified.leaf, "cgroup.events", text, sizeof text);
    if (got <= 0)
        return errno == ENOENT || errno == ENODEV; /* another process has removed it, which the kernel allows when empty */
    find_number(text, "populated", &populated);
    return populated == 0;
}

int cgroup_kill(struct cgroup *cgroup) {
    if (cgroup->unified.leaf < 0)
        return -1;
    cgroup->base_path[0] = '\0';
    int members = each_member(&cgroup->unified, NULL);
    return write_small(cgroup->unified.leaf, "cgroup.kill", "1") ? members : -1;
}

void cgroup_freeze(const struct cgroup *cgroup) {
    const int leaf = cgroup->unified.leaf;
    if (leaf < 0 || !write_small(leaf, "cgroup.freeze", "1"))
        return;
    const uint64_t until = clock_now() + FREEZE_WAIT_NS;
    struct pollfd events = {openat(leaf, "cgroup.events", O_RDONLY | O_CLOEXEC), POLLPRI, 0};
    char text[128];
    ssize_t got;
    while (events.fd >= 0 && (got = pread(events.fd, text, sizeof text - 1, 0)) > 0) {
        uint64_t frozen = 1, now = clock_now();
        text[got] = '\0';
        find_number(text, "frozen", &frozen);
        if (frozen != 0 || now >= until || poll(&events, 1, (int)((until - now) / 1000000u) + 1) <= 0)
            break;
    }
    if (events.fd >= 0)
        close(events.fd);
}

void cgroup_thaw(const struct cgroup *cgroup) {
    if (cgroup->unified.leaf >= 0)
        write_small(cgroup->unified.leaf, "cgroup.freeze", "0");
}

static void move_out(const struct group *group, uint64_t pid) {
    set_number(group->base, "cgroup.procs", pid); /* refused: the process has just ended */
}

/* Moves members up, and repeats it because they may fork meanwhile. A group that cannot be emptied keeps its leaf. */
static void move_members_out(const struct group *group) {
    for (int round = 0; group->leaf >= 0 && round < MOVE_OUT_ROUNDS; round++) {
        if (each_member(group, move_out) == 0)
            return;
    }
}

void cgroup_move_members_out(const struct cgroup *cgroup) {
    move_members_out(&cgroup->unified);
    move_members_out(&cgroup->memory);
    move_members_out(&cgroup->pids);
}

struct removal {
    int directory;
    int depth;
};

static bool remove_tree(int base, const char *name, int depth);

static void remove_inner(const char *name, bool is_directory, void *context) {
    const struct removal *removal = context;
    if (is_directory)
        remove_tree(removal->directory, name, removal->depth);
}

/* Removes `name` in `base` with everything in it. A nested guard that was killed leaves its own leaf in ours. */
static bool remove_tree(int base, const char *name, int depth) {
    if (unlinkat(base, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return true;
    if (depth == 0)
        return false;
    struct removal removal = {openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), depth - 1};
    if (removal.directory < 0)
        return false;
    each_entry(removal.directory, remove_inner, &removal);
    close(removal.directory);
    return unlinkat(base, name, AT_REMOVEDIR) == 0;
}

static void remove_group(struct group *group, const char *name) {
    if (group->base < 0)
        return;
    if (group->leaf >= 0)
        close(group->leaf);
    remove_tree(group->base, name, NESTING_MAX);
    close(group->base);
    group->base = group->leaf = -1;
}

void cgroup_keep(struct cgroup *cgroup, const struct spec *spec) {
    if (!is_kept_for(cgroup, spec) || has_budget(spec) ||
        !leaf_settings_are_new(&cgroup->settings, cgroup->unified.leaf) || !raise_descriptor(&cgroup->unified.base) ||
        !raise_descriptor(&cgroup->unified.leaf))
        cgroup_remove(cgroup);
    cgroup->controls = false;
}

void cgroup_remove(struct cgroup *cgroup) {
    leaf_settings_close(&cgroup->settings);
    remove_group(&cgroup->unified, cgroup->name);
    remove_group(&cgroup->memory, cgroup->name);
    remove_group(&cgroup->pids, cgroup->name);
}
