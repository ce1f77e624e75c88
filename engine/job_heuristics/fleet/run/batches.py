"""What one Spark task does: compute whole jobs, some 64 MB at a time, exactly as a report would.

The rows of all tables have one shape, so that a single pass over the histories fills every table.
"""

from __future__ import annotations

import gc
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from engine import __version__
from engine.core.reading import Problem
from engine.core.tables import Column, Table
from engine.core.view import FILE, Context, Inputs, NoInput, Result, View
from engine.job_heuristics.fleet.documents import Document, inputs
from engine.job_heuristics.fleet.tables import FILES, FINDINGS, PER_JOB, PROBLEMS, findings_frame
from engine.job_heuristics.tables import LISTING
from engine.live.options import LiveSettings

if TYPE_CHECKING:
    import pyarrow as pa

LINKS = Table("links", "Jobs that a file of another job mentions", (Column("mentioned", pl.String, "the other job"),))
TABLE, HEIGHT, ROWS = "_table", "_height", "_rows"
"""Columns of a batch's result: table name, number of rows, and the rows in Arrow's IPC format. For Spark the rows are
one opaque value that it need not convert."""
SCHEMA = f"{TABLE} string, {HEIGHT} bigint, {ROWS} binary"  # Spark's types of these columns
JOB, PLACE = "_job", "_place"  # additional columns of the rows: the job of each, and its position in the batch
_SPARK = {pl.String: "string", pl.Int64: "bigint", pl.Float64: "double", pl.Boolean: "boolean"}


def ddl(table: Table, place: bool = False) -> str:
    """Return the columns of ``table`` as Spark DDL, with ``PLACE`` if ``place``. Raises KeyError."""
    columns = [f"`{name}` {_SPARK[dtype.base_type()]}" for name, dtype in table.schema.items()]
    return ", ".join([*columns, f"{PLACE} bigint"] if place else columns)


def packed(frame: pl.DataFrame, table: Table, job: pl.Expr) -> pa.RecordBatch:
    """Pack the rows of ``table`` into one row of ``SCHEMA``. ``job``: expression for the job of a row."""
    place = pl.int_range(pl.len(), dtype=pl.Int64)
    buffer = io.BytesIO()
    frame.select(*table.schema.names(), job.alias(JOB), place.alias(PLACE)).write_ipc(buffer, compression="lz4")
    value = pl.DataFrame(
        {TABLE: table.name, HEIGHT: pl.Series([frame.height], dtype=pl.Int64), ROWS: buffer.getvalue()}
    )
    return next(to_spark(value))


