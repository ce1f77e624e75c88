"""Find the run and the job of each file from its path (docs/models/run-comparison.md, Runs and jobs)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from engine.core.view import FileInfo

GENERIC = frozenset(
    {"artifacts", "_artifacts", "report", "reports", "results", "result", "metrics", "clusterloader2", "output", "out"}
)
"""Names of folders inside a run: the run's own folder lies above them."""

_ENDING = re.compile(r"\.(?:json|txt|csv|tsv|log|out|stdout|bench|xml)$", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+")
_CRITERION = re.compile(r"(?:/target)?/criterion/")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FOLDER_KINDS = frozenset({"clusterloader-report", "run-metadata", "build-log", "criterion"})
"""Kinds of file of which a run has several; a file of another kind can itself be a run."""


class Place(NamedTuple):
    """Where a file belongs: path of the job's folder in parts, name of the run in that job, path inside the run."""

    job: tuple[str, ...]
    run: str
    rest: str


def path_parts(path: str) -> tuple[str, ...]:
    """Split a normalised POSIX path into its parts, as ``PurePosixPath.parts`` does at ten times the cost."""
    return ("/", *path[1:].split("/")) if path.startswith("/") else tuple(path.split("/"))


def stem_of(name: str) -> str:
    """Return a file's name without the ending of its format; other dots (versions, times) stay."""
    return _ENDING.sub("", name.removesuffix(".zst").removesuffix(".gz")) or name


def run_number(name: str) -> int | None:
    """Return a run's number, or None if its folder is not named like a 64-bit integer (``007`` is: 7)."""
    if len(name) > 255 or not _INTEGER.fullmatch(name):
        return None
    number = int(name)
    return number if -(2**63) <= number < 2**63 else None


class _Folder(NamedTuple):
    """A folder that holds files: its path in parts, and the number of parts above the watched root's content."""

    parts: tuple[str, ...]
    below: int


def place_files(files: Mapping[int, FileInfo]) -> dict[int, Place]:
    """Return the place of each file by its id.

    A folder with ``started.json`` or ``finished.json`` is a run; else the first folder below the watched root that is
    named like a number; else a sibling of such folders. Reports elsewhere make their folder the run. Files of other
    tools make their folder the run if a neighbouring folder holds a file of the same name, else each is a run.
    """
    by_folder: dict[tuple[str, int], list[int]] = defaultdict(list)
    for file, info in files.items():
        above, depth = info.path.rpartition("/")[0], info.label.count("/")
        if info.kind == "criterion" and (begin := _CRITERION.search(above)):
            depth -= above.count("/", begin.start())  # its folders are named by benchmarks and their parameters
            above = above[: begin.start()]
        by_folder[above, depth].append(file)
    folders: dict[_Folder, list[int]] = {}
    marked: set[tuple[str, ...]] = set()
    for (whole, depth), inside in by_folder.items():
        parts = path_parts(whole)
        folders[_Folder(parts, len(parts) - depth)] = inside
        if any(files[file].kind == "run-metadata" for file in inside):
            marked.add(parts)
    places: dict[int, Place] = {}
    unplaced: dict[_Folder, list[int]] = {}
    jobs = set()
    for folder, inside in folders.items():
        # the innermost folder with a run's metadata, else the outermost one named like a number
        ends = range(len(folder.parts) - 1, max(folder.below - 2, 0), -1)
        run = next((at for at in ends if folder.parts[: at + 1] in marked), None)
        at = _numbered_run(folder) if run is None else run
        if at is None:
            unplaced[folder] = inside
        else:
            jobs.add(folder.parts[:at])
            _place_in_run(folder, at, inside, files, places)
    loose = []
    for folder, inside in unplaced.items():
        ends = range(max(folder.below - 1, 1), len(folder.parts))
        at = next((end for end in ends if folder.parts[:end] in jobs), None)  # a sibling of runs is a run
        if at is None:
            loose += [(folder, file) for file in inside]
        else:
            _place_in_run(folder, at, inside, files, places)
    places.update(_place_loose_files(loose, files))
    return places


def _place_in_run(
    folder: _Folder, at: int, inside: list[int], files: Mapping[int, FileInfo], places: dict[int, Place]
) -> None:
    """Place the files of ``folder`` in the run that is the part of its path at ``at``."""
    job, run = folder.parts[:at], folder.parts[at]
    above = "".join(f"{part}/" for part in folder.parts[at + 1 :])
    for file in inside:
        places[file] = Place(job, run, above + files[file].path.rpartition("/")[2])


def _place_loose_files(loose: list[tuple[_Folder, int]], files: Mapping[int, FileInfo]) -> dict[int, Place]:
    """Place files that lie neither in a run's folder nor beside one: the run is their folder or the file itself."""
    places = {}
    homes = {file: _without_generic_end(folder) for folder, file in loose}
    twins: dict[tuple[tuple[str, ...], str], set[str]] = defaultdict(set)
    names = {file: files[file].path.rpartition("/")[2] for _, file in loose}
    for file, home in homes.items():
        twins[home[:-1], names[file]].add(home[-1])
    for folder, file in loose:
        home, name = homes[file], names[file]
        if files[file].kind in _FOLDER_KINDS or len(twins[home[:-1], name]) > 1:
            places[file] = Place(home[:-1], home[-1], "/".join((*folder.parts[len(home) :], name)))
        else:
            places[file] = Place(home, stem_of(name), name)
    return places


def _numbered_run(folder: _Folder) -> int | None:
    """Return the place in the path of the outermost folder named like a number, None without one."""
    parts, below = folder
    generic = below >= 2 and all(part in GENERIC for part in parts[below:])
    places = (*range(below, len(parts)), *([below - 1] if generic else []))
    return next((at for at in places if _NUMBER.fullmatch(parts[at])), None)


def _without_generic_end(folder: _Folder) -> tuple[str, ...]:
    """Return the path of a folder without the generic folders at its end."""
    end = len(folder.parts)
    while end > max(folder.below - 1, 2) and folder.parts[end - 1] in GENERIC:
        end -= 1
    return folder.parts[:end]


def short_names(jobs: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Return the shortest unique end of each job's path."""
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
