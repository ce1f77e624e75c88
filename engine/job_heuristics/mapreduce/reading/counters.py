"""Counters of tasks: from the groups of a record to columns, and what Hadoop's parser would refuse."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from engine.job_heuristics.mapreduce.reading.records import Counters, Group
from engine.job_heuristics.mapreduce.tables import COUNTER_COLUMNS, FILE_COUNTER_NAMES, TASK_COUNTER_NAMES

_WIDTH = len(COUNTER_COLUMNS)
_EMPTY: tuple[None, ...] = (None,) * _WIDTH
_TASK_INDEX = {name: COUNTER_COLUMNS.index(column) for name, column in TASK_COUNTER_NAMES.items()}
_FILE_INDEX = {name: COUNTER_COLUMNS.index(column) for name, column in FILE_COUNTER_NAMES.items()}
OFFICIAL: dict[str, dict[str, int]] = {
    "org.apache.hadoop.mapreduce.TaskCounter": _TASK_INDEX,
    "org.apache.hadoop.mapred.Task$Counter": _TASK_INDEX,
    "org.apache.hadoop.mapreduce.FileSystemCounter": _FILE_INDEX,
    "FileSystemCounters": _FILE_INDEX,
}
"""Counter group → counter → index of its column."""
# Dr. Elephant looks a counter up by name in the first group that has it. We prefer the proper group and use another only
# if that lacks the counter.
ANYWHERE = {
    name: _TASK_INDEX.get(name, _FILE_INDEX.get(name, -1))
    for name in (
        "CPU_MILLISECONDS", "GC_TIME_MILLIS", "PHYSICAL_MEMORY_BYTES", "VIRTUAL_MEMORY_BYTES", "SPILLED_RECORDS",
        "MAP_OUTPUT_RECORDS", "REDUCE_SHUFFLE_BYTES", "HDFS_BYTES_READ", "S3_BYTES_READ", "S3A_BYTES_READ",
        "S3N_BYTES_READ",
    )
}  # fmt: skip


MOST_COUNTERS = 120
MOST_GROUPS = 50
"""Hadoop's default limits per record for counters and groups other than its own."""
_OWN_GROUPS = {f"org.apache.hadoop.mapreduce.{name}" for name in ("TaskCounter", "JobCounter", "FileSystemCounter")}


def groups_of(counters: Counters | None) -> list[Group]:
    """Return the groups of one record, plain or wrapped."""
    if counters is not None and counters.wrapped is not None:
        counters = counters.wrapped
    return [] if counters is None else counters.groups or []


def counter_row(counters: Counters | None) -> Sequence[int | None]:
    """Return the counter columns of one record, in the order of COUNTER_COLUMNS. The last of groups with the same
    name counts, as in Hadoop's parser."""
    groups = groups_of(counters)
    if not groups:
        return _EMPTY
    by_name = {group.name: group for group in groups}
    row: list[int | None] = [None] * _WIDTH
    others: list[Group] = []
    for group in by_name.values():
        index = OFFICIAL.get(group.name)
        if index is None:
            others.append(group)
            continue
        for counter in group.counts:
            at = index.get(counter.name)
            if at is not None:
                row[at] = counter.value
    for counter in chain.from_iterable(group.counts for group in others):
        at = ANYWHERE.get(counter.name)
        if at is not None and row[at] is None:
            row[at] = counter.value
    return row


def limit_error(counters: Counters | None) -> str:
    """Return the exception of Hadoop's parser for too many counters or groups; empty if there is none."""
    groups = groups_of(counters)
    if len(groups) <= MOST_GROUPS and sum(len(group.counts) for group in groups) <= MOST_COUNTERS:
        return ""
    thrown = "org.apache.hadoop.mapreduce.counters.LimitExceededException: Too many counter"
    names: set[str] = set()
    count = 0
    for group in groups:
        if group.name in _OWN_GROUPS:
            continue
        # A group that replaces another of its name still counts, and so do the counters of both.
        if len(names) == MOST_GROUPS:
            return f"{thrown} groups: {MOST_GROUPS + 1} max={MOST_GROUPS}"
        names.add(group.name)
        count += len({counter.name for counter in group.counts})
        if count > MOST_COUNTERS:
            return f"{thrown}s: {MOST_COUNTERS + 1} max={MOST_COUNTERS}"
    return ""
