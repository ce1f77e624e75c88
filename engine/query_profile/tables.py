"""Declare the tables of the query profile: input tables of its readers, and result tables."""

from __future__ import annotations

import polars as pl

from engine.core.tables import Column, Table

MATRIX = Table(
    "matrix",
    "Blocks of a WLR CSV: some intervals by all its columns.",
    (
        Column("names", pl.List(pl.String), "Column names, in the order of the numbers."),
        Column("values", pl.List(pl.Float64), "Numbers, interval by interval; microseconds.", "us"),
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
"""Metrics per class and interval, by name; times in microseconds."""

_CLASS = (
    Column("series", pl.String, "Which server or file set the row belongs to; empty for the only one."),
    Column("key", pl.String, "Identity of the class across snapshots."),
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
        Column("at_ms", pl.Int64, "When the snapshot was taken; null if unknown.", "ms", "time_ms"),
        Column("nested", pl.Boolean, "Ran inside a function (not top level)."),
        Column("since_ms", pl.Int64, "When the server began to count this class.", "ms", "time_ms"),
        *(Column(name, pl.Float64, meaning) for name, meaning in METRICS),
        Column("counters", pl.List(pl.Float64), "All counters that can only grow, to detect resets."),
    ),
)

SERVER_NAMES = Table(
    "server_names",
    "Names behind the ids of users and databases.",
    (
        Column("what", pl.String, "user or database."),
        Column("id", pl.String, "Its id, as snapshots have it."),
        Column("name", pl.String, "Its name."),
    ),
)

SNAPSHOT_INFO = Table(
    "snapshot_info",
    "Evictions and resets, as pg_stat_statements counts them.",
    (
        Column("at_ms", pl.Int64, "When the view was queried.", "ms", "time_ms"),
        Column("dealloc", pl.Float64, "Evictions so far."),
        Column("reset_ms", pl.Int64, "Last reset of all statistics.", "ms", "time_ms"),
    ),
)

INTERVALS_IN = Table(
    "interval_classes",
    "Work per query class in a stretch of time, from logs and digests.",
    (
        *_CLASS,
        Column("system", pl.String, "slow-log, postgresql-log, pg-stat-monitor or pt-query-digest."),
        Column("start_ms", pl.Int64, "Begin of the stretch; null if unknown.", "ms", "time_ms"),
        Column("end_ms", pl.Int64, "End of the stretch; null if unknown.", "ms", "time_ms"),
        Column("nested", pl.Boolean, "Ran inside another statement of the log, which holds its work."),
        *(Column(name, pl.Float64, meaning) for name, meaning in METRICS),
    ),
)

HOST = Table(
    "host",
    "Resource use of the server or its host over time.",
    (
        Column(
            "source", pl.String, "process, procstat, pidstat, mpstat, sadf, vmstat, node_exporter, cadvisor, docker."
        ),
        Column("host", pl.String, "Name of the host, if the file gives it."),
        Column("series", pl.String, "File set: name without its moment."),
        Column("at_ms", pl.Int64, "Moment (end of the stretch).", "ms", "time_ms"),
        Column(
            "seconds", pl.Float64, "Length of the stretch; null for a counter, 0 for since the sample before.", "s", "s"
        ),
        Column("cores", pl.Float64, "CPUs of the host, if the file gives it."),
        Column("name", pl.String, "user_us, system_us, iowait_us, idle_us, steal_us or another series."),
        Column("value", pl.Float64, "Cumulative value, or percent of all CPUs in the stretch."),
        Column("machine", pl.String, "node_exporter's name of the machine, if it differs from the host."),
    ),
)

METHODS = ("default", "wlr", "ols", "nnls", "ratio")  # methods of attribution, best first


def _us(name: str, meaning: str, **more: object) -> Column:
    return Column(name, pl.Float64, meaning, "us", "number", **more)  # type: ignore[arg-type]


NAN_TO_NULL = pl.col(pl.Float64).fill_nan(None)  # replace NaN by null, as in all result tables

CLASSES = Table(
    "classes",
    "Query classes with their work and the CPU that the chosen method attributes to them.",
    (
        Column("class", pl.String, "Name of the class: column of the table, query id or digest.", priority=0, width=24),
        Column("queryid", pl.String, "The server's id or digest of the query.", kind="id", hidden=True),
        Column("y_total", pl.Float64, "CPU (or the chosen resource) of the class.", "us", "number", "CPU", priority=0),
        Column("y_share", pl.Float64, "Its share of everything measured.", "", "ratio", "CPU share", priority=0),
        _us("y_low", "Lower end of the interval of its CPU.", title="low", priority=2),
        _us("y_high", "Upper end of the interval of its CPU.", title="high", priority=2),
        Column("active_cpus", pl.Float64, "CPUs that the class keeps busy on average; null if interval lengths are "
               "unknown.", "CPUs", "number", "active CPUs", priority=1),
        _us("x_total", "Elapsed time inside the server.", title="time", priority=0),
        Column("x_share", pl.Float64, "Its share of all elapsed time.", "", "ratio", "time share", priority=1),
        Column("calls", pl.Float64, "Executions; null where the source has none.", kind="count", priority=1),
        _us("latency_us", "Elapsed time per call in the window.", title="latency", priority=2),
        Column("cost_per_time", pl.Float64, "The model's CPU per elapsed time, apart from that per call (so not CPU by time).",
               kind="number", title="model: CPU/time", priority=3),
        Column("cost_per_call", pl.Float64, "The model's CPU per call, apart from that per time.", "us", "number",
               "model: CPU/call", priority=3),
        Column("disagreement", pl.Float64, "How far default and WLR differ, as a share of all CPU.", "", "ratio", "disagree",
               priority=2),
        Column("rows", pl.Float64, "Rows sent or touched.", kind="count", priority=4),
        Column("errors", pl.Float64, "Failed executions.", kind="count", priority=5),
        _us("io_us", "Time in block reads and writes.", title="IO", priority=4),
        _us("lock_us", "Time waiting for locks.", title="locks", priority=5, hidden=True),
        _us("cpu_measured_us", "CPU that the server itself measured.", title="cpu measured", priority=3),
        Column("n", pl.Int64, "Intervals with the class that WLR used.", kind="count", priority=5),
        Column("r2", pl.Float64, "R squared of the class' line in WLR.", kind="number", priority=6),
        Column("slope", pl.Float64, "Slope of the class' line in WLR.", kind="number", priority=6),
        Column("slope_stderr", pl.Float64, "Its standard error (scatter of WLR's own shares).", kind="number", hidden=True),
        _us("intercept", "Intercept of the class' line in WLR.", hidden=True),
        _us("intercept_stderr", "Its standard error; by the formula of VividCortex' program with rules=upstream.", hidden=True),
        _us("intercept_stderr_correct", "Its standard error by the right formula.", hidden=True),
        *(_us(f"y_{method}", f"CPU of the class by method {method}.", hidden=True) for method in METHODS),
        Column("flag", pl.String, "no spread: all times of the class are equal, so it has no line.", priority=4),
        Column("verb", pl.String, "First word of the statement.", priority=3, hidden=True),
        Column("user", pl.String, "User or its id.", priority=4, hidden=True),
        Column("database", pl.String, "Database or schema, or its id.", priority=4, hidden=True),
        Column("query", pl.String, "Normalised query text.", priority=3),
        Column("members", pl.Int64, "Classes in this row (more than 1 when grouped).", kind="count", hidden=True),
    ),
    key=("class",),
    title="Query classes",
)  # fmt: skip

PREDICTIONS = Table(
    "predictions",
    "Actual against predicted, interval by interval.",
    (
        Column("row", pl.Int64, "Data row, 1-based.", kind="count", priority=0),
        _us("actual", "CPU as measured.", priority=0),
        _us("predicted", "Predicted by the chosen method.", priority=0),
    ),
    key=("row",),
    order=("row",),
    title="Predictions",
)

INTERVALS = Table(
    "intervals",
    "Every interval, and whether fits use it.",
    (
        Column("row", pl.Int64, "Interval, 1-based.", kind="count", priority=0),
        Column("start_ms", pl.Int64, "Begin; null where not known.", "ms", "time_ms"),
        Column("end_ms", pl.Int64, "End; null where not known.", "ms", "time_ms", priority=0),
        Column("seconds", pl.Float64, "Length of the interval.", "s", "s"),
        Column(
            "window",
            pl.String,
            "now: in the window; before: in the window compared with; else empty.",
            priority=1,
        ),
        Column("used", pl.Boolean, "Fits use it.", kind="flag", priority=0),
        Column("reason", pl.String, "Why it is left out, or what is doubtful.", priority=0),
        _us("x", "Elapsed time of all classes."),
        _us("y", "Measured resource use."),
    ),
    key=("row",),
    order=("row",),
    title="Intervals",
)

METHODS_SIDE_BY_SIDE = Table(
    "methods",
    "The methods side by side.",
    (
        Column("method", pl.String, "How the CPU is divided among the classes.", priority=0),
        Column("mape", pl.Float64, "Mean relative error on the intervals it was fitted on.", "", "ratio", priority=0),
        _us("attributed", "CPU given to classes."),
        _us("background", "CPU given to no class: used at all times."),
        _us("unattributed", "Measured less attributed and background."),
        Column(
            "moved_share",
            pl.Float64,
            "Share of the CPU that it attributes to other classes than the default.",
            "",
            "ratio",
        ),
        Column("top_class", pl.String, "Class with most CPU."),
        Column("top_share", pl.Float64, "Its share.", "", "ratio"),
    ),
    key=("method",),
    title="Methods",
)

COMPARISON = Table(
    "comparison",
    "Two windows side by side, per second where times are known.",
    (
        Column("class", pl.String, "The query without its values.", priority=0),
        _us("x_before", "Elapsed time per second (or interval) in the window compared with."),
        _us("x_now", "Elapsed time per second (or interval) in the window."),
        Column("x_factor", pl.Float64, "Now / before.", kind="number"),
        Column("calls_before", pl.Float64, "Calls per second (or interval) before.", kind="number"),
        Column("calls_now", pl.Float64, "Calls per second (or interval) now.", kind="number"),
        _us("latency_before_us", "Elapsed time per call before."),
        _us("latency_now_us", "Elapsed time per call now."),
        _us("y_before", "CPU per second (or interval) before."),
        _us("y_now", "CPU per second (or interval) now."),
        _us("y_change", "Change of its CPU per second (or interval)."),
        _us("y_change_low", "Lower end of the interval of the change."),
        _us("y_change_high", "Upper end of the interval of the change."),
        Column("status", pl.String, "new, gone or both.", priority=0),
    ),
    key=("class",),
    title="Comparison",
)

WHAT_IF = Table(
    "what_if",
    "What if the class were faster or gone.",
    (
        Column("class", pl.String, "The query without its values.", priority=0),
        Column("faster", pl.Float64, "How many times faster; null when dropped.", kind="number"),
        _us("saved", "CPU saved in the window.", priority=0),
        _us("saved_low", "Lower end of its interval."),
        _us("saved_high", "Upper end of its interval."),
        Column("utilisation", pl.Float64, "Of all CPUs now.", "", "ratio"),
        Column("utilisation_after", pl.Float64, "Of all CPUs then.", "", "ratio"),
        Column("latency_factor", pl.Float64, "Latency of the other classes relative to now.", kind="number"),
    ),
    key=("class",),
    title="What if",
)

SOURCES = Table(
    "sources",
    "Sources found; the first that fits is used.",
    (
        Column("source", pl.String, "Name to choose it by (-o source=).", priority=0),
        Column("kind", pl.String, "Format of the files."),
        Column("classes", pl.Int64, "Number of query classes.", kind="count"),
        Column("intervals", pl.Int64, "Number of intervals.", kind="count"),
        Column("usable", pl.Int64, "Intervals that fits can use.", kind="count"),
        Column("resource", pl.String, "What is attributed and where it comes from."),
        Column("chosen", pl.Boolean, "Shown now.", kind="flag"),
    ),
    key=("source",),
    title="Sources",
)
