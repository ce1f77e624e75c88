"""Where runs lie on disk: which folder is a run, which a job, and what a file is called inside its run."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
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


def place_files(files: Mapping[int, FileInfo]) -> dict[int, Place]:
    """Place of each file.

    A folder with ``started.json`` or ``finished.json`` is a run; else the first folder below the watched root that is
    called like a number; else a sibling of such folders. Reports elsewhere make their folder the run. Files of other
    tools make their folder the run if a neighbouring folder holds a file of the same name, else are runs themselves.
    """
    parts = {i: path_parts(info.path) for i, info in files.items()}
    below = {i: len(parts[i]) - 1 - info.label.count("/") for i, info in files.items()}
    marked = {parts[i][:-1] for i, info in files.items() if info.kind == "run-metadata"}
    found: dict[int, int] = {}
    for i in files:
        at = _marked_folder(parts[i], below[i], marked)
        if at is None:
            at = _numbered_folder(parts[i], below[i])
        if at is not None:
            found[i] = at
    jobs = {parts[i][:at] for i, at in found.items()}
    rest = [i for i in files if i not in found]
    for i in rest:
        for at in range(max(below[i] - 1, 1), len(parts[i]) - 1):
            if parts[i][:at] in jobs:
                found[i] = at
                break
    places = {i: Place(parts[i][:at], parts[i][at], "/".join(parts[i][at + 1 :])) for i, at in found.items()}
    loose = [i for i in rest if i not in found]
    twins: dict[tuple[tuple[str, ...], str], set[str]] = defaultdict(set)
    for i in loose:
        folder = _meaningful(parts[i][:-1], below[i])
        twins[folder[:-1], parts[i][-1]].add(folder[-1])
    for i in loose:
        folder = _meaningful(parts[i][:-1], below[i])
        if files[i].kind in _FOLDER_KINDS or len(twins[folder[:-1], parts[i][-1]]) > 1:
            places[i] = Place(folder[:-1], folder[-1], "/".join(parts[i][len(folder) :]))
        else:
            places[i] = Place(folder, stem_of(parts[i][-1]), parts[i][-1])
    return places


def _marked_folder(parts: tuple[str, ...], below: int, marked: set[tuple[str, ...]]) -> int | None:
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
