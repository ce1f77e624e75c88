"""The jobs of fleet results: listed in memory, everything else read from their Parquet tables when asked for."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath

import msgspec
import polars as pl

from engine.core.reading import Problem, fold
from engine.core.tables import Table
from engine.core.view import FILE, LEVELS, Finding, Inputs, Level, TooLarge
from engine.formats import parquet
from engine.job_heuristics.dr_elephant.judged import in_order, told_apart
from engine.job_heuristics.fleet.tables import FILES, FINDINGS, FLEET_RESULTS, PROBLEMS
from engine.job_heuristics.result import rollup
from engine.job_heuristics.tables import JOBS, LISTING, RECOMMENDATIONS
from engine.live.files.opening import RegularFile

MOST_BYTES = 1 << 30  # bytes of one file of a table that is read whole


@dataclass(frozen=True, slots=True)
class FleetResult:
    """One fleet result: the folder of its tables and the contents of its manifest. ``findings``: number by level;
    ``rows``: number by table.

    ``stamp`` changes when it is written again.
    """

    folder: str
    version: str
    at_ms: int
    jobs: int
    stamp: tuple[int, int]
    parameters: Mapping[str, object] = field(compare=False)
    findings: Mapping[str, int] = field(compare=False)
    rows: Mapping[str, int] = field(default_factory=dict, compare=False)


def fleet_results(inputs: Inputs) -> tuple[FleetResult, ...]:
    """Return the fleet results in ``inputs``, the newest last."""
    results = []
    for row in inputs.table(FLEET_RESULTS.name).iter_rows(named=True):
        info = inputs.files[row[FILE]]
        folder = str(PurePath(info.path).parent.parent)
        results.append(
            FleetResult(
                folder, row["version"] or "", row["at_ms"] or 0, row["jobs"] or 0, (info.id, info.version),
                json.loads(row["parameters"] or "{}"), json.loads(row["findings"] or "{}"),
                json.loads(row["rows"] or "{}"),
            )
        )  # fmt: skip
    return tuple(sorted(results, key=lambda result: (result.at_ms, result.folder)))


class StoredTable:
    """One table of one fleet result. ``problems``: of its files, filled while reading."""

    def __init__(self, result: FleetResult, table: Table) -> None:
        self.table = table
        self.problems: list[Problem] = []
        self._result = result.folder
        self._folder = Path(result.folder, f"table={table.name}")

    def files(self) -> list[Path]:
        """Return the paths of its files; an unreadable folder is a problem."""
        try:
            paths = sorted(self._folder.iterdir())
        except OSError as error:
            reason = f"the table {self.table.name} of a fleet result cannot be read: {error.strerror}"
            self.problems.append(Problem.at(str(self._folder), "unreadable", reason))
            return []
        return [path for path in paths if path.suffix == ".parquet" and path.name[0] not in "._"]

    def whole(self, columns: Iterable[str] | None = None) -> Iterator[pl.DataFrame]:
        """Yield the rows of each file with the declared types of ``columns`` (default: all). A missing column is
        null; a file of another schema is a problem."""
        names = tuple(self.table.schema if columns is None else columns)
        yield from self._good(lambda file: parquet.checked(_content(file), names), names)

    def frames(
        self,
        columns: Iterable[str] | None = None,
        *,
        where: tuple[str, str] | None = None,
        top: tuple[str, int, float | None] | None = None,
        first: int | None = None,
    ) -> Iterator[pl.DataFrame]:
        """Like ``whole``, but only the rows that a ``parquet.Query`` selects."""
        names = tuple(self.table.schema if columns is None else columns)
        query = parquet.Query(columns=names, where=where, top=top, first=first)
        yield from self._good(lambda file: parquet.scan(_path(file), query), names)

    def _good(self, read: Callable[[RegularFile], pl.DataFrame], names: tuple[str, ...]) -> Iterator[pl.DataFrame]:
        """Yield the result of ``read`` for each file; a failure is a problem."""
        for path in self.files():
            try:
                file = RegularFile(str(path), (self._result,))
                try:
                    yield self._typed(read(file), names)
                finally:
                    file.close()
            except (parquet.Damaged, OSError) as error:
                why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
                reason = f"not a readable part of the table {self.table.name} of a fleet result: {why}"
                self.problems.append(Problem.at(str(path), "bad-parquet", reason))

    def rows(self, where: tuple[str, str]) -> pl.DataFrame:
        """Return the rows of all files where a column equals a text."""
        return pl.concat([self.table.empty(), *self.frames(where=where)])

    def _typed(self, frame: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
        """Return ``frame`` with the declared types. Raises Damaged."""
        schema = self.table.schema
        missing = [name for name in self.table.key if name in names and name not in frame.columns]
        if missing:
            raise parquet.Damaged(f"it has no column {missing[0]}")
        for name, dtype in frame.schema.items():
            if dtype != schema[name] and not (dtype.is_signed_integer() and schema[name] == pl.Int64):
                raise parquet.Damaged(f"its column {name} holds {dtype}, not {schema[name]}")
        return frame.select(
            pl.col(name).cast(schema[name]) if name in frame.columns else pl.lit(None, schema[name]).alias(name)
            for name in names
        )


def _content(file: RegularFile) -> bytes:
    """Return the bytes of a file. Raises OSError, Damaged."""
    if file.status.st_size > MOST_BYTES:
        raise parquet.Damaged(f"it is larger than {MOST_BYTES >> 20} MB")
    return file.read(file.status.st_size, 0)


def _path(file: RegularFile) -> str:
    """Return a path that leads another process to this open file, whatever happens to its name meanwhile."""
    place = Path(f"/proc/{os.getpid()}/fd/{file.descriptor}")
    return str(place if place.exists() else file.path)


NOT_LISTED = frozenset({"launch_ms", "maps_finished", "reduces_finished", "attempts_running", "source", "notes"})
"""Columns of LISTING left out of large lists; reports take them from table jobs."""
REPEATED = ("user", "queue", "job_type", "state", "severity", "upstream_says")
"""Columns with few distinct texts, stored as categories."""
RESULT = "_result"  # additional column of the list: number of the fleet result a job is taken from
MOST_JOBS = 5_000_000  # most jobs that are listed; a million take 300 MB of memory
MOST_FINDINGS = 1000  # most findings that are listed, worst first; the others are counted by level
MOST_ADVISED = 10_000  # most recommendations that are listed, by saving
MOST_PROBLEMS = 1000  # most problems that are listed per fleet result

Check = Callable[[float], None]  # called between files with the fraction done; may raise Cancelled


class AllJobs(msgspec.Struct, frozen=True, dict=True):
    """The list of all jobs (sorted LISTING rows without ``NOT_LISTED``, with ``RESULT``), and its sums on demand."""

    listing: pl.DataFrame

    @cached_property
    def rollup(self) -> pl.DataFrame:
        """Rows of ROLLUP."""
        return rollup.rollup(self.listing)

    @cached_property
    def summary(self) -> dict[str, float]:
        """Numbers of jobs by state and severity, and sums."""
        return rollup.summary(self.listing)


class StoredJobs(msgspec.Struct, frozen=True, dict=True):
    """The jobs of ``results``; the newest result of a job counts.

    ``repeated``: whether a job is in several results. ``problems``: of the tables, and those that the runs recorded.
    """

    results: tuple[FleetResult, ...]
    every: AllJobs
    repeated: bool
    findings: tuple[Finding, ...]
    problems: tuple[Problem, ...]

    @property
    def listing(self) -> pl.DataFrame:
        """The list of the jobs."""
        return self.every.listing

    @cached_property
    def advised(self) -> pl.DataFrame:
        """The recommendations that save most, with the ``name`` of each job; read on demand."""
        return _named(_best_advice(self.results), self.listing)

    def rows(self, table: Table, job_id: str) -> tuple[pl.DataFrame, list[Problem]]:
        """Return the rows of one job in ``table``, and problems of its files."""
        number = self.listing.filter(pl.col("job_id") == job_id)[RESULT]
        if not number.len():
            return table.empty(), []
        stored = StoredTable(self.results[number[0]], table)
        return stored.rows(where=("job_id", job_id)), stored.problems

    def paths(self, job_id: str) -> tuple[list[str], list[Problem]]:
        """Return the paths that a run recorded for the files of a job, and problems of the table that lists them."""
        files, problems = self.rows(FILES, job_id)
        return files["path"].drop_nulls().unique().sort().to_list(), problems

    def table(self, table: Table) -> tuple[pl.DataFrame, list[Problem]]:
        """Return all rows of ``table``, in the order of JOBS, and problems of its files. Raises TooLarge."""
        frames, height = [table.empty()], 0
        problems: list[Problem] = []
        for number, result in enumerate(self.results):
            stored = StoredTable(result, table)
            for frame in stored.whole():
                mine = self._counting(frame, number) if self.repeated else frame
                height += mine.height
                if height > MOST_JOBS:
                    raise TooLarge(f"table {table.name} has more than {MOST_JOBS:,} rows: read {result.folder} itself")
                frames.append(mine)
            problems += stored.problems
        return in_order(JOBS.sorted(self.listing.select("submit_ms", "job_id")), *frames), problems

    def _counting(self, frame: pl.DataFrame, number: int) -> pl.DataFrame:
        """Return the rows of jobs taken from result ``number``."""
        mine = self.listing.filter(pl.col(RESULT) == number).select("job_id")
        return frame.join(mine, on="job_id", how="semi", maintain_order="left")


def stored_jobs(results: tuple[FleetResult, ...], check: Check) -> StoredJobs:
    """Read the job list and the findings of ``results``."""
    problems: list[Problem] = []
    # Two at a time: while one file is decoded here, the checking process already reads the next, and it answers
    # further queries while the list is sorted.
    with ThreadPoolExecutor(2) as pool:
        try:
            frames = _frames(results, problems, check, pool)
            written = pool.submit(lambda: [problem for result in results for problem in _problems_of(result)])
            jobs = sum(frame["job_id"].drop_nulls().len() for frame in frames)
            every = AllJobs(in_listed_order(frames))
            stored = StoredJobs(results, every, every.listing.height < jobs, (), ())
            problems += written.result()
        finally:
            pool.shutdown(cancel_futures=True)
    check(0.9)
    findings = tuple(told_apart(list(_findings(stored, problems)), every.listing))
    return msgspec.structs.replace(stored, findings=findings, problems=fold(problems))


def _frames(
    results: tuple[FleetResult, ...], problems: list[Problem], check: Check, pool: Executor
) -> list[pl.DataFrame]:
    """Return the slim LISTING rows of all results, at least one frame."""
    frames = [slim(LISTING.empty().select(_LISTED), 0)]
    tables = [StoredTable(result, LISTING) for result in results]
    height = 0
    read = deque(
        pool.submit(lambda table, number: [slim(frame, number) for frame in table.whole(_LISTED)], table, number)
        for number, table in enumerate(tables)
    )
    for number in range(len(tables)):
        check(0.7 * number / len(tables))
        for frame in read.popleft().result():
            height += frame.height
            if height <= MOST_JOBS:
                frames.append(frame)
    if height > MOST_JOBS:
        reason = f"of {height:,} jobs of fleet results {MOST_JOBS:,} are listed"
        problems.append(Problem.at(results[-1].folder, "too-many-jobs", reason))
    problems += [problem for table in tables for problem in table.problems]
    return frames


_LISTED = tuple(name for name in LISTING.schema if name not in NOT_LISTED)


def slim(listing: pl.DataFrame, number: int) -> pl.DataFrame:
    """Return slim LISTING rows of result ``number`` (-1: from histories)."""
    texts = (pl.col(name).cast(pl.Categorical) for name in REPEATED)
    return listing.select(_LISTED).with_columns(*texts, pl.lit(number, pl.Int32).alias(RESULT))


def in_listed_order(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Return the rows of all frames in the order of ``rollup.worst_first``. If several have one job, its last row counts.

    Works column by column, so that memory never holds two whole lists; ``frames`` is empty afterwards.
    """
    columns = {name: [frame[name] for frame in frames] for name in frames[0].columns}
    frames.clear()
    places = _last_of_each(pl.concat(columns["job_id"]).rechunk())
    numbers = pl.DataFrame([pl.concat(columns[name]) for name in rollup.NUMBERS])
    order = _order((numbers.select(each).to_series() for each in reversed(rollup.WORST)), places)
    del numbers
    return pl.DataFrame([pl.concat(columns.pop(name)).rechunk().gather(order) for name in tuple(columns)])


