"""Where runs lie on disk: which folder is a run, which a job, and what a file is called inside its run."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from engine.inputs import FileInfo

GENERIC = frozenset(
    {"artifacts", "_artifacts", "report", "reports", "results", "result", "metrics", "clusterloader2", "output", "out"}
)
"""Folder names that say nothing: a run's own folder lies above them."""

_ENDING = re.compile(r"\.(?:json|txt|csv|tsv|log|out|stdout|bench|xml)$", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FOLDER_KINDS = frozenset({"clusterloader-report", "run-metadata", "build-log"})
"""Kinds of which several files make one run; of the others a file can be a run of its own."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file belongs: ``job`` is the path of the job's folder as parts, ``run`` its name in the job, ``rest``
    the path inside the run."""

    job: tuple[str, ...]
    run: str
    rest: str


def path_parts(path: str) -> tuple[str, ...]:
    """The parts of a normalised POSIX path, as ``pathlib`` has them, at a tenth of its price."""
    if path.startswith("/"):
        return ("/", *path[1:].split("/"))
    return tuple(path.split("/"))


def stem_of(name: str) -> str:
    """A file's name without the ending that tells its format; other dots (versions, times) stay."""
    return _ENDING.sub("", name.removesuffix(".zst").removesuffix(".gz")) or name


def run_number(name: str) -> int | None:
    """A run's number if its folder is called like a 64-bit integer."""
    if len(name) > 20 or not _INTEGER.fullmatch(name):
        return None
    number = int(name)
    return number if -(2**63) <= number < 2**63 else None


class Placer:
    """Places of all files, kept from one look to the next: only files that came, and those below a folder that became
    a run or ceased to be one, are placed again.

    A folder with ``started.json`` or ``finished.json`` is a run; else the first folder below the watched root that is
    called like a number; else a sibling of such folders. Reports elsewhere make their folder the run. Files of other
    tools make their folder the run if a neighbouring folder holds a file of the same name, else are runs themselves.
    """

    def __init__(self) -> None:
        """No files yet."""
        self.places: dict[int, Place] = {}
        self._parts: dict[int, tuple[str, ...]] = {}
        self._below: dict[int, int] = {}
        self._run_at: dict[int, int] = {}
        self._rest: set[int] = set()
        self._folders: dict[tuple[str, ...], set[int]] = defaultdict(set)
        self._marks: dict[tuple[str, ...], set[int]] = defaultdict(set)
        self._above: set[tuple[str, ...]] | None = None
        """Folders that hold files, at any depth, or once did; None until files are added to others."""

    def update(self, files: Mapping[int, FileInfo], changed: Iterable[int], gone: Iterable[int]) -> set[int]:
        """Files whose place is new or another; ``changed``: ids of new files and of those with new facts."""
        touched = set(changed)
        at_stake = {parts[:-1] for i in gone if (parts := self._parts.get(i)) is not None}
        at_stake.update(parts[:-1] for i in touched if (parts := self._parts.get(i)) is not None)
        at_stake.update(path_parts(files[i].path)[:-1] for i in touched)
        marked_before = at_stake & self._marks.keys()
        if self._parts and self._above is None:
            self._above = {parent[:end] for parent in self._folders for end in range(1, len(parent) + 1)}
        peopled = at_stake & self._above if self._above is not None else at_stake
        for i in gone:
            self._drop(i)
        for i in touched:
            if i in self._parts:
                self._drop(i, keep_place=True)
            parts = self._parts[i] = path_parts(files[i].path)
            self._below[i] = len(parts) - 1 - files[i].label.count("/")
            self._folders[parts[:-1]].add(i)
            if files[i].kind == "run-metadata":
                self._marks[parts[:-1]].add(i)
        if self._above is not None:
            fresh = {self._parts[i][:-1] for i in touched} - self._above
            self._above.update(parent[:end] for parent in fresh for end in range(1, len(parent) + 1))
        turned = (marked_before ^ (at_stake & self._marks.keys())) & peopled
        if turned and len(touched) < len(self._parts):
            lengths = {len(folder) for folder in turned}
            for parent, inside in self._folders.items():
                if any(parent[:length] in turned for length in lengths):
                    touched |= inside
        moved: set[int] = set()
        for i in touched:
            at = _marked_folder(self._parts[i], self._below[i], self._marks)
            if at is None:
                at = _numbered_folder(self._parts[i], self._below[i])
            if at is None:
                self._run_at.pop(i, None)
                self._rest.add(i)
                continue
            self._rest.discard(i)
            self._run_at[i] = at
            self._put(i, at, moved)
        if self._rest:
            self._place_rest(files, moved)
        return moved

    def _drop(self, i: int, keep_place: bool = False) -> None:
        parts = self._parts.pop(i)
        for known in (self._folders, self._marks):
            inside = known.get(parts[:-1])
            if inside is not None:
                inside.discard(i)
                if not inside:
                    del known[parts[:-1]]
        self._below.pop(i)
        self._run_at.pop(i, None)
        self._rest.discard(i)
        if not keep_place:
            self.places.pop(i, None)

    def _put(self, i: int, at: int, moved: set[int]) -> None:
        parts = self._parts[i]
        self._set(i, Place(parts[:at], parts[at], "/".join(parts[at + 1 :])), moved)

    def _set(self, i: int, place: Place, moved: set[int]) -> None:
        if self.places.get(i) != place:
            self.places[i] = place
            moved.add(i)

    def _place_rest(self, files: Mapping[int, FileInfo], moved: set[int]) -> None:
        """Files that lie in no folder known as a run: they depend on each other."""
        jobs = {self._parts[i][:at] for i, at in self._run_at.items()}
        loose = []
        for i in sorted(self._rest):
            parts = self._parts[i]
            ends = range(max(self._below[i] - 1, 1), len(parts) - 1)
            at = next((at for at in ends if parts[:at] in jobs), None)
            if at is None:
                loose.append(i)
            else:
                self._put(i, at, moved)
        folders = {i: _meaningful(self._parts[i][:-1], self._below[i]) for i in loose}
        twins: dict[tuple[tuple[str, ...], str], set[str]] = defaultdict(set)
        for i, folder in folders.items():
            twins[folder[:-1], self._parts[i][-1]].add(folder[-1])
        for i, folder in folders.items():
            parts = self._parts[i]
            if files[i].kind in _FOLDER_KINDS or len(twins[folder[:-1], parts[-1]]) > 1:
                place = Place(folder[:-1], folder[-1], "/".join(parts[len(folder) :]))
            else:
                place = Place(folder, stem_of(parts[-1]), parts[-1])
            self._set(i, place, moved)


def _marked_folder(parts: tuple[str, ...], below: int, marked: Container[tuple[str, ...]]) -> int | None:
    for at in range(len(parts) - 2, max(below - 2, 0), -1):
        if parts[: at + 1] in marked:
            return at
    return None


def _numbered_folder(parts: tuple[str, ...], below: int) -> int | None:
    for at in range(below, len(parts) - 1):
        if _NUMBER.fullmatch(parts[at]):
            return at
    if below >= 2 and all(part in GENERIC for part in parts[below:-1]) and _NUMBER.fullmatch(parts[below - 1]):
        return below - 1
    return None


def _meaningful(folder: tuple[str, ...], below: int) -> tuple[str, ...]:
    end = len(folder)
    while end > max(below - 1, 2) and folder[end - 1] in GENERIC:
        end -= 1
    return folder[:end]


def short_names(jobs: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """The shortest end of each job's path that no other job has."""
    todo = set(jobs)
    names: dict[tuple[str, ...], str] = {}
    depth = 1
    while todo:
        ends: dict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
        for job in todo:
            ends[job[-depth:]].append(job)
        for end, same in ends.items():
            if len(same) == 1 or all(len(job) <= depth for job in same):
                for job in same:
                    names[job] = "/".join(end)
                    todo.discard(job)
        depth += 1
    return names
