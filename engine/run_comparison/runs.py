"""Runs: what is known of each, from its folder and from what its files say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from engine.inputs import FileInfo
from engine.problems import Problem, fold
from engine.run_comparison.layout import Place, path_parts, run_number, short_names, stem_of
from engine.text import clean

SUCCESS = "SUCCESS"


@dataclass(slots=True)
class Run:
    """One run of a job. ``started_ms``/``finished_ms``: from its two files, None if unreadable or absent;
    ``result``: as written in ``finished.json``, empty if it tells none. ``chunks``: numbers of its value chunks."""

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
    chunks: list[int] = field(default_factory=list)
    values: int = 0
    problems: int = 0

    @property
    def key(self) -> tuple[tuple[str, ...], str]:
        """What names the run."""
        return self.job_path, self.name

    @property
    def time_ms(self) -> int | None:
        """When it began, as well as is known."""
        for moment in (self.started_ms, self.finished_ms, self.report_ms, self.mtime_ms):
            if moment is not None:
                return moment
        return None

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

    @property
    def jobs(self) -> dict[tuple[str, ...], list[Run]]:
        """Runs by job path."""
        found: dict[tuple[str, ...], list[Run]] = defaultdict(list)
        for run in self.runs:
            found[run.job_path].append(run)
        return found


def collect_runs(
    files: Mapping[int, FileInfo],
    places: Mapping[int, Place],
    facts: pl.DataFrame,
    chunks: Iterable[tuple[int, int, str | None, int | None, int]],
) -> Runs:
    """Runs from ``files`` and their ``places``, the ``run_facts`` table, and chunks (number, file, run named in the
    file or None, time, values)."""
    found: dict[tuple[tuple[str, ...], str], Run] = {}

    def run_at(job: tuple[str, ...], name: str) -> Run:
        if (job, name) not in found:
            found[job, name] = Run(job, "", clean(name, 200), run_number(name))
        return found[job, name]

    described = {i: (place.job, place.run) for i, place in places.items()}
    inner: set[int] = set()
    for number, file, name, stamp, values in chunks:
        place = places[file]
        if name is None:
            run = run_at(place.job, place.run)
        else:
            inner.add(file)
            stem = stem_of(place.rest.rpartition("/")[2])
            job = (*place.job, stem) if stem == place.run else (*place.job, place.run, stem)
            run = run_at(job, name)
            run.report_ms = stamp
        run.chunks.append(number)
        run.values += values
        run.files.add(file)
    for i, info in files.items():
        if i in inner:
            continue
        run = run_at(*described[i])
        if info.kind != "run-metadata":
            run.files.add(i)
        inside = places[i].rest.startswith("artifacts/") or info.kind in ("run-metadata", "build-log")
        run.ci = run.ci or inside
        run.mtime_ms = info.mtime_ms if run.mtime_ms is None else min(run.mtime_ms, info.mtime_ms)
    directions = []
    for file, fact, stamp, result in facts.select("file", "fact", "time_ms", "result").iter_rows():
        if fact == "direction":
            directions.append(result)
            continue
        if file not in described:
            continue
        run = run_at(*described[file])
        if fact == "started":
            run.started_ms = stamp
        elif fact == "finished":
            run.finished, run.finished_ms, run.result = True, stamp, result or ""
        elif stamp is not None and (run.report_ms is None or stamp < run.report_ms):
            run.report_ms = stamp
    names = short_names(run.job_path for run in found.values())
    for run in found.values():
        run.job = clean(names[run.job_path], 400)
    ordered = sorted(found.values(), key=lambda r: (r.job, r.job_path, -(r.number or 0), r.name))
    bad = [
        Problem.at(f"{run.job}/{run.name}", "bad-run-name", "a run's folder is called by its number, an integer")
        for run in ordered
        if run.ci and run.number is None and any(r.number is not None for r in ordered if r.job_path == run.job_path)
    ]
    return Runs(tuple(ordered), tuple(sorted(set(directions))), tuple(bad))


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
    by_path = {clean(info.path, 4096): i for i, info in files.items()} if problems else {}
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