def _last_of_each(ids: pl.Series) -> pl.Series:
    """Return the places of the last occurrence of each id, sorted by id."""
    places = pl.DataFrame({"id": ids, "at": pl.int_range(ids.len(), dtype=pl.UInt32, eager=True)})
    if not ids.is_sorted() or ids.null_count():
        places = places.drop_nulls("id").sort("id", maintain_order=True)
    return places.filter(pl.col("id").ne_missing(pl.col("id").shift(-1)))["at"]


def _order(keys: Iterable[pl.Series], places: pl.Series) -> pl.Series:
    """Sort ``places``, given by job, by ``keys``, descending, the last key first. Successive stable sorts of numbers
    are several times as fast as one sort by all columns."""
    for key in keys:
        by = pl.DataFrame({"key": key.rechunk().gather(places), "at": places})
        places = by.sort("key", descending=True, nulls_last=True, maintain_order=True)["at"]
    return places


def _best_advice(results: tuple[FleetResult, ...]) -> pl.DataFrame:
    """Return the RECOMMENDATIONS rows that save most, with their result's number in ``RESULT``."""
    best = RECOMMENDATIONS.empty().with_columns(pl.lit(0, pl.Int32).alias(RESULT))
    for number, result in enumerate(results):
        least = best["saving_mb_s"][-1] if best.height == MOST_ADVISED else None
        for frame in StoredTable(result, RECOMMENDATIONS).frames(top=("saving_mb_s", MOST_ADVISED, least)):
            both = pl.concat([best, frame.with_columns(pl.lit(number, pl.Int32).alias(RESULT))])
            order = ("saving_mb_s", "job_id", "rank")
            best = both.sort(order, descending=[True, False, False], nulls_last=True).head(MOST_ADVISED)
    return best


