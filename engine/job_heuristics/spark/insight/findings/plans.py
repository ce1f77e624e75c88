"""SQL plans: small files, excessive reads, joins that should be broadcast, broadcasts that should not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.core import units
from engine.job_heuristics.spark.insight.findings.insight import Insight, level
from engine.job_heuristics.spark.insight.sql import PlanRow, children, size_below
from engine.job_heuristics.spark.model.app import App

MB, GB, TB = 1 << 20, 1 << 30, 1 << 40
SMALL_FILE, MANY_FILES, GOOD_FILE = 3 * MB, 100, 128 * MB
BROADCAST_LIMIT = GB
LARGE_SCAN = GB
"""Least bytes of a scan of all partitions to be reported."""
_ASYMMETRIC = ((10 * MB, 0), (100 * MB, 10 * GB), (GB, 300 * GB), (5 * GB, TB))
"""Broadcast a side below the first size if the other is above the second."""
ROWS_LIMIT = 10**10
_NESTED = ("BroadcastNestedLoopJoin", "CartesianProduct")


def insights(app: App, plans: Mapping[int, list[PlanRow]]) -> Iterator[Insight]:
    """Yield the insights on the plans of SQL executions."""
    for number, rows in plans.items():
        subject = f"sql {number}"
        for at, node in enumerate(rows):
            yield from _files(subject, node)
            yield from _full_scan(subject, node)
            yield from _partial_read(subject, rows, at)
            yield from _joins(subject, rows, at)


def _files(subject: str, node: PlanRow) -> Iterator[Insight]:
    metrics = node.metrics
    for files, size, words, key in (
        ("number of files read", "size of files read", "reads", ""),
        ("number of written files", "written output", "writes", "spark.sql.shuffle.partitions"),
    ):
        count, whole = metrics.get(files, 0), metrics.get(size, 0)
        if count > MANY_FILES and whole < SMALL_FILE * count:
            good = max(1, whole // GOOD_FILE)
            yield Insight(
                "small files", subject, f"{count:,} files", f"{units.size(SMALL_FILE)} each",
                level(count, MANY_FILES, 1000, 10_000, 100_000),
                f"{node.name} {words} {count:,} files of {units.size(whole / count)} each; {good:,} would hold as much.",
                key, str(good) if key else "",
            )  # fmt: skip


def _full_scan(subject: str, node: PlanRow) -> Iterator[Insight]:
    """Find scans that read every partition of a table or skip few files. Spark counts partitions only of partitioned
    tables; pruned files only with dynamic pruning or table statistics."""
    if not node.name.startswith("Scan"):
        return
    metrics = node.metrics
    partitions, size = metrics.get("number of partitions read", 0), metrics.get("size of files read", 0)
    if partitions > 1 and "PartitionFilters: []" in node.text and size >= LARGE_SCAN:
        yield Insight(
            "full scan", subject, f"{partitions:,} partitions", "a filter", level(size, LARGE_SCAN, 100 * GB, TB, 10 * TB),
            f"{node.name} reads all {partitions:,} partitions ({units.size(size)}): no filter names the columns that the "
            "table is partitioned by.",
        )  # fmt: skip
    files = metrics.get("number of files read", 0)
    every = metrics.get("static number of files read", 0) or files + metrics.get("number of files pruned", 0)
    if files > MANY_FILES and every > files and files / every > 0.9:
        yield Insight(
            "file pruning", subject, f"{1 - files / every:.1%}", "10 %", 1,
            f"{node.name} could leave out only {every - files:,} of {every:,} files: sort the table by the columns that are "
            "filtered or joined.",
        )  # fmt: skip


def _partial_read(subject: str, rows: list[PlanRow], at: int) -> Iterator[Insight]:
    node = rows[at]
    if not node.name.startswith("Filter"):
        return
    below = children(rows, at)
    scan = rows[below[0]] if len(below) == 1 else None
    if scan is not None and scan.name == "ColumnarToRow":
        deeper = children(rows, below[0])
        scan = rows[deeper[0]] if len(deeper) == 1 else None
    if scan is None or not scan.name.startswith("Scan") or not scan.rows or node.rows is None or scan.rows < 1_000_000:
        return
    kept = node.rows / scan.rows
    read = scan.metrics.get("size of files read", 0)
    if kept < 0.1:
        yield Insight(
            "partial read", subject, f"{kept:.1%}", "10 %", level(1 - kept, 0.9, 0.95, 0.99),
            f"Of {scan.rows:,} rows ({units.size(read)}) that {scan.name} read, the filter above it kept {node.rows:,}: "
            "partition or sort the table by what is filtered.",
        )  # fmt: skip


def _joins(subject: str, rows: list[PlanRow], at: int) -> Iterator[Insight]:
    node = rows[at]
    if node.name == "BroadcastExchange" and (size := node.metrics.get("data size", 0)) > BROADCAST_LIMIT:
        yield Insight(
            "large broadcast", subject, units.size(size), units.size(BROADCAST_LIMIT), level(size, GB, 2 * GB, 4 * GB, 8 * GB),
            f"{units.size(size)} are sent to every executor.", "spark.sql.autoBroadcastJoinThreshold", "-1",
        )  # fmt: skip
    if node.name == "SortMergeJoin":
        sides = [size_below(rows, child) for child in children(rows, at)]
        if len(sides) == 2 and sides[0] is not None and sides[1] is not None:
            small, large = sorted(side for side in sides if side is not None)
            if any(small < limit and large > least for limit, least in _ASYMMETRIC):
                yield Insight(
                    "broadcast a side", subject, units.size(small), f"other side {units.size(large)}", 2,
                    f"{node.name} sorts and moves both sides; {units.size(small)} could be sent to every executor instead.",
                    "spark.sql.autoBroadcastJoinThreshold", str(small + small // 5),
                )  # fmt: skip
    if node.name in _NESTED and (node.rows or 0) > ROWS_LIMIT:
        yield Insight(
            "cross join", subject, f"{node.rows:,} rows", f"{ROWS_LIMIT:,}", 4,
            f"{node.name} pairs every row of one side with every row of the other: {node.rows:,} rows.",
        )  # fmt: skip
