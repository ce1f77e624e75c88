"""How much memory there is: the machine's, or what the container is given. Free of Polars."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")
"""Where a container finds its limit: control groups of version 2 and 1."""


def available(root: Path = _CGROUP) -> int:
    """Return the bytes of memory of this machine, or those that its control group, found below ``root``, may take if that is
    less."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in _LIMITS:
        try:
            text = (root / name).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        if text.isdecimal():  # else "max"
            found.append(int(text))
    return min(found)


def limit(megabytes: int) -> int:
    """Convert ``megabytes`` to bytes; 0 means half of the memory that there is."""
    return megabytes << 20 if megabytes else available() // 2