def _named(best: pl.DataFrame, listing: pl.DataFrame) -> pl.DataFrame:
    """Add the ``name`` of each job to recommendations; drop those of superseded results."""
    named = listing.select("job_id", RESULT, "name").join(best, on="job_id", how="semi")
    return best.join(named, on=["job_id", RESULT], how="inner", maintain_order="left").drop(RESULT)


def _findings(jobs: StoredJobs, problems: list[Problem]) -> Iterator[Finding]:
    """Yield the worst findings in job order, and per level the number of further ones."""
    listed: list[Finding] = []
    tables = [StoredTable(result, FINDINGS) for result in jobs.results]
    for level in reversed(LEVELS[1:]):
        before = len(listed)
        for number, table in enumerate(tables):
            if len(listed) == MOST_FINDINGS or not jobs.results[number].findings.get(level):
                continue
            for frame in table.frames(where=("level", level), first=MOST_FINDINGS - len(listed)):
                mine = frame.drop_nulls()
                if jobs.repeated:
                    mine = jobs._counting(mine, number)
                mine = mine.head(MOST_FINDINGS - len(listed))
                listed += [
                    Finding(level, subject, text, ("jobs", (job,))) for job, _, subject, text in mine.iter_rows()
                ]
        rest = _number(jobs, tables, level) - (len(listed) - before)
        if rest > 0:
            text = f"{rest:,} more of this level; the list of jobs and table heuristics have their verdicts"
            yield Finding(level, "jobs of fleet results", text, rest=rest)
    problems += [problem for table in tables for problem in table.problems]
    yield from _in_order(jobs, listed)


