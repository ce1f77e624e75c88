"""Inputs of a view made from bytes in memory, as a session makes them from files, and the histories that a fleet result names."""

from __future__ import annotations

import contextlib
import os
import re
import stat as modes
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import polars as pl

from engine.core.compression import PACKED
from engine.core.view import Inputs, View
from engine.live.files.opening import RegularFile, inside
from engine.live.files.scan import Names
from engine.live.files.tracked_file import TrackedFile
from engine.live.ingest.follower import Follower
from engine.live.options import LiveSettings
from engine.live.store import Store

_DEVICE = 0


class Document(msgspec.Struct, frozen=True):
    """One file: its absolute path or URI, its modification time (epoch ms), and its bytes as they are on disk."""

    path: str
    mtime_ms: int
    data: bytes


def inputs(
    view: View, documents: Iterable[Document], settings: LiveSettings | None = None, *, root: str = "/"
) -> Inputs:
    """Return the inputs of ``view`` from ``documents``: the same rows as a final scan of such files.

    Names that a scan ignores are ignored; the last of several documents with one path counts. ``root``: the folder
    that labels of files are relative to. Bad documents are problems; nothing is raised for them.
    """
    settings = settings or LiveSettings()
    names = Names(settings.ignore)
    held = {document.path: document for document in documents if not _left_out(document.path, root, names)}
    # As in a session, plain files come first, so that packed copies of them are recognised.
    order = sorted(held, key=lambda path: (path.endswith(PACKED), path))
    numbers = {path: number for number, path in enumerate(order, 1)}
    newest = max((document.mtime_ms for document in held.values()), default=0)

    def open_document(path: str) -> _OpenDocument:
        return _OpenDocument(held[path], numbers[path])

    follower = Follower(
        [(view.name, kind) for kind in view.kinds],
        {view.name: Store(table for kind in view.kinds for table in kind.tables)},
        settings,
        (),
        lambda: newest,  # documents do not change: no need to wait until they settle
        open_file=open_document,
    )
    files = [TrackedFile((_DEVICE, numbers[path])) for path in order]
    for file, path in zip(files, order, strict=True):
        follower.twins.place(file, path, root)
    for file in files:
        try:
            follower.visit(file, final=True)
        # An error of ours in one document must not stop the others; a Polars panic is not an Exception.
        except (Exception, pl.exceptions.PanicException) as error:
            follower.failed(file, error)
    return follower.registry.publish(view.name, (), (file for file in files if file.problems))


class _OpenDocument:
    """A document as an open file."""

    def __init__(self, document: Document, number: int) -> None:
        self._data = document.data
        at, size = document.mtime_ms, len(document.data)
        values = (modes.S_IFREG, number, _DEVICE, 1, 0, 0, size, at // 1000, at // 1000, at // 1000)
        self.status = os.stat_result(values, {"st_mtime_ns": at * 1_000_000, "st_ctime_ns": at * 1_000_000})

    def read(self, length: int, offset: int) -> bytes:
        """Return ``length`` bytes from ``offset`` on, fewer at the end."""
        return self._data if offset == 0 and length >= len(self._data) else self._data[offset : offset + length]

    def close(self) -> None:
        """Do nothing: the bytes belong to the caller."""


def _left_out(path: str, root: str, names: Names) -> bool:
    """Whether a scan of ``root`` would not look at ``path``."""
    *folders, name = path.removeprefix(root.rstrip("/") + "/").split("/")
    return names.ignored(name) or any(names.ignored_folder(folder) for folder in folders)


MOST_BYTES = 512 << 20  # bytes of all files of a job that are read in the dashboard's own process
_SCHEME = re.compile(r"\A[a-z][a-z0-9+.-]*://[^/]*")


class OwnHistories(msgspec.Struct, frozen=True):
    """The histories of a job as inputs, or ``why`` there are none. ``missing``: its files that cannot be reached."""

    inputs: Inputs | None
    why: str = ""
    missing: tuple[str, ...] = ()


def own_histories(view: View, paths: Iterable[str], below: str, watched: Iterable[str] = ()) -> OwnHistories:
    """Read the files that a fleet result names by ``paths``. Never raises.

    A local path is tried unchanged, every path without scheme and host below the folder ``below``. A fleet result may come from a
    stranger: only what lies below that folder or one of those that are ``watched`` is opened, wherever links lead.
    """
    folders = [os.path.realpath(folder) for folder in (below, *watched) if folder]
    documents: list[Document] = []
    missing: list[str] = []
    size = 0
    for path in paths:
        document, there = _document(path, _places(path, below, folders), folders, MOST_BYTES - size)
        if document is None and there:
            return OwnHistories(None, f"its histories are larger than {MOST_BYTES >> 20} MB; open them themselves")
        if document is None:
            missing.append(path)
        else:
            documents.append(document)
            size += len(document.data)
    if not documents:
        first = f": {missing[0]}" if missing else ""
        hint = "" if below else "; option histories names the folder below which they may be read"
        return OwnHistories(None, f"its histories are not reachable here{first}{hint}", tuple(missing))
    return OwnHistories(inputs(view, documents, LiveSettings(cache=False)), "", tuple(missing))


def _document(path: str, places: Iterable[str], folders: Sequence[str], most: int) -> tuple[Document | None, bool]:
    """Return the first readable copy of ``path`` in ``places`` (None if too large), and whether one exists."""
    for place in places:
        try:
            opened = RegularFile(place, folders)
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


def _places(path: str, below: str, folders: Sequence[str]) -> Iterator[str]:
    """Yield the places in ``folders`` where the file at a path of a fleet result may lie."""
    local = _SCHEME.sub("", path, count=1)
    tried = [path] if local == path and path.startswith("/") else []
    tried += [f"{below.rstrip('/')}/{local.lstrip('/')}"] if below else []
    for place in tried:
        with contextlib.suppress(ValueError):  # a NUL
            place = os.path.realpath(place)
            if inside(place, folders):
                yield place