def frames(batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """Yield the rows of each batch made by ``packed``."""
    for batch in batches:
        for rows in batch.column(ROWS):
            yield pl.read_ipc(io.BytesIO(rows.as_py()))


class Unpack(msgspec.Struct, frozen=True):
    """Unpacks rows of one table, except those of jobs ``without``; keeps column ``PLACE`` if ``place``."""

    place: bool
    without: frozenset[str] = frozenset()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack ``ROWS``."""
        for frame in frames(batches):
            if self.without:
                frame = frame.filter(~pl.col(JOB).is_in(self.without).fill_null(False))
            yield from to_spark(frame.drop(JOB) if self.place else frame.drop(JOB, PLACE))


def to_spark(frame: pl.DataFrame) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ``frame`` with string and binary types that Spark accepts. Avoids ``pyarrow.array``, which
    would import pandas and cost a worker seconds."""
    import pyarrow as pa

    types = {pa.large_string(): pa.string(), pa.string_view(): pa.string()}
    types |= {pa.large_binary(): pa.binary(), pa.binary_view(): pa.binary()}
    table = frame.to_arrow()
    plain = pa.schema([field.with_type(types.get(field.type, field.type)) for field in table.schema])
    yield from table.cast(plain).to_batches()


BATCH = 64 << 20  # bytes of documents that are computed together. One call costs at least 25 ms.


class OtherVersion(RuntimeError):
    """Driver and worker do not have the same engine."""


class Work(msgspec.Struct, frozen=True):
    """What all tasks of a run share. ``version``: that of the driver's engine."""

    view: View
    parameters: Any
    now_ms: int
    settings: LiveSettings
    version: str = __version__

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Turn files, sorted by group, into packed rows of all tables.

        Columns: ``key``, ``together`` (equal for files that must be computed at once), ``path``, ``mtime_ms``,
        ``content`` (null: to be opened here).
        """
        if self.version != __version__:
            raise OtherVersion(f"loadlens is {self.version} on the driver and {__version__} on a worker")
        gc.disable()  # collecting amid millions of short-lived values would take a third of a batch's time
        try:
            for files in _whole_jobs(batches):
                yield from self._compute(files)
                gc.collect(1)  # young objects only: modules need no second look
        finally:
            gc.enable()

    def _compute(self, files: list[_File]) -> Iterator[pa.RecordBatch]:
        documents, problems = [], []
        keys = {}
        for file in files:
            keys[file.path] = file.key
            try:
                documents.append(Document(file.path, file.mtime_ms, file.read()))
            except OSError as error:
                reason = f"cannot be opened by the worker: {error.strerror or error}"
                problems.append(Problem.at(file.path, "unreadable", reason))
        read = inputs(self.view, documents, self.settings)
        mentioned = _mentioned(self.view, read, keys)
        yield packed(mentioned.filter(pl.col("key") != pl.col("mentioned")), LINKS, pl.col("key"))
        try:
            result = self.view.compute(read, self.parameters, Context(now_ms=self.now_ms))
        except NoInput:
            problems += read.problems
        else:
            problems += result.problems
            yield from _rows(result)
            yield packed(_files(result.tables["jobs"], mentioned, keys), FILES, pl.col("job_id"))
        rows = pl.DataFrame([problem.as_row() for problem in problems], PROBLEMS.schema)
        yield packed(rows, PROBLEMS, pl.col("path").replace_strict(keys, default=None, return_dtype=pl.String))


def _rows(result: Result) -> Iterator[pa.RecordBatch]:
    job = pl.col("job_id")
    for table in PER_JOB:
        yield packed(result.table(table.name), table, job)
    detail: Any = result.detail
    yield packed(detail.listing, LISTING, job)
    yield packed(findings_frame(result.findings), FINDINGS, job)


def _mentioned(view: View, read: Inputs, keys: dict[str, str]) -> pl.DataFrame:
    """Return which jobs and applications the files of each ``key`` mention."""
    of_file = {number: keys.get(info.path, info.path) for number, info in read.files.items()}
    mentioned: set[tuple[str, str]] = set()
    for kind in view.kinds:
        for table in kind.tables:
            for name in {"job_id", "app_id"} & table.schema.keys():
                pairs = read.table(table.name).select(FILE, name).drop_nulls().unique()
                mentioned.update((of_file[number], job) for number, job in pairs.iter_rows())
    return pl.DataFrame(sorted(mentioned), {"key": pl.String, "mentioned": pl.String}, orient="row")


def _files(jobs: pl.DataFrame, mentioned: pl.DataFrame, keys: dict[str, str]) -> pl.DataFrame:
    """Return FILES rows: files with a job's id in their name, and files grouped with one that mentions it."""
    paths = pl.DataFrame({"path": list(keys), "key": list(keys.values())}, {"path": pl.String, "key": pl.String})
    by_name = pl.DataFrame({"key": jobs["job_id"], "job_id": jobs["job_id"]})
    by_content = mentioned.rename({"mentioned": "job_id"}).join(jobs.select("job_id"), on="job_id", how="semi")
    pairs = pl.concat([by_name, by_content]).unique().join(paths, on="key")
    return pairs.select("job_id", "path").unique().sort("job_id", "path")


class _File(msgspec.Struct, frozen=True):
    key: str
    path: str
    mtime_ms: int
    content: bytes | None

    def read(self) -> bytes:
        """Return the content; a large file is opened here, and not by Spark. Raises OSError."""
        if self.content is not None:
            return self.content
        if "://" not in self.path:
            return Path(self.path).read_bytes()
        import pyarrow as pa
        from pyarrow import fs

        try:
            system, path = fs.FileSystem.from_uri(self.path)
            with system.open_input_stream(path, compression=None) as stream:
                return bytes(stream.read())
        except (pa.ArrowException, ValueError, NotImplementedError) as error:
            raise OSError(f"{type(error).__name__}: {error}") from error

    @property
    def size(self) -> int:
        """Bytes that it adds to a batch."""
        if self.content is not None:
            return len(self.content)
        try:
            return Path(self.path).stat().st_size
        except OSError:
            return BATCH


def _whole_jobs(batches: Iterable[pa.RecordBatch]) -> Iterator[list[_File]]:
    """Split files, sorted by job, into parts of about 64 MB without dividing a job."""
    part: list[_File] = []
    size, last = 0, None
    for batch in batches:
        columns = (batch.column(name) for name in ("together", "key", "path", "mtime_ms", "content"))
        for together, key, path, mtime_ms, content in zip(*columns, strict=True):
            if together.as_py() != last and size >= BATCH:
                yield part
                part, size = [], 0
            last = together.as_py()
            file = _File(key.as_py(), path.as_py(), mtime_ms.as_py(), content.as_py())
            part.append(file)
            size += file.size
    if part:
        yield part
