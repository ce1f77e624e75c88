"""One run on Spark: list the files, compute jobs in batches, join what belongs together, write one table after another."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from engine import __version__
from engine.core import units
from engine.core.tables import Table
from engine.core.view import View
from engine.job_heuristics.fleet.run.batches import (
    BATCH,
    HEIGHT,
    JOB,
    LINKS,
    PLACE,
    ROWS,
    SCHEMA,
    TABLE,
    Unpack,
    Work,
    ddl,
    to_spark,
)
from engine.job_heuristics.fleet.tables import FINDINGS, WRITTEN
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.result import rollup
from engine.job_heuristics.tables import LISTING, ROLLUP
from engine.live.options import LiveSettings
from engine.output import report

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

PATTERN = r"(job_(?:local)?\d+_\d+|application_\d+_\d+|app-\d+-\d+|local-\d+|spark-[0-9a-f]{32}|spark-application-\d+)"
"""Ids of jobs and applications in file names; valid for the regex engines of Java and Python."""
ROLLING = r"/(eventlog_v2_[^/]*)/"  # folder of a rolling event log, whose parts belong together
DELIVERED = r"^(.*/)eventlog(?:-[0-9-]{17}[^/]*)?(?:\.gz)?$"  # folder of a log that Databricks delivered in parts


def components(links: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the connected components of ``links``: for each name the smallest name of its component."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for left, right in links:
        low, high = sorted((root(left), root(right)))
        parent[high] = low
    return {name: root(name) for name in list(parent)}


LARGE = 32 << 20
"""Larger remote files are opened by the worker that reads them: Spark would hold several copies of the content."""
_ROWS = 2_000_000  # approximate rows per file of a table
_ROW_GROUP = 8 << 20  # bytes of a row group, before compression
_FILES = "path string, mtime_ms bigint, content binary"


class Order(msgspec.Struct, frozen=True):
    """What to compute. ``view``: job heuristics. ``paths`` and ``out``: anything Spark can list and write. ``day``:
    the result's folder below ``out``.

    ``partitions``: tasks, 0: by size. ``packed``: ``paths`` hold documents packed by an earlier run; ``pack``: where
    to store this run's packed documents.
    """

    view: View
    paths: Sequence[str]
    out: str
    parameters: JobParameters
    now_ms: int
    day: str = ""
    partitions: int = 0
    pack: str = ""
    packed: bool = False

    @property
    def folder(self) -> str:
        """Where the tables go."""
        return f"{self.out.rstrip('/')}/day={self.day}" if self.day else self.out.rstrip("/")


class Outcome(msgspec.Struct, frozen=True):
    """Outcome of a run: files, bytes, rows by table, ``linked`` jobs (computed with others), findings by level."""

    files: int
    bytes: int
    rows: dict[str, int]
    linked: int
    findings: dict[str, int]


OnStep = Callable[[str, int, int], None]
"""Called when a step begins: what it does, and for how many files and bytes (0: not known)."""


def run(
    spark: SparkSession,
    order: Order,
    on_step: OnStep = lambda what, files, size: None,
    make_work: Callable[[View, JobParameters, int, LiveSettings], Work] = Work,
) -> Outcome:
    """Compute ``order`` and write its tables. Raises what Spark raises. ``make_work``: replaced by tests."""
    from pyspark.sql import functions as F

    work = make_work(order.view, order.parameters, order.now_ms, LiveSettings(cache=False))

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "64")
    spark.conf.set("spark.sql.files.openCostInBytes", str(128 << 10))
    listed = (
        _packed(spark, order.paths)
        if order.packed
        else spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(list(order.paths))
    )
    size = F.length("content") if order.packed else F.col("length")
    large = F.lit(None) if order.packed else F.collect_list(F.when(size > LARGE, F.struct(*_place())))
    on_disk = F.coalesce(F.bool_and(F.col("path").startswith("file:")), F.lit(False))
    counted = listed.agg(F.count(F.lit(1)), F.coalesce(F.sum(size), F.lit(0)), large, on_disk).first()
    assert counted is not None
    files, total = int(counted[0]), int(counted[1])
    if not files:
        return Outcome(0, 0, {}, 0, {})
    on_step("reading", files, total)
    if order.packed:
        documents = listed
    elif counted[3] and not order.pack:  # workers have that disk too: no content goes through Java
        documents = listed.select(*_place(), F.lit(None).cast("binary").alias("content"))
    else:
        documents = _documents(spark, listed, counted[2])
    if order.pack:
        dated = documents.withColumn("day", F.to_date(F.timestamp_millis("mtime_ms")))
        dated.write.mode("overwrite").option("compression", "zstd").partitionBy("day").parquet(order.pack)
        documents = _packed(spark, [order.pack])
    parts = order.partitions or max(total // BATCH + 1, 2 * _tasks_at_once(spark))
    keyed = documents.withColumn("key", _key())
    rows = _computed(keyed.withColumn("together", F.col("key")), parts, work).persist()
    kept = [rows]
    try:
        # the jobs whose files mention each other, and the group that each is computed with
        found = rows.where(f"{TABLE} = '{LINKS.name}' and {HEIGHT} > 0").select(ROWS).collect()
        mentions = (pl.read_ipc(bytes(row[ROWS])) for row in found)  # PySpark 3.5 collects bytearrays
        linked = components(sorted({link for each in mentions for link in each.select(JOB, "mentioned").iter_rows()}))
        computed = [(rows, frozenset(linked))]
        if linked:
            on_step(f"computing {len(linked):,} jobs whose files name each other together", 0, 0)
            again = _again(spark, keyed, linked, work).persist()
            kept.append(again)
            computed.append((again, frozenset()))
        on_step("writing", files, total)
        return _write(spark, computed, order, Outcome(files, total, {}, len(linked), {}))
    finally:
        for frame in kept:
            frame.unpersist()


def _packed(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    return spark.read.schema(_FILES).parquet(*paths)


def _place() -> tuple[Column, Column]:
    """The path of a listed file, and when it was modified."""
    from pyspark.sql import functions as F

    # A report knows file:/a/b as /a/b; names are not percent-encoded.
    return F.regexp_replace("path", "^file:/+", "/").alias("path"), F.unix_millis("modificationTime").alias("mtime_ms")


def _documents(spark: SparkSession, listed: DataFrame, large: Sequence[tuple[str, int]]) -> DataFrame:
    """Return path, mtime_ms and content of all files; the content of ``large`` ones is null and not read."""
    from pyspark.sql import functions as F

    small = listed.where(F.col("length") <= LARGE).select(*_place(), "content")
    return (
        small.unionByName(spark.createDataFrame([(path, mtime_ms, None) for path, mtime_ms in large], _FILES))
        if large
        else small
    )


def _key() -> Column:
    """The job of a path: the id in its name, else the first in its folders, else the folder of its rolling log, else itself."""
    from pyspark.sql import functions as F

    name = F.substring_index("path", "/", -1)
    folders = F.expr("left(path, length(path) - length(substring_index(path, '/', -1)))")
    searched = ((name, PATTERN), (folders, PATTERN), (folders, ROLLING), (F.col("path"), DELIVERED))
    found = [F.regexp_extract(where, pattern, 1) for where, pattern in searched]
    return F.coalesce(*(F.when(each != "", each) for each in found), F.col("path"))


def _computed(files: DataFrame, parts: int, work: Work) -> DataFrame:
    """Return packed rows of all tables of ``files``; files with equal ``together`` share a batch."""
    sorted_files = files.repartition(parts, "together").sortWithinPartitions("together", "path")
    return sorted_files.select("key", "together", "path", "mtime_ms", "content").mapInArrow(work, SCHEMA)


def _again(spark: SparkSession, files: DataFrame, linked: dict[str, str], work: Work) -> DataFrame:
    """Compute linked jobs again, as groups. Only their files are read again."""
    from pyspark.sql import functions as F

    few = files.join(F.broadcast(spark.createDataFrame(sorted(linked.items()), "key string, together string")), "key")
    return _computed(few, max(1, min(len(set(linked.values())), 8 * _tasks_at_once(spark))), work)


def _tasks_at_once(spark: SparkSession) -> int:
    """Return Spark's default parallelism: its number of cores."""
    from pyspark.sql import functions as F

    return int(spark.range(4096).select(F.spark_partition_id().alias("at")).distinct().count())


