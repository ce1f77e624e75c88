"""The histories that a job of a fleet result was computed from, read from where they can be reached on this machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from engine.core.inputs import Inputs
from engine.core.view import View
from engine.job_heuristics.fleet.documents import Document, inputs
from engine.live.files.opening import RegularFile
from engine.live.options import LiveSettings

MOST_BYTES = 512 << 20
"""Bytes of all files of a job that are read in the dashboard's own process."""
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://[^/]*")


@dataclass(frozen=True, slots=True)
class OwnHistories:
    """The histories of a job as inputs, or ``why`` there are none; ``missing``: files of it that are not reachable."""

    inputs: Inputs | None
    why: str = ""
    missing: tuple[str, ...] = ()


def own_histories(view: View, paths: Iterable[str], below: str) -> OwnHistories:
    """Read the files that a fleet result names by ``paths``. Never raises.

    A path of this machine is tried as it is; any is tried below the folder ``below``, without scheme and host.
    """
    documents: list[Document] = []
    missing: list[str] = []
    size = 0
    for path in paths:
        document, there = _document(path, below, MOST_BYTES - size)
        if document is None and there:
            return OwnHistories(None, f"its histories are larger than {MOST_BYTES >> 20} MB; open them themselves")
        if document is None:
            missing.append(path)
        else:
            documents.append(document)
            size += len(document.data)
    if not documents:
        first = f": {missing[0]}" if missing else ""
        hint = "" if below else "; option histories names a folder below which they are reachable"
        return OwnHistories(None, f"its histories are not reachable here{first}{hint}", tuple(missing))
    return OwnHistories(inputs(view, documents, LiveSettings(cache=False)), "", tuple(missing))


def _document(path: str, below: str, most: int) -> tuple[Document | None, bool]:
    """Return the first of the places of ``path`` that can be read, and whether there is one, too large or not."""
    for place in _places(path, below):
        try:
            opened = RegularFile(place)
        except (OSError, ValueError):
            continue
        try:
            status = opened.status
            if status.st_size > most:
                return None, True
            return Document(path, status.st_mtime_ns // 1_000_000, opened.read(status.st_size, 0)), True
        except OSError:
            continue
        finally:
            opened.close()
    return None, False


def _places(path: str, below: str) -> Iterator[str]:
    """Yield where a path of a fleet result may be on this machine."""
    local = _SCHEME.sub("", path, count=1)
    if local == path and path.startswith("/"):
        yield path
    if below:
        yield f"{below.rstrip('/')}/{local.lstrip('/')}"
