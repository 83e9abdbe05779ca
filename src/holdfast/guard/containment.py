"""The containment that this process can give its runs: a writable cgroup v2, controllers for budgets, or neither.

Theory of operation. A run's leaf is made directly below the cgroup this process lives in, so nothing but permission to
write there is needed: as root anywhere, as a user in a delegated subtree (`systemd-run --user --scope`,
`Delegate=yes`). Version 2 may be mounted beside version 1 (`/sys/fs/cgroup/unified`) and without controllers:
`cgroup.kill` and `cgroup.events` work there all the same, so containment and budgets are probed separately.

Capabilities are probed, not guessed from versions or permission bits: a leaf is really made and removed. The answer is
kept until this process is in another cgroup: a command belongs where `subprocess` would put it, below the limits that
hold for this process now.
"""

from __future__ import annotations

import os

from ..values.fast_imports import NamedTuple

FORCE_VARIABLE = "HOLDFAST_CONTAINMENT"  # "subreaper": behave as if there were no cgroup; for tests
_OWN_GROUPS = "/proc/self/cgroup"
_FORCED = f"{FORCE_VARIABLE}=subreaper is set"


class Containment(NamedTuple):
    """The cgroups below which this process can make leaves for its runs."""

    cgroup_base: str | None  # version 2
    memory_base: str | None  # version 1, for the memory budget
    pids_base: str | None  # version 1, for the process budget
    why_not: str | None  # why there is no `cgroup_base`; None when there is one
    controls: bool = False  # whether a leaf of version 2 can keep the budgets


class Mount(NamedTuple):
    """One mounted cgroup file system; `root` is the part of the hierarchy that it shows at `point`."""

    root: str
    point: str
    kind: str
    options: frozenset[str]


_known: Containment | None = None
_own_groups = ""  # of this process when it probed


def probe() -> Containment:
    """Probe the containment, unless the answer is known. Never fails: `why_not` explains a missing cgroup."""
    global _known
    if _known is None:
        _known = _probe()
    return _known


def forget_if_moved() -> bool:
    """Probe again next time if this process is in another cgroup than when it probed. Returns whether it is."""
    if _known is None or _known.why_not == _FORCED:
        return False
    try:
        if _read(_OWN_GROUPS) == _own_groups:
            return False
    except OSError:
        pass  # /proc is out of reach, perhaps in a chroot: then the old paths may lead nowhere
    forget()
    return True


def forget() -> None:
    """Probe again next time."""
    global _known
    _known = None


def _probe() -> Containment:
    global _own_groups
    _own_groups = ""
    if os.environ.get(FORCE_VARIABLE) == "subreaper":
        return Containment(None, None, None, _FORCED)
    try:
        mounts = parse_mounts(_read("/proc/self/mountinfo"))
        _own_groups = _read(_OWN_GROUPS)
        own = parse_own_groups(_own_groups)
    except OSError as error:
        return Containment(None, None, None, f"/proc cannot be read: {error}")
    base, why_not = _find_unified(mounts, own)
    controls = base is not None and {"memory", "pids"} <= _words(f"{base}/cgroup.subtree_control")
    if controls:
        return Containment(base, None, None, None, True)
    return Containment(base, _find_controller("memory", mounts, own), _find_controller("pids", mounts, own), why_not)


def parse_mounts(mountinfo: str) -> list[Mount]:
    """The cgroup mounts of a `/proc/PID/mountinfo`, in its order; lines of another shape are skipped."""
    mounts = []
    for line in mountinfo.splitlines():
        left, separator, right = line.partition(" - ")
        fields, kind_fields = left.split(" "), right.split(" ")
        # Optional fields of varying number stand before the dash, so the two sides are split apart first.
        if separator and len(fields) >= 5 and len(kind_fields) >= 3 and kind_fields[0] in ("cgroup", "cgroup2"):
            options = frozenset(kind_fields[2].split(","))
            mounts.append(Mount(_unescape(fields[3]), _unescape(fields[4]), kind_fields[0], options))
    return mounts


def parse_own_groups(text: str) -> dict[str, str]:
    """The cgroup paths of a `/proc/PID/cgroup` by controller; version 2 has the empty name."""
    groups = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, separator, path = rest.partition(":")
        if separator and number.isdigit():
            for controller in controllers.split(","):
                groups[controller] = path
    return groups


def visible_path(mount: Mount, own: str) -> str | None:
    """The path of the cgroup `own` below the mount point, or None when that mount does not show it."""
    root = mount.root.rstrip("/")
    # A bind mount or a container shows a part only; and "/../x" means a place outside of our cgroup namespace.
    if "/.." in own or not (own == root or own.startswith(f"{root}/")):
        return None
    return (mount.point + own[len(root) :]).rstrip("/") or "/"


def _find_unified(mounts: list[Mount], own: dict[str, str]) -> tuple[str | None, str | None]:
    if "" not in own:
        return None, "this kernel offers no cgroup v2"
    why_not = "no cgroup v2 is mounted here"
    for mount in mounts:
        if mount.kind == "cgroup2":
            path = visible_path(mount, own[""])
            problem = f"{mount.point} does not show our own cgroup {own['']}" if path is None else _try_leaf(path)
            if problem is None:
                return path, None
            why_not = problem
    return None, why_not


def _try_leaf(base: str) -> str | None:
    """Make and remove a leaf in `base`; None when that works and processes can be moved into it, else the reason."""
    # Moving a process also needs write permission on cgroup.procs of the common ancestor, which is `base`.
    if not os.access(base, os.W_OK | os.X_OK) or not os.access(f"{base}/cgroup.procs", os.W_OK):
        return f"{base} is not writable for uid {os.geteuid()}"
    leaf = f"{base}/holdfast-probe-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        os.mkdir(leaf, 0o755)
    except OSError as error:
        return f"no cgroup can be made in {base}: {error.strerror}"
    try:
        kind = _read(f"{leaf}/cgroup.type").strip()
        if kind != "domain":  # below a threaded cgroup: whole processes cannot be moved in
            return f"cgroups made in {base} are of type {kind!r}, not 'domain'"
        return None if os.path.exists(f"{leaf}/cgroup.kill") else "this kernel has no cgroup.kill (Linux 5.14)"
    except OSError as error:
        return f"a cgroup made in {base} cannot be read: {error.strerror}"
    finally:
        os.rmdir(leaf)


def _find_controller(controller: str, mounts: list[Mount], own: dict[str, str]) -> str | None:
    """Our own version 1 cgroup of this controller, if it is writable, or None."""
    for mount in mounts:
        if mount.kind == "cgroup" and controller in mount.options and controller in own:
            path = visible_path(mount, own[controller])
            if path is not None and os.access(path, os.W_OK | os.X_OK):
                return path
    return None


def _words(path: str) -> frozenset[str]:
    try:
        return frozenset(_read(path).split())
    except OSError:
        return frozenset()


def _read(path: str) -> str:
    # Not open(): the io stack costs more than the read, and this is on the way of every `holdfast run`.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(fd, 65536):
            parts.append(part)
        return os.fsdecode(b"".join(parts))
    finally:
        os.close(fd)


def _unescape(text: str) -> str:
    """Decode the escapes of mountinfo, where space, tab, newline and backslash are three octal digits."""
    if "\\" not in text:
        return text
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
