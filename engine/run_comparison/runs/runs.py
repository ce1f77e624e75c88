"""Runs: what is known of each, from its folder and from what its files say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter

import polars as pl

from engine.inputs import FILE, FileInfo, Inputs
from engine.problems import Problem, fold
from engine.run_comparison.runs.layout import Place, Placer, path_parts, run_number, short_names, stem_of
from engine.run_comparison.runs.measurements import Chunk, Measurements
from engine.text import clean

SUCCESS = "SUCCESS"
RunKey = tuple[tuple[str, ...], str]
"""A job's path and a run's name in it."""


@dataclass(slots=True)
class Run:
    """One run of a job. ``started_ms``/``finished_ms``: from its two files, None if unreadable or absent;
    ``result``: as written in ``finished.json``, empty if it tells none. ``chunks``: its values, by file."""

    job_path: tuple[str, ...]
    job: str
    name: str
    number: int | None = None
    started_ms: int | None = None
    finished_ms: int | None = None
    finished: bool = False
    result: str = ""
    report_ms: int | None = None
    mtime_ms: int | None = None
    ci: bool = False
    files: set[int] = field(default_factory=set)
    chunks: list[Chunk] = field(default_factory=list)
    values: int = 0
    problems: int = 0
    key: RunKey = field(init=False)
    """What names the run."""
    time_ms: int | None = field(init=False, default=None)
    """When it began, as well as is known."""
    newness: tuple[bool, int, int, str] = field(init=False)
    """Rises with number, or time, among the runs of a job."""
    place: tuple[str, tuple[str, ...], int, str] = field(init=False)
    """Place among all runs: by job, the newest first."""

    def __post_init__(self) -> None:
        """Orders are asked for much more often than runs change."""
        self.settle()

    def settle(self) -> None:
        """Bring up to date what follows from the rest."""
        moments = (self.started_ms, self.finished_ms, self.report_ms, self.mtime_ms)
        self.key = self.job_path, self.name
        self.time_ms = next((moment for moment in moments if moment is not None), None)
        self.newness = self.number is not None, self.number or 0, self.time_ms or 0, self.name
        self.place = self.job, self.job_path, -(self.number or 0), self.name

    @property
    def success(self) -> bool:
        """Upstream's rule: the result is exactly SUCCESS."""
        return self.finished and self.result == SUCCESS

    @property
    def state(self) -> str:
        """The result to show: as written, ``unfinished`` for a CI run without one, empty where runs tell none."""
        return self.result if self.finished else ("unfinished" if self.ci else "")


@dataclass(frozen=True, slots=True)
class Runs:
    """All runs, in order of job and name, and the jobs."""

    runs: tuple[Run, ...]
    directions: tuple[str, ...]
    bad_names: tuple[Problem, ...]
    jobs: dict[tuple[str, ...], list[Run]] = field(init=False, default_factory=dict)
    """Runs by job path; not to be changed."""

    def __post_init__(self) -> None:
        """Sort runs by job once."""
        for run in self.runs:
            self.jobs.setdefault(run.job_path, []).append(run)