def _number(jobs: StoredJobs, tables: list[StoredTable], level: Level) -> int:
    """Return the number of findings of a level: from the manifests unless results overlap."""
    if not jobs.repeated:
        return sum(result.findings.get(level, 0) for result in jobs.results)
    return sum(
        jobs._counting(frame, number).height
        for number, table in enumerate(tables)
        for frame in table.frames(["level", "job_id"], where=("level", level))
    )


def _in_order(jobs: StoredJobs, listed: list[Finding]) -> list[Finding]:
    keys = [one.row[1][0] if one.row else "" for one in listed]
    ids = pl.Series("job_id", keys, dtype=pl.String)
    known = jobs.listing.select("submit_ms", "job_id").join(ids.unique().to_frame(), on="job_id", how="semi")
    place = {job: at for at, job in enumerate(JOBS.sorted(known)["job_id"].to_list())}
    return [listed[at] for at in sorted(range(len(listed)), key=lambda at: place.get(keys[at], len(place)))]


def _problems_of(result: FleetResult) -> Iterator[Problem]:
    """Yield the problems recorded by the run that wrote a result, and those of reading its recommendations."""
    table, advice = StoredTable(result, PROBLEMS), StoredTable(result, RECOMMENDATIONS)
    for frame in table.frames(first=MOST_PROBLEMS) if result.rows.get(PROBLEMS.name) != 0 else ():
        for path, line, kind, reason, count in frame.iter_rows():
            yield Problem.at(path or result.folder, kind or "problem", reason or "", line=line, count=count or 1)
    for _ in advice.frames(first=0):
        pass
    yield from (*table.problems, *advice.problems)
