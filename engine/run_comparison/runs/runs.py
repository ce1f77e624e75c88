"""Find the runs from folders, files and the values in them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

import msgspec

from engine.core.incremental import Memo, Partials
from engine.core.reading import Problem, clean, fold
from engine.core.view import FILE, FileInfo, Inputs
from engine.run_comparison.reading.series import Direction
from engine.run_comparison.runs.layout import Place, path_parts, place_files, run_number, short_names, stem_of
from engine.run_comparison.runs.measurements import Chunk, Measurements

SUCCESS = "SUCCESS"  # the result of a run that perf-tests' benchmark tool takes, exactly as ``finished.json`` has it

RunKey = tuple[tuple[str, ...], str]  # path of a job and name of a run in it


class Fact(NamedTuple):
    """One row of the ``run_facts`` table."""

    name: str
    time_ms: int | None
    result: str | None


class UpstreamView(NamedTuple):
    """A run as perf-tests' benchmark tool reads it, by Go's rules.

    ``start_s``: start in epoch seconds, None without a readable ``started.json``. ``success``: whether
    ``finished.json`` has the result SUCCESS. ``refused``: metadata files that it cannot read, with reasons.
    ``empty``: paths of its reports without any value.
    """

    start_s: int | None = None
    success: bool = False
    refused: tuple[tuple[str, str], ...] = ()
    empty: tuple[str, ...] = ()


_NOTHING = UpstreamView()


class Run(msgspec.Struct, frozen=True, eq=False):
    """One run of a job. A run whose files did not change stays the same object, so that it can be a key.

    ``started_ms``, ``finished_ms``: from the run's two metadata files, None if absent or unreadable. ``result``: as
    written in ``finished.json``, empty if it has none. ``ci``: laid out like a run of the Kubernetes CI. ``chunks``: its
    values by file, each with the path of the file inside the run; ``is_reduced``: they were dropped. ``upstream``: the run
    as perf-tests' benchmark tool reads it.
    """

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
    files: frozenset[int] = frozenset()
    chunks: tuple[tuple[str, Chunk], ...] = ()
    is_reduced: bool = False
    upstream: UpstreamView = _NOTHING

    @property
    def key(self) -> RunKey:
        """The run's identity among all runs."""
        return self.job_path, self.name

    @property
    def values(self) -> int:
        """Number of values in its files."""
        return sum(chunk.values.size for _, chunk in self.chunks)

    @property
    def time_ms(self) -> int | None:
        """When the run began: its start, else its end, its report or its oldest file."""
        moments = (self.started_ms, self.finished_ms, self.report_ms, self.mtime_ms)
        return next((moment for moment in moments if moment is not None), None)

    @property
    def is_timed(self) -> bool:
        """Whether its files say when it began or ended."""
        return (self.started_ms, self.finished_ms, self.report_ms) != (None, None, None)

    @property
    def age_order(self) -> tuple[bool, int, int, str]:
        """Sort key among the runs of a job: by number, or by time where there is none; the newest run is the largest."""
        return self.number is not None, self.number or 0, self.time_ms or 0, self.name

    @property
    def success(self) -> bool:
        """Whether the run finished with exactly ``SUCCESS``, whatever else the file holds."""
        return self.finished and self.result == SUCCESS

    @property
    def state(self) -> str:
        """The result as shown: as written, ``unfinished`` for a CI run without one, empty where runs have none."""
        return self.result if self.finished else ("unfinished" if self.ci else "")