class RunBook:
    """All runs, kept from one look to the next: a run is made anew only if one of its files changed, so that an arriving
    run costs its own files. A run that did not change stays the same object."""

    def __init__(self) -> None:
        """No runs yet."""
        self._placer = Placer()
        self._version = -1
        self._files: dict[int, FileInfo] = {}
        self._facts: dict[int, list[tuple[str, int | None, str | None]]] = {}
        self._told: dict[int, list[tuple[str, int | None, str | None]]] = {}
        self._runs_of: dict[int, tuple[RunKey, ...]] = {}
        self._files_of: dict[RunKey, set[int]] = defaultdict(set)
        self._found: dict[RunKey, Run] = {}
        self._names: dict[tuple[str, ...], str] = {}

    @property
    def places(self) -> Mapping[int, Place]:
        """Where each file lies."""
        return self._placer.places

    def update(self, inputs: Inputs, found: Measurements) -> Runs:
        """Runs from the files and the ``run_facts`` table of ``inputs``, and the measurements of the same moment."""
        known, files = self._files, inputs.files
        candidates = inputs.touched(self._version, known)
        changed = [i for i in candidates if i in files and known.get(i) != files[i]]
        gone = [i for i in candidates if i in known and i not in files]
        self._version = -1  # until this is through
        if changed or gone:
            whole = len(changed) == len(files)
            self._take_facts(
                inputs.table("run_facts") if whole else inputs.of("run_facts", frozenset(changed)), changed
            )
            touched = self._placer.update(files, changed, gone) | set(changed)
            again: set[RunKey] = set()
            for i in (*gone, *touched):
                for key in self._runs_of.pop(i, ()):
                    again.add(key)
                    self._files_of[key].discard(i)
            for i in gone:
                self._facts.pop(i, None)
                self._told.pop(i, None)
            for i in touched:
                keys = self._runs_of[i] = tuple(self._keys(i, files[i], _chunks(found, i)))
                for key in keys:
                    again.add(key)
                    self._files_of[key].add(i)
            for i in gone:
                del known[i]
            known.update((i, files[i]) for i in changed)
            for key in again:
                if self._files_of[key]:
                    self._found[key] = self._make(key, found)
                else:
                    del self._files_of[key]
                    self._found.pop(key, None)
            if self._names.keys() != (jobs := {job for job, _ in self._found}):
                self._names = {job: clean(name, 400) for job, name in short_names(jobs).items()}
                again = set(self._found)
            for key in again & self._found.keys():
                if self._found[key].job != self._names[key[0]]:
                    self._found[key] = replace(self._found[key], job=self._names[key[0]])
        self._version = inputs.version
        ordered = sorted(self._found.values(), key=attrgetter("place"))
        directions = {result or "" for facts in self._told.values() for _, _, result in facts}
        return Runs(tuple(ordered), tuple(sorted(directions)), _bad_names(ordered))

    def _take_facts(self, facts: pl.DataFrame, changed: list[int]) -> None:
        for i in changed:
            self._facts.pop(i, None)
            self._told.pop(i, None)
        for file, fact, stamp, result in facts.select(FILE, "fact", "time_ms", "result").iter_rows():
            self._facts.setdefault(file, []).append((fact, stamp, result))
            if fact == "direction":
                self._told.setdefault(file, []).append((fact, stamp, result))

    def _keys(self, i: int, info: FileInfo, chunks: tuple[Chunk, ...]) -> dict[RunKey, None]:
        """The runs that a file tells something about: its folder's, or those named in it."""
        place = self.places[i]
        keys = {self._key(place, chunk): None for chunk in chunks}
        told = any(fact != "direction" for fact, _, _ in self._facts.get(i, ()))
        if told or not any(chunk.run is not None for chunk in chunks):
            keys[place.job, place.run] = None
        return keys

    def _key(self, place: Place, chunk: Chunk) -> RunKey:
        if chunk.run is None:
            return place.job, place.run
        stem = stem_of(place.rest.rpartition("/")[2])
        return (*place.job, stem) if stem == place.run else (*place.job, place.run, stem), chunk.run

    def _make(self, key: RunKey, found: Measurements) -> Run:
        run = Run(key[0], self._names.get(key[0], ""), clean(key[1], 200), run_number(key[1]))
        for i in sorted(self._files_of[key]):
            info, place, chunks = self._files[i], self.places[i], _chunks(found, i)
            inner = False
            for chunk in chunks:
                inner = inner or chunk.run is not None
                if self._key(place, chunk) != key:
                    continue
                if chunk.run is not None:
                    run.report_ms = chunk.time_ms
                run.chunks.append(chunk)
                run.values += int(chunk.values.size)
                run.files.add(i)
            if (place.job, place.run) != key:
                continue
            if not inner:
                if info.kind != "run-metadata":
                    run.files.add(i)
                inside = place.rest.startswith("artifacts/") or info.kind in ("run-metadata", "build-log")
                run.ci = run.ci or inside
                run.mtime_ms = info.mtime_ms if run.mtime_ms is None else min(run.mtime_ms, info.mtime_ms)
            for fact, stamp, result in self._facts.get(i, ()):
                if fact == "started":
                    run.started_ms = stamp
                elif fact == "finished":
                    run.finished, run.finished_ms, run.result = True, stamp, result or ""
                elif fact == "report" and stamp is not None and (run.report_ms is None or stamp < run.report_ms):
                    run.report_ms = stamp
        run.settle()
        return run


def _chunks(found: Measurements, file: int) -> tuple[Chunk, ...]:
    return found.by_file.get(file, (0, ()))[1]


def _bad_names(ordered: Iterable[Run]) -> tuple[Problem, ...]:
    """Run folders that are not called by a number in jobs where others are."""
    odd = [run for run in ordered if run.number is None and run.ci]
    numbered = {run.job_path for run in ordered if run.number is not None} if odd else set()
    return tuple(
        Problem.at(f"{run.job}/{run.name}", "bad-run-name", "a run's folder is called by its number, an integer")
        for run in odd
        if run.job_path in numbered
    )


def _place_of(path: str, jobs: Mapping[tuple[str, ...], str]) -> Place | None:
    """Where a file belongs that gave no rows: below a job's folder."""
    parts = path_parts(path)
    for at in range(len(parts) - 2, 0, -1):
        if parts[:at] in jobs:
            return Place(parts[:at], parts[at], "/".join(parts[at + 1 :]))
    return None


def name_problems(
    problems: Iterable[Problem], files: Mapping[int, FileInfo], places: Mapping[int, Place], runs: Runs
) -> tuple[Problem, ...]:
    """Problems by ``<job>/<run>/…``, one per file: reasons joined, counts added; counts each run's in its record."""
    problems = tuple(problems)
    if not problems:
        return ()
    by_path = {clean(info.path, 4096): i for i, info in files.items()}
    records = {run.key: run for run in runs.runs}
    names = {run.job_path: run.job for run in runs.runs}
    shown: dict[str, list[Problem]] = defaultdict(list)
    owners: dict[str, Run | None] = {}
    for problem in problems:
        file = by_path.get(problem.path)
        label, owner = problem.path, None
        place = places[file] if file is not None else _place_of(problem.path, names)
        if place is not None:
            job = names.get(place.job, place.job[-1] if place.job else "")
            label = clean(f"{job}/{place.run}/{place.rest}", 4096)
            owner = records.get((place.job, place.run))
        shown[label].append(problem)
        owners[label] = owner
    for label, same in shown.items():
        owner = owners[label]
        if owner is not None:
            owner.problems += sum(problem.count for problem in same)
    relabelled = (replace(problem, path=label) for label, same in shown.items() for problem in same)
    return one_per_file(relabelled)


def one_per_file(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems of one path as one: the first place, the commonest kind, reasons joined, counts added."""
    shown: dict[str, list[Problem]] = defaultdict(list)
    for problem in problems:
        shown[problem.path].append(problem)
    merged = []
    for path, same in shown.items():
        first = same[0]
        kind = Counter(p.kind for p in same).most_common(1)[0][0]
        reason = "; ".join(dict.fromkeys(p.reason for p in same))
        total = sum(p.count for p in same)
        merged.append(Problem.at(path, kind, reason, line=first.line, byte=first.byte, count=total))
    return fold(merged)
