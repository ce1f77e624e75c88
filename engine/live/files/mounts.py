"""File systems that give no change events: a root on one of them is scanned on a timer."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs"}
_CLUSTER = {"orangefs", "pvfs2", "ocfs2", "gfs2", "9p", "virtiofs", "davfs", "coda"}
_LAYERED = {"prl_fs", "vboxsf", "vmhgfs", "overlay", "overlayfs", "aufs", "drvfs", "proc", "sysfs"}
_NO_EVENTS = frozenset(_NETWORK | _CLUSTER | _LAYERED)
_ESCAPED = re.compile(r"\\([0-7]{3})")


def parse(mountinfo: str) -> list[tuple[str, str]]:
    """Return mount points and their file system types, in the order of ``/proc/self/mountinfo`` (later ones lie on top)."""
    points = []
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(" - ")
        fields = left.split(" ")
        if dash and len(fields) >= 5:
            point = _ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), fields[4])
            points.append((point, right.split(" ")[0]))
    return points


def type_of(path: str, mounts: list[tuple[str, str]]) -> str:
    """Return the file system type of the mount that holds ``path`` (absolute, resolved); empty if none does."""
    best, kind = -1, ""
    for point, name in mounts:
        if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= best:
            best, kind = len(point), name
    return kind


@lru_cache(maxsize=1)
def _mounts(stamp: int) -> list[tuple[str, str]]:
    try:
        return parse(Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError:
        return []


def silent(path: str) -> str:
    """Return the type of the file system that holds ``path`` if it gives no events for changes made elsewhere, else empty.

    Network and layered file systems do not; neither does FUSE in general (sshfs, s3fs).
    """
    import time

    kind = type_of(os.path.realpath(path), _mounts(int(time.monotonic() // 5)))
    return kind if kind in _NO_EVENTS or kind.startswith("fuse.") or kind == "fuse" else ""