_Computed = Sequence[tuple["DataFrame", frozenset[str]]]  # packed rows of all tables, and the jobs to leave out of them


def _write(spark: SparkSession, computed: _Computed, order: Order, outcome: Outcome) -> Outcome:
    from pyspark.sql import functions as F

    heights: Counter[str] = Counter()
    for rows, _ in computed:
        heights.update({row[0]: row[1] for row in rows.groupBy(TABLE).agg({HEIGHT: "sum"}).collect()})
    for table in WRITTEN:
        known = heights[table.name]
        files = known // _ROWS + 1
        mine = _unpacked(computed, table, files)
        if not table.key:  # rows that belong to no job are found by every batch
            mine = mine.distinct()
        _save(mine, table, order.folder, files)
        there = _written(spark, table, order)
        outcome.rows[table.name] = known if table.key and not outcome.linked else there.count()
        if table is FINDINGS:
            outcome.findings.update((row["level"], row["count"]) for row in there.groupBy("level").count().collect())
    # Read back what was written: unpacking and summing up in one stage would start a second Python worker.
    _save(_written(spark, LISTING, order).coalesce(1).mapInArrow(_rolled_up, ddl(ROLLUP)), ROLLUP, order.folder, 1)
    outcome.rows[ROLLUP.name] = _written(spark, ROLLUP, order).count()
    # Last, because the manifest completes a result. A literal, because rows made here would start another Python worker.
    manifest = spark.range(1).select(F.lit(json.dumps(_manifest(order, outcome))).alias("manifest"))
    manifest.coalesce(1).write.mode("overwrite").text(f"{order.folder}/manifest")
    return outcome