class Runs(msgspec.Struct, frozen=True, eq=False, dict=True):
    """All runs by job, newest first. ``directions``: statements of their files; ``left_out``: number of older runs that were
    left out, and why; ``notes``: what readers decided about their files."""

    runs: tuple[Run, ...]
    directions: tuple[Direction, ...]
    bad_names: tuple[Problem, ...]
    places: Mapping[int, Place]
    left_out: str = ""
    notes: tuple[str, ...] = ()

    @cached_property
    def jobs(self) -> dict[tuple[str, ...], list[Run]]:
        """The runs by job path."""
        by_job: dict[tuple[str, ...], list[Run]] = {}
        for run in self.runs:
            by_job.setdefault(run.job_path, []).append(run)
        return by_job

    def until(self, time_ms: int) -> Runs:
        """Return the runs that began at ``time_ms`` or before, and those without a time."""
        return msgspec.structs.replace(
            self, runs=tuple(run for run in self.runs if run.time_ms is None or run.time_ms <= time_ms)
        )


def argument_of_runs(inputs: Inputs, runs: Runs) -> dict[RunKey, int]:
    """Return which of two paths of the command line, 0 or 1, each run lies below; empty for another number of paths."""
    if len(inputs.roots) != 2:
        return {}
    found: dict[RunKey, int] = {}
    for run in runs.runs:
        paths = [inputs.files[file].path for file in run.files if file in inputs.files]
        for place, root in enumerate(inputs.roots):
            if paths and all(f"{path}/".startswith(f"{root.rstrip('/')}/") for path in paths):
                found[run.key] = place
    return found


MEMORY_SHARE = 4  # values of all runs may take this fraction of the memory (1/4)
FEWEST = 20  # runs of a job that are kept whatever memory they take


