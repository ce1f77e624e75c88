"""Atomic writes: no reader sees a part of a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def put(files: Mapping[Path, str | bytes]) -> None:
    """Write files whole or not at all, all at the same moment: who watches them looks once.

    Each is written beside its place, under a name that a scan leaves out, then renamed.
    """
    parts = {path: path.with_name(f".{path.name}.tmp") for path in files}
    for path, part in parts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        data = files[path]
        part.write_bytes(data.encode() if isinstance(data, str) else data)
    for path, part in parts.items():
        part.replace(path)
