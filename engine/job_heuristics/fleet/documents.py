"""Documents: the inputs of a view made from bytes in memory, as a session makes them from files on disk."""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from engine.core.compression import PACKED
from engine.core.inputs import Inputs
from engine.core.view import View
from engine.live.files.scan import Names
from engine.live.files.tracked_file import TrackedFile
from engine.live.ingest.follower import Follower
from engine.live.options import LiveSettings
from engine.live.store import Store

_DEVICE = 0


@dataclass(frozen=True, slots=True)
class Document:
    """One file: its absolute path or URI, its modification time (epoch ms), and its bytes as they are on disk."""

    path: str
    mtime_ms: int
    data: bytes


def inputs(
    view: View, documents: Iterable[Document], settings: LiveSettings | None = None, *, root: str = "/"
) -> Inputs:
    """Return what ``view`` computes on: all rows of ``documents``, equal to those of a final scan of such files.

    Names that a scan leaves out are left out here; of several documents of one path the last one counts. ``root``: the
    folder that labels of files are relative to. Bad documents are problems; nothing is raised for them.
    """
    settings = settings or LiveSettings()
    names = Names(settings.ignore)
    held = {document.path: document for document in documents if not _left_out(document.path, root, names)}
    # As in a session: plain files first, so that a packed copy beside one is known as such.
    order = sorted(held, key=lambda path: (path.endswith(PACKED), path))
    numbers = {path: number for number, path in enumerate(order, 1)}
    newest = max((document.mtime_ms for document in held.values()), default=0)

    def open_document(path: str) -> _OpenDocument:
        return _OpenDocument(held[path], numbers[path])

    follower = Follower(
        [(view.name, kind) for kind in view.kinds],
        {view.name: Store(table for kind in view.kinds for table in kind.tables)},
        settings,
        lambda: newest,  # nothing waits for a document to settle: no clock is asked
        open_file=open_document,
    )
    files = [TrackedFile((_DEVICE, numbers[path])) for path in order]
    for file, path in zip(files, order, strict=True):
        follower.twins.place(file, path, root)
    for file in files:
        try:
            follower.visit(file, final=True)
        # A mistake of ours with one document must not keep the others from being read; one of Polars is no Exception.
        except (Exception, pl.exceptions.PanicException) as error:
            follower.failed(file, error)
    return follower.registry.publish(view.name, (), (file for file in files if file.problems))


class _OpenDocument:
    """A document as an open file."""

    def __init__(self, document: Document, number: int) -> None:
        self._data = document.data
        at, size = document.mtime_ms, len(document.data)
        times = {"st_mtime_ns": at * 1_000_000, "st_ctime_ns": at * 1_000_000}
        values = (modes.S_IFREG, number, _DEVICE, 1, 0, 0, size, at // 1000, at // 1000, at // 1000)
        self.status = os.stat_result(values, times)

    def read(self, length: int, offset: int) -> bytes:
        """Return ``length`` bytes from ``offset`` on, fewer at the end."""
        return self._data if offset == 0 and length >= len(self._data) else self._data[offset : offset + length]

    def close(self) -> None:
        """Do nothing: the bytes belong to the caller."""


def _left_out(path: str, root: str, names: Names) -> bool:
    """Whether a scan of ``root`` would not look at ``path``."""
    relative = path.removeprefix(root.rstrip("/") + "/")
    *folders, name = relative.split("/")
    return names.ignored(name) or any(names.ignored_folder(folder) for folder in folders)
