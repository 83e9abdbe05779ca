"""Links of procfs in a path: `/proc/self/cwd` leads the daemon to one file and the run to another.

The policy judges a path in the daemon, and the run uses it later in another process. The two agree on every step of the
way up to the first link on a procfs. So the walk here stops there, and the policy refuses the path.
"""

from __future__ import annotations

import os
import stat

_MOST_LINKS = 40  # the kernel follows no more


def passes_process_link(path: str) -> bool:
    """Whether an absolute path goes through a link on a procfs. True also for a path that nobody can walk."""
    place, ahead, links = "/", path.split("/")[::-1], 0
    while ahead:
        name = ahead.pop()
        if name in ("", "."):
            continue
        if name == "..":
            place = os.path.dirname(place)  # no link is in it
            continue
        here = os.path.join(place, name)
        try:
            status = os.lstat(here)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return False  # the run gets no further, either
        except (OSError, ValueError):
            return True
        if not stat.S_ISLNK(status.st_mode):
            place = here
            continue
        links += 1
        if links > _MOST_LINKS or status.st_dev in _procfs_devices():
            return True
        target = os.readlink(here)
        place = "/" if target.startswith("/") else place
        ahead += target.split("/")[::-1]
    return False


def _procfs_devices() -> set[int]:
    """The devices of all mounted procfs: a host may have one outside of /proc, too."""
    devices = set()
    with open("/proc/self/mountinfo", "rb") as mounts:
        for line in mounts:
            about, _, kind = line.partition(b" - ")
            if kind.startswith(b"proc "):
                major, minor = about.split()[2].split(b":")
                devices.add(os.makedev(int(major), int(minor)))
    return devices
