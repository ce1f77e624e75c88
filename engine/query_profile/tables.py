"""The typed tables that the readers of the query profile deliver: what files say, before anything is computed."""

from __future__ import annotations

import polars as pl

from engine.tables import Column, Table

MATRIX = Table(
    "matrix",
    "Blocks of an upstream-style table: some intervals by all its columns.",
    (
        Column("names", pl.List(pl.String), "Column names, in the order of the numbers."),
        Column("values", pl.List(pl.Float64), "Numbers, interval by interval; microseconds.", "us"),
        Column("lines", pl.List(pl.Int64), "Line of the file of each interval, 1-based."),
    ),
)

METRICS: tuple[tuple[str, str], ...] = (
    ("calls", "Executions."),
    ("time_us", "Elapsed time inside the server."),
    ("rows", "Rows sent or touched, as the source counts them."),
    ("errors", "Executions that failed."),
    ("io_us", "Time in block reads and writes, where the server measures it."),
    ("lock_us", "Time waiting for table locks, where the server measures it."),
    ("cpu_us", "CPU that the server itself measured, where it does."),
)
"""What is counted per class and interval, by name; times in microseconds."""

_CLASS = (
    Column("series", pl.String, "Which server or file set the row belongs to; empty for the only one."),
    Column("key", pl.String, "What makes a class the same one in the next snapshot."),
    Column("queryid", pl.String, "The server's id or digest of the query, as text."),
    Column("query", pl.String, "Normalised query text."),
    Column("user", pl.String, "User the class ran as, or its id."),
    Column("database", pl.String, "Database or schema, or its id."),
)

SNAPSHOTS = Table(
    "snapshots",
    "Cumulative counters per query class at one moment.",
    (
        *_CLASS,
        Column("system", pl.String, "postgresql or mysql."),
        Column("part", pl.Int64, "Number of the snapshot within its file, from 0."),
        Column("at_ms", pl.Int64, "When the snapshot was taken; null where nothing says so.", "ms", "time_ms"),
        Column("nested", pl.Boolean, "Ran inside a function (not top level)."),
        Column("since_ms", pl.Int64, "When the server began to count this class.", "ms", "time_ms"),
        *(Column(name, pl.Float64, meaning) for name, meaning in METRICS),
        Column("counters", pl.List(pl.Float64), "Every counter that can only grow, to see resets by."),
    ),
)

SNAPSHOT_INFO = Table(
    "snapshot_info",
    "What pg_stat_statements says about itself: evictions and resets.",
    (
        Column("at_ms", pl.Int64, "When it was asked.", "ms", "time_ms"),
        Column("dealloc", pl.Float64, "Evictions so far."),
        Column("reset_ms", pl.Int64, "Last reset of all statistics.", "ms", "time_ms"),
    ),
)

INTERVALS_IN = Table(
    "interval_classes",
    "Work per query class in a stretch of time, as logs and digests give it.",
    (
        *_CLASS,
        Column("system", pl.String, "slow-log or pt-query-digest."),
        Column("start_ms", pl.Int64, "Begin of the stretch; null where nothing says so.", "ms", "time_ms"),
        Column("end_ms", pl.Int64, "End of the stretch; null where nothing says so.", "ms", "time_ms"),
        *(Column(name, pl.Float64, meaning) for name, meaning in METRICS),
    ),
)

HOST = Table(
    "host",
    "Resource use of the server or its host over time.",
    (
        Column("source", pl.String, "process, procstat, pidstat, mpstat, sadf, vmstat, node_exporter."),
        Column("host", pl.String, "Name of the host, where the file says it."),
        Column("series", pl.String, "File set: name without its moment."),
        Column("at_ms", pl.Int64, "Moment (end of the stretch).", "ms", "time_ms"),
        Column("seconds", pl.Float64, "Length of the stretch; null for a cumulative counter.", "s", "s"),
        Column("cores", pl.Float64, "CPUs of the host, where the file says it."),
        Column("name", pl.String, "user_us, system_us, iowait_us, idle_us, steal_us or another series."),
        Column("value", pl.Float64, "Cumulative value, or percent of all CPUs in the stretch."),
    ),
)