def _written(spark: SparkSession, table: Table, order: Order) -> DataFrame:
    """Return the rows of ``table`` that this run has written."""
    return spark.read.schema(ddl(table)).parquet(f"{order.folder}/table={table.name}")


def _unpacked(computed: _Computed, table: Table, files: int) -> DataFrame:
    """Return the valid rows of ``table``, with ``PLACE`` if they belong to jobs; one partition if they fit in one
    file."""
    parts = []
    for rows, without in computed:
        mine = rows.where(f"{TABLE} = '{table.name}' and {HEIGHT} > 0").select(ROWS)
        place = bool(table.key)
        parts.append((mine.coalesce(1) if files == 1 else mine).mapInArrow(Unpack(place, without), ddl(table, place)))
    return reduce(lambda one, other: one.unionByName(other), parts)


def _save(rows: DataFrame, table: Table, folder: str, files: int) -> None:
    """Replace the folder of a table. Within a file the rows of a job are adjacent and in report order, and row groups
    are small, so that a lookup of one job can skip the others."""
    by = [table.key[0], PLACE] if table.key and PLACE in rows.columns else [*table.key, *table.order]
    order = [name for name in by if not name.startswith("-")]
    divided = rows.coalesce(1) if files == 1 else rows.repartition(files, order[0])
    sorted_rows = divided.sortWithinPartitions(*dict.fromkeys(order)).select(*table.schema.names())
    sorted_rows.write.mode("overwrite").option("parquet.block.size", str(_ROW_GROUP)).parquet(
        f"{folder}/table={table.name}"
    )


def _rolled_up(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Sum up the whole job list."""
    parts = [pl.DataFrame(pl.from_arrow(batch)) for batch in batches]
    yield from to_spark(rollup.rollup(rollup.worst_first(pl.concat(parts)) if parts else LISTING.empty()))


def _manifest(order: Order, outcome: Outcome) -> dict[str, Any]:
    return {
        "loadlens": __version__,
        "view": "job-heuristics",
        "at": units.iso(order.now_ms),
        "parameters": report.settings(order.parameters),
        "paths": list(order.paths),
        "files": outcome.files,
        "bytes": outcome.bytes,
        "rows": outcome.rows,
        "findings": outcome.findings,
        "jobs_of_several_names": outcome.linked,
    }
