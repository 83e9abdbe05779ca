/* leaf_settings: whether a leaf still has the settings of a leaf that was just made */
#include "leaf_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "descriptors.h"

static const struct {
    const char *file;
    const char *at_first;
} settings_of_a_leaf[LEAF_SETTINGS] = {
    {"cgroup.freeze", "0\n"},
    {"cgroup.type", "domain\n"},
    {"cgroup.controllers", ""}, /* then cgroup.subtree_control is empty, too: it holds a part of these */
    {"cgroup.max.depth", "max\n"},
    {"cgroup.max.descendants", "max\n"},
    {"cgroup.pressure", "1\n"},
};

static bool open_files(struct leaf_settings *settings, int leaf) {
    settings->is_open = true;
    for (int i = 0; i < LEAF_SETTINGS; i++)
        settings->files[i] = -1;
    for (int i = 0; i < LEAF_SETTINGS; i++) {
        settings->files[i] = openat(leaf, settings_of_a_leaf[i].file, O_RDONLY | O_CLOEXEC);
        if (settings->files[i] < 0 ? errno != ENOENT : !raise_descriptor(&settings->files[i]))
            return false;
    }
    return true;
}

static bool is_at_first(int file, const char *at_first) {
    char text[32];
    if (file < 0)
        return true;
    const ssize_t got = pread(file, text, sizeof text, 0);
    return got >= 0 && (size_t)got == strlen(at_first) && memcmp(text, at_first, (size_t)got) == 0;
}

/* A leaf of a nested run inside is one link more. */
static bool is_as_it_was_made(const struct leaf_settings *settings, int leaf) {
    enum { LINKS_OF_EMPTY = 2 };
    struct stat status;
    return fstat(leaf, &status) == 0 && status.st_nlink == LINKS_OF_EMPTY && status.st_uid == settings->uid &&
           status.st_gid == settings->gid && status.st_mode == settings->mode;
}

void leaf_settings_begin(struct leaf_settings *settings, int leaf) {
    struct stat status = {0}; /* without an answer, no later look finds the same */
    leaf_settings_close(settings);
    if (leaf >= 0 && fstat(leaf, &status) == 0) {
        settings->uid = status.st_uid;
        settings->gid = status.st_gid;
    }
    settings->mode = status.st_mode;
}

bool leaf_settings_are_new(struct leaf_settings *settings, int leaf) {
    if (!is_as_it_was_made(settings, leaf) || (!settings->is_open && !open_files(settings, leaf)))
        return false;
    for (int i = 0; i < LEAF_SETTINGS; i++) {
        if (!is_at_first(settings->files[i], settings_of_a_leaf[i].at_first))
            return false;
    }
    return true;
}

void leaf_settings_close(struct leaf_settings *settings) {
    for (int i = 0; settings->is_open && i < LEAF_SETTINGS; i++) {
        if (settings->files[i] >= 0)
            close(settings->files[i]);
    }
    settings->is_open = false;
}