def find_runs(inputs: Inputs, measurements: Measurements, memo: Memo, most: int, memory: int) -> Runs:
    """Return the newest ``most`` runs of each job, fewer if their values would exceed a share of ``memory`` bytes.

    Values of older runs are dropped. Only runs whose files changed are rebuilt.
    """
    files = inputs.files
    places = memo.value("places", tuple(files), lambda: place_files(files))
    facts: Partials[int, tuple[Fact, ...]] = memo.state("run facts", Partials)
    facts.update({file: info.version for file, info in files.items()}, lambda changed: _read_facts(inputs, changed))
    files_of: dict[RunKey, list[int]] = defaultdict(list)
    for file in files:
        for key in _runs_of_file(places[file], measurements.of_file[file], facts[file]):
            files_of[key].append(file)
    names = {path: clean(name, 400) for path, name in short_names({job for job, _ in files_of}).items()}
    stamps = {
        key: (names[key[0]], *((file, files[file].version, files[file].mtime_ms, places[file]) for file in sorted(own)))
        for key, own in files_of.items()
    }

    def make(keys: Collection[RunKey]) -> dict[RunKey, Run]:
        return {
            key: _make_run(
                key,
                names[key[0]],
                [(files[i], places[i], measurements.of_file[i], facts[i]) for i in sorted(files_of[key])],
            )
            for key in keys
        }

    by_key: Partials[RunKey, Run] = memo.state("runs by key", Partials)
    by_key.update(stamps, make, key=most)
    ages = _ages(by_key.values())
    newest = _newest(by_key.values(), ages, most, memory // MEMORY_SHARE)
    left_out = ""
    if gone := len(by_key) - len(newest):
        why = "max-runs" if any(age >= most for age in ages.values()) else "memory-mb"
        left_out = f"the oldest {gone:,} of {len(by_key):,} runs are left out ({why})"
        _drop_old(by_key, {run.key for run in newest}, measurements)
    runs = sorted(newest, key=lambda run: (run.job, run.job_path, -(run.number or 0), run.name))
    stated = {fact.result for of_file in facts.values() for fact in of_file if fact.name == "direction" and fact.result}
    directions = tuple(Direction.unpack(text) for text in sorted(stated))
    notes = tuple(sorted({fact.result or "" for of_file in facts.values() for fact in of_file if fact.name == "note"}))
    numbered_jobs = {run.job_path for run in runs if run.number is not None}
    bad_names = tuple(
        Problem.at(f"{run.job}/{run.name}", "bad-run-name", "a run's folder is called by its number, an integer")
        for run in runs
        if run.number is None and run.ci and run.job_path in numbered_jobs
    )
    return Runs(tuple(runs), directions, bad_names, places, left_out, notes)


def _ages(runs: Iterable[Run]) -> dict[RunKey, int]:
    """Return the number of newer runs in the job of each run."""
    jobs: dict[tuple[str, ...], list[Run]] = defaultdict(list)
    for run in runs:
        jobs[run.job_path].append(run)
    return {
        run.key: age
        for of_job in jobs.values()
        for age, run in enumerate(sorted(of_job, key=lambda run: run.age_order, reverse=True))
    }


def _newest(runs: Collection[Run], ages: Mapping[RunKey, int], most: int, memory: int) -> list[Run]:
    """Return the newest ``most`` runs of each job; beyond FEWEST, the newest of all jobs that fit into ``memory`` bytes."""
    newest = []
    for run in sorted(runs, key=lambda run: ages[run.key]):
        memory -= sum(chunk.nbytes for _, chunk in run.chunks)
        age = ages[run.key]
        if age >= most or run.is_reduced or (age >= FEWEST and memory < 0):
            continue
        newest.append(run)
    return newest


def _drop_old(by_key: Partials[RunKey, Run], newest: Collection[RunKey], measurements: Measurements) -> None:
    """Reduce all runs but the ``newest``, and the measurements of files that only they use."""
    needed = {file for key in newest for file in by_key[key].files}
    for key, run in by_key.items():
        if key not in newest and not run.is_reduced:
            by_key.reduce(key, msgspec.structs.replace(run, chunks=(), is_reduced=True))
            for file in run.files - needed:
                of_file = measurements.of_file
                of_file.reduce(file, tuple(chunk.reduced() for chunk in of_file[file]))


def _read_facts(inputs: Inputs, files: Collection[int]) -> dict[int, tuple[Fact, ...]]:
    frame = inputs.table("run_facts") if (len(files) == len(inputs.files)) else inputs.of("run_facts", frozenset(files))
    facts: dict[int, list[Fact]] = {file: [] for file in files}
    for file, *fact in frame.select(FILE, "fact", "time_ms", "result").iter_rows():
        facts[file].append(Fact(*fact))
    return {file: tuple(each) for file, each in facts.items()}


def _runs_of_file(place: Place, chunks: tuple[Chunk, ...], facts: tuple[Fact, ...]) -> dict[RunKey, None]:
    """Return the runs that a file belongs to: the run of its folder, or those named in the file."""
    keys = {_run_of_chunk(place, chunk): None for chunk in chunks}
    if any(fact.name not in ("direction", "note") for fact in facts) or not any(
        chunk.run is not None for chunk in chunks
    ):
        keys[place.job, place.run] = None
    return keys


def _run_of_chunk(place: Place, chunk: Chunk) -> RunKey:
    if chunk.run is None:
        return place.job, place.run
    stem = stem_of(place.rest.rpartition("/")[2])
    return (*place.job, stem) if stem == place.run else (*place.job, place.run, stem), chunk.run


_RunFile = tuple[FileInfo, Place, tuple[Chunk, ...], tuple[Fact, ...]]
"""A file of a run: its description, its place, its values and its facts."""


def _make_run(key: RunKey, job: str, run_files: Iterable[_RunFile]) -> Run:
    mtime_ms = report_ms = None
    ci = False
    marks: dict[str, Fact] = {}
    empty: list[str] = []
    files: set[int] = set()
    values: list[tuple[str, Chunk]] = []
    for info, place, chunks, facts in run_files:
        for chunk in chunks:
            if _run_of_chunk(place, chunk) == key:
                if chunk.run is not None:
                    report_ms = chunk.time_ms
                values.append((place.rest, chunk))
                files.add(info.id)
        if (place.job, place.run) != key:
            continue
        if all(chunk.run is None for chunk in chunks):
            if info.kind != "run-metadata":
                files.add(info.id)
            ci = ci or place.rest.startswith("artifacts/") or info.kind in ("run-metadata", "build-log")
            mtime_ms = info.mtime_ms if mtime_ms is None else min(mtime_ms, info.mtime_ms)
        for fact in facts:
            if fact.name == "no-values":
                empty.append(place.rest)
            elif fact.name == "report" and fact.time_ms is not None:
                report_ms = fact.time_ms if report_ms is None else min(report_ms, fact.time_ms)
            else:
                marks[fact.name] = fact
    started, finished, start = marks.get("started"), marks.get("finished"), marks.get("upstream-start")
    refused = tuple(
        (f"{name}.json", why.result or "")
        for name in ("started", "finished")
        if (why := marks.get(f"refused-{name}")) is not None
    )
    upstream = UpstreamView(
        int(start.result or 0) if start else None, "upstream-success" in marks, refused, tuple(sorted(empty))
    )
    return Run(
        key[0], job, clean(key[1], 200), run_number(key[1]), started.time_ms if started else None,
        finished.time_ms if finished else None, finished is not None, (finished.result or "") if finished else "",
        report_ms, mtime_ms, ci, frozenset(files), tuple(values), False, upstream,
    )  # fmt: skip


def unread_by_upstream(runs: Iterable[Run]) -> tuple[Problem, ...]:
    """Return a problem for each of ``runs`` that perf-tests' benchmark tool reads differently from what its files mean."""
    problems = []
    for run in runs:
        place = f"{run.job}/{run.name}"
        if run.number is not None and run.name != str(run.number):
            reason = f"the benchmark tool looks for run {run.number} in a folder called {run.number}: it never reads this one"
            problems.append(Problem.at(place, "bad-run-name", reason))
        for name, reason in run.upstream.refused:
            kept = "leaves the run out" if name == "finished.json" else "passes the run over in last-n-hours"
            problems.append(Problem.at(f"{place}/{name}", "refused-file", f"{reason}; the benchmark tool {kept}"))
    return tuple(problems)


def name_problems(
    problems: Iterable[Problem], files: Mapping[int, FileInfo], runs: Runs
) -> tuple[tuple[Problem, ...], Counter[RunKey]]:
    """Return problems by ``<job>/<run>/…``, one per file, and their number per run."""
    problems = tuple(problems)
    counts: Counter[RunKey] = Counter()
    if not problems:
        return (), counts
    file_of = {clean(info.path, 4096): file for file, info in files.items()}
    run_keys = {run.key for run in runs.runs}
    names = {run.job_path: run.job for run in runs.runs}
    named = []
    for problem in problems:
        file = file_of.get(problem.path)
        place = runs.places[file] if file is not None else _place_without_rows(problem.path, names)
        label = problem.path
        if place is not None:
            job = names.get(place.job, place.job[-1] if place.job else "")
            label = clean(f"{job}/{place.run}/{place.rest}", 4096)
            if (place.job, place.run) in run_keys:
                counts[place.job, place.run] += problem.count
        named.append(msgspec.structs.replace(problem, path=label))
    return one_per_file(named), counts


def _place_without_rows(path: str, jobs: Mapping[tuple[str, ...], str]) -> Place | None:
    """Return the place of a file without rows, None if it does not lie below a job's folder."""
    parts = path_parts(path)
    for at in range(len(parts) - 2, 0, -1):
        if parts[:at] in jobs:
            return Place(parts[:at], parts[at], "/".join(parts[at + 1 :]))
    return None


def one_per_file(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Merge the problems of each path: first place, most common kind, joined reasons, added counts."""
    by_path: dict[str, list[Problem]] = defaultdict(list)
    for problem in problems:
        by_path[problem.path].append(problem)
    merged = []
    for path, same in by_path.items():
        first = same[0]
        kind = Counter(p.kind for p in same).most_common(1)[0][0]
        reason = "; ".join(dict.fromkeys(p.reason for p in same))
        merged.append(
            Problem.at(path, kind, reason, line=first.line, byte=first.byte, count=sum(p.count for p in same))
        )
    return fold(merged)
