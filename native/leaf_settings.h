/* leaf_settings: whether a leaf still has the settings of a leaf that was just made */
#ifndef HOLDFAST_LEAF_SETTINGS_H
#define HOLDFAST_LEAF_SETTINGS_H

/*
 * A command may change its own leaf: freeze it, make it threaded, forbid leaves inside, give it to another user. The
 * next run of the guard must not begin in such a leaf. The settings of a new leaf are known; only its owner and mode, which
 * depend on the guard, are remembered.
 * To open a file of the cgroup file system costs more than half of a new leaf, so the files stay open.
 *
 * A leaf with controllers has dozens of limits. It is not kept at all, because a new one is cheaper than that look. It
 * is rare: below a cgroup with a process in it, the kernel gives controllers only to the leaves of the root.
 *
 * BPF programs that a privileged command attaches to its leaf are not seen: only a privileged guard could ask for them.
 */

#include <stdbool.h>
#include <sys/types.h>

enum { LEAF_SETTINGS = 6 };

struct leaf_settings {
    uid_t uid; /* of the leaf that was just made */
    gid_t gid;
    mode_t mode;
    bool is_open;
    int files[LEAF_SETTINGS]; /* -1: this kernel does not have the file */
};

/* Begins with a leaf that was just made. */
void leaf_settings_begin(struct leaf_settings *settings, int leaf);
/* False: something differs, or cannot be read. Opens the files at the first look. */
bool leaf_settings_are_new(struct leaf_settings *settings, int leaf);
void leaf_settings_close(struct leaf_settings *settings);

#endif
