"""The state of a file as a value that can be sent to another process, where the visit continues as it would here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from engine.core.reading import FileKind
from engine.live.files.tracked_file import ReaderState, TrackedFile
from engine.live.ingest.registry import Registry

_OF_FILE = (
    "head_length", "head_mark", "read_path", "stat", "seen_stat", "seen_at", "packing", "problems", "head_problems",
    "damage", "reason", "due", "verify",
)  # fmt: skip
_OF_HEAD = 2
_OF_READER = (
    "name", "consumed", "state", "mark", "digest", "problems", "late_problems", "provisional", "rest", "stale",
    "tried_final", "retained",
)  # fmt: skip
Kinds = Mapping[tuple[str, str], FileKind]  # readers by view and id


class FileState(msgspec.Struct, frozen=True):
    """A file and its readers: per reader its view, kind, id of rows, whether they have changed, info, and the rest."""

    file: tuple[Any, ...]
    readers: tuple[tuple[str, str, int, bool, Any, tuple[Any, ...]], ...]

    @property
    def read(self) -> bool:
        """Whether the file was read at all."""
        return self.file[_OF_FILE.index("stat")] is not None


def state_of(file: TrackedFile) -> FileState:
    """Return the state of ``file``. A reader with a version has changed rows (``put`` clears it)."""
    return FileState(
        tuple(getattr(file, name) for name in _OF_FILE),
        tuple((r.view, r.kind.id, r.id, bool(r.version), r.info, _reader(r)) for r in file.readers),
    )


def _reader(reader: ReaderState) -> tuple[Any, ...]:
    values = {name: getattr(reader, name) for name in _OF_READER}
    if reader.hasher is not None:
        values["digest"] = reader.hasher.intdigest()
    return tuple(values.values())


def put(file: TrackedFile, state: FileState, kinds: Kinds, registry: Registry) -> None:
    """Set a file that was never visited here to ``state``; its readers keep their ids."""
    _set(file, _OF_FILE, state.file)
    for view, kind, number, _, info, values in state.readers:
        reader = ReaderState(view, kinds[view, kind], "")
        _set(reader, _OF_READER, values)
        reader.info = info
        file.readers.append(reader)
        registry.know(reader, number)


def adopt(
    file: TrackedFile, state: FileState, kinds: Kinds, registry: Registry, *, recognised: bool
) -> dict[str, dict[int, int]]:
    """Take over the state in which another process has left ``file``. Returns per view the ids of its rows there and here.

    ``recognised``: its readers were found here, of which that process need not know all.
    """
    before, known = file.problems, {(reader.view, reader.kind.id): reader for reader in file.readers}
    begin = _OF_HEAD if recognised else 0
    _set(file, _OF_FILE[begin:], state.file[begin:])
    file.readers, ids = [], dict[str, dict[int, int]]()
    for view, kind, number, changed, info, values in state.readers:
        reader = known.pop((view, kind), None) or ReaderState(view, kinds[view, kind], "")
        file.readers.append(reader)
        if number == 0:
            registry.release(reader)
            reader.id = 0
        elif number != reader.id:
            registry.register(reader)  # read from the beginning
        elif changed and reader.provisional:
            registry.stores[view].forget_provisional(number)
        if changed:
            reader.hasher = None
            reader.version = registry.versions[view] + 1
            ids.setdefault(view, {})[number] = reader.id
        _set(reader, _OF_READER, values)
        registry.inform(
            reader, None if info is None else msgspec.structs.replace(info, id=reader.id, version=reader.version)
        )
        registry.note_problems(reader)
    for reader in known.values():
        registry.release(reader)
    if file.problems != before:
        registry.touched.update(file.views(registry.stores))
    return ids


def _set(of: TrackedFile | ReaderState, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
    for name, value in zip(names, values, strict=True):
        setattr(of, name, value)
