"""Read statements and CPU from series of postgres_exporter, mysqld_exporter, node_exporter and cAdvisor.

Scrapes and Prometheus' answers are read alike. The unit follows from the name: ``_seconds``, else milliseconds. Sources: the
exporters' documentation of their metrics.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from engine.core.reading import Document, Problem, Reading, Source, clean
from engine.core.tables import Table
from engine.formats.prometheus import series as prometheus
from engine.formats.prometheus.series import SeriesFile
from engine.formats.timestamps import name_instant_ms, name_stem
from engine.query_profile.reading.collected_rows import LARGEST, STEM, HostRows
from engine.query_profile.reading.pgss import KCACHE
from engine.query_profile.tables import HOST, SNAPSHOTS

LAST_MS = 253_402_300_799_000  # last second of the year 9999; later timestamps are damaged

POSTGRES, MYSQL = "postgres_exporter", "mysqld_exporter"
"""Systems whose statements an exporter lists. It lists only the top classes, so classes enter and leave."""

_MS, _S = 1e3, 1e6  # microseconds in the units of names

_FIELDS: dict[str, tuple[str, str, float]] = {
    "pg_stat_statements_calls_total": (POSTGRES, "calls", 1),
    "pg_stat_statements_seconds_total": (POSTGRES, "time_us", _S),
    "pg_stat_statements_rows_total": (POSTGRES, "rows", 1),
    "pg_stat_statements_block_read_seconds_total": (POSTGRES, "read_us", _S),
    "pg_stat_statements_block_write_seconds_total": (POSTGRES, "write_us", _S),
    # by configuration: the queries.yaml of older exporters, sql_exporter
    "pg_stat_statements_calls": (POSTGRES, "calls", 1),
    "pg_stat_statements_total_time": (POSTGRES, "time_us", _MS),
    "pg_stat_statements_total_exec_time": (POSTGRES, "time_us", _MS),
    "pg_stat_statements_total_time_seconds": (POSTGRES, "time_us", _S),
    "pg_stat_statements_total_exec_time_seconds": (POSTGRES, "time_us", _S),
    "pg_stat_statements_rows": (POSTGRES, "rows", 1),
    "pg_stat_statements_blk_read_time": (POSTGRES, "read_us", _MS),
    "pg_stat_statements_blk_write_time": (POSTGRES, "write_us", _MS),
    "pg_stat_statements_blk_read_time_seconds": (POSTGRES, "read_us", _S),
    "pg_stat_statements_blk_write_time_seconds": (POSTGRES, "write_us", _S),
    "ccp_pg_stat_statements_top_total_time_ms": (POSTGRES, "time_us", _MS),
    "pgwatch_stat_statements_calls": (POSTGRES, "calls", 1),
    "pgwatch_stat_statements_total_time": (POSTGRES, "time_us", _MS),
    "mysql_perf_schema_events_statements_total": (MYSQL, "calls", 1),
    "mysql_perf_schema_events_statements_seconds_total": (MYSQL, "time_us", _S),
    "mysql_perf_schema_events_statements_lock_time_seconds_total": (MYSQL, "lock_us", _S),
    "mysql_perf_schema_events_statements_cpu_time_seconds_total": (MYSQL, "cpu_us", _S),
    "mysql_perf_schema_events_statements_errors_total": (MYSQL, "errors", 1),
    "mysql_perf_schema_events_statements_rows_sent_total": (MYSQL, "rows", 1),
    "mysql_perf_schema_events_statements_rows_affected_total": (MYSQL, "affected", 1),
}
"""System, field and factor to microseconds by name of a series."""

_KCACHE = {
    f"{prefix}{when}{what}_time{ending}": when + what
    for prefix in ("pg_stat_kcache_", "pgwatch_pg_stat_kcache_")
    for when in ("", "exec_", "plan_")
    for what in ("user", "system", "total")
    for ending in ("", "_total", "_seconds", "_seconds_total")
}
"""Part of a class' CPU (seconds) by name of a series. The names are the columns of pg_stat_kcache, since exporters export it by
configuration only."""

_TEXTS = "pg_stat_statements_query_id"
_NODE = "node_cpu_seconds_total"
_UNAME = "node_uname_info"
_CONTAINER = "container_cpu_usage_seconds_total"
_QUOTA, _PERIOD, _LIMIT = "container_spec_cpu_quota", "container_spec_cpu_period", "kube_pod_container_resource_limits"
_OF_MACHINES = (_NODE, _UNAME, _CONTAINER, _QUOTA, _PERIOD, _LIMIT)
_NAMES = rf"^(?:{'|'.join([*_FIELDS, *_KCACHE, _TEXTS, *_OF_MACHINES])})(?:[^a-zA-Z0-9_:.]|$)"
_WORDS = (
    b"pg_stat_statements_", b"pg_stat_kcache_", b"mysql_perf_schema_events_statements", b"node_cpu_seconds_total",
    b"container_cpu_usage_seconds_total",
)  # fmt: skip
_LABELS = (
    "instance", "pod", "host", "queryid", "query", "user", "rolname", "usename", "role", "datname", "dbname", "schema",
    "digest", "digest_text", "cpu", "mode", "container", "resource", "top", "nodename",
)  # fmt: skip
_DATABASES = r"(?i)postgres|pgsql|mysql|maria|percona|pxc|^database$|^db$"
_OTHERS = r"(?i)exporter|backup|init|sidecar|bouncer|proxy|agent|metrics|monitor|operator"
"""Names of database server containers and of their sidecars. A container without a name, or called POD, is the pod's sum."""

_STATES = (("user", "nice"), ("system", "irq", "softirq"), ("iowait",), ("idle",), ("steal",))
"""Modes of node_exporter that make up each of ``STATES``; the first mode is required."""


class ExporterSeries(Document):
    """Series of database and machine exporters: counters of statement classes, and seconds per CPU and mode."""

    id = "exporter-series"
    title = "node_exporter, postgres_exporter, mysqld_exporter and cAdvisor series: scrapes, Prometheus' answers and exports"
    tables: tuple[Table, ...] = (HOST, SNAPSHOTS)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise series in any form, since wanted ones may come after the head; a copy of /proc/stat looks like one."""
        return prometheus.looks_like(name, head) and not head.startswith(b"cpu ")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the counters of every machine and server at every time."""
        if prometheus.is_text(data) and not any(word in data for word in _WORDS):
            return Reading()
        file = prometheus.read(source, data, _LABELS, _NAMES)
        reading = Reading(problems=list(file.problems), complete=final or not file.cut or not file.answer)
        if not file.series.height:
            return reading
        series = file.series.with_row_index("row")
        statements = series.filter(pl.col("metric").is_in(list(_FIELDS)))
        machines = series.filter((pl.col("metric") == _NODE) & pl.col("mode").is_not_null())
        database = pl.col("container").str.contains(_DATABASES) & ~pl.col("container").str.contains(_OTHERS)
        containers = series.filter(pl.col("metric").is_in([_CONTAINER, _QUOTA, _PERIOD, _LIMIT]) & database)
        counted = series.filter(pl.col("metric").is_in(list(_KCACHE)) & pl.col("queryid").is_not_null())
        hosts, snapshots = [], []
        if machines.height:
            host = _points(machines, ["instance", "cpu", "mode"], file, source, reading.problems)
            named = series.filter(pl.col("metric") == _UNAME).select("instance", "nodename").drop_nulls()
            hosts.append(_host_rows(host, dict(named.iter_rows()), source))
            if host.height and not host["mode"].is_in(["user", "system"]).any():
                reason = f"{_NODE} without the modes user and system tells no CPU"
                reading.problems.append(Problem.at(source.path, "no-cpu", reason, line=host["line"][0]))
        if containers.height:
            hosts.append(_container_rows(containers, file, source, reading.problems))
        if statements.height:
            texts = series.filter(pl.col("metric") == _TEXTS)
            snapshots.append(_snapshots(statements, texts, file, source, reading.problems))
        if counted.height:
            snapshots.append(_counted(counted, file, source, reading.problems))
        if hosts:
            reading.rows["host"] = pl.concat(hosts)
        if snapshots:
            reading.rows["snapshots"] = pl.concat(snapshots)
        return reading


def _points(
    series: pl.DataFrame, place: list[str], file: SeriesFile, source: Source, problems: list[Problem]
) -> pl.DataFrame:
    """Return the points of ``series`` with their columns and ``at_ms``, one per ``place`` and time."""
    if series.select(*place, "labels").unique().height > series.select(place).unique().height:
        kept, twins = prometheus.copies(series, place, file)
        series = series.filter(kept)
        if twins.height:
            reason = f"series given twice: {twins['metric'][0]}; the one with the most samples, else the first, counts"
            problems.append(Problem.at(source.path, "duplicate-series", reason, count=twins.height))
    timely = pl.col("time_ms").is_between(0, LAST_MS)
    moment = name_instant_ms(source.name) or source.mtime_ms
    points = file.points.rename({"series": "row"}).join(series, on="row", maintain_order="left")
    sane = pl.col("value").is_between(0, LARGEST)
    bad = points.filter(~sane)
    if bad.height:
        reason = f"a value that is no counter: {bad['metric'][0]}; it is left out"
        problems.append(Problem.at(source.path, "bad-number", reason, line=bad["line"][0], count=bad.height))
    points = points.filter(sane).with_columns(pl.when(timely).then("time_ms").otherwise(moment).alias("at_ms"))
    return points.unique([*place, "at_ms"], keep="first", maintain_order=True)


def _host_rows(points: pl.DataFrame, machines: dict[str, str], source: Source) -> pl.DataFrame:
    """Return rows of the ``host`` table: microseconds of all CPUs of a machine by state. ``machines``: names by instance."""
    rows = HostRows(source, "node_exporter")
    points = points.with_columns(pl.col("instance").fill_null(""))
    cores = dict(points.group_by("instance").agg(pl.col("cpu").n_unique()).iter_rows())
    by_mode = points.group_by("instance", "at_ms", "mode", maintain_order=True).agg(pl.col("value").sum())
    modes = by_mode.group_by("instance", "at_ms").agg("mode", "value").sort("instance", "at_ms")
    for instance, moment, *used in modes.iter_rows():
        seconds = dict(zip(*used, strict=True))
        rows.host, rows.cores = prometheus.host_of(instance), float(cores[instance])
        rows.machine = machines.get(instance)
        rows.states(
            moment, [sum(seconds.get(m, 0.0) for m in of) * 1e6 if of[0] in seconds else None for of in _STATES]
        )
    return pl.DataFrame(rows.columns, schema=HOST.schema)


def _snapshots(
    series: pl.DataFrame, texts: pl.DataFrame, file: SeriesFile, source: Source, problems: list[Problem]
) -> pl.DataFrame:
    """Return rows of the ``snapshots`` table: one per server, time and class."""
    known = pl.DataFrame(
        [(name, *rest) for name, rest in _FIELDS.items()], schema=["metric", "system", "field", "factor"], orient="row"
    )
    stem = clean(name_stem(source.name))
    series = _identified(series.join(known, on="metric", maintain_order="left"), stem)
    own = ["system", "series", "queryid", "user", "database", "query"]
    points = _points(series, ["metric", *own], file, source, problems)
    by_id = texts.select(_server(stem).alias("series"), "queryid", pl.col("query").alias("text"))
    by_id = by_id.drop_nulls().unique(["series", "queryid"], keep="last", maintain_order=True)
    value = pl.col("value") * pl.col("factor")
    fields = dict.fromkeys(field for _, field, _ in _FIELDS.values())
    rows = points.group_by("system", "series", "at_ms", *own[2:], maintain_order=True).agg(
        value.filter(pl.col("field") == field).first().alias(field) for field in fields
    )
    # Calls and times may come in separate files; files of the same moments are joined later.
    rows = rows.filter(pl.any_horizontal(pl.col("calls", "time_us").is_not_null())).join(
        by_id, on=["series", "queryid"], how="left"
    )
    # A class is identified by its id, or by its text if the server gives no id.
    identity = pl.when(pl.col("queryid") != "").then("queryid").otherwise("query")
    io = pl.when(pl.col("read_us").is_not_null() | pl.col("write_us").is_not_null()).then(
        pl.sum_horizontal("read_us", "write_us")
    )
    rows = rows.with_columns(
        pl.concat_str([identity, "user", "database"], separator="\x1f").alias("key"),
        pl.coalesce(pl.when(pl.col("query") != "").then("query"), "text").fill_null("").alias("query"),
        pl.when(pl.col("affected").is_null())
        .then("rows")
        .otherwise(pl.sum_horizontal("rows", "affected"))
        .alias("rows"),
        io.alias("io_us"),
        pl.concat_list([pl.col(field).fill_null(float("nan")) for field in fields]).alias("counters"),
    )
    return _table(rows)


def _identified(series: pl.DataFrame, stem: str) -> pl.DataFrame:
    """Add the identity of a class from the label names of each exporter, and its server (``series``)."""
    return series.with_columns(
        pl.coalesce("queryid", "digest").fill_null("").alias("queryid"),
        pl.coalesce("user", "usename", "rolname", "role").fill_null("").alias("user"),
        pl.coalesce("datname", "dbname", "schema").fill_null("").alias("database"),
        pl.coalesce("query", "digest_text").fill_null("").alias("query"),
        _server(stem).alias("series"),
    )


def _table(rows: pl.DataFrame) -> pl.DataFrame:
    """Build rows of the ``snapshots`` table, one per server, time and class; a part holds one server at one time."""
    rows = rows.unique(["series", "at_ms", "key"], keep="first", maintain_order=True).sort("series", "at_ms", "key")
    part = (pl.col("at_ms").rank("dense").over("series") - 1).cast(pl.Int64).alias("part")
    return SNAPSHOTS.frame(
        rows.with_columns(part, pl.lit(False).alias("nested")).select(
            name for name in SNAPSHOTS.schema if name in {*rows.columns, "part", "nested"}
        )
    )


def _counted(series: pl.DataFrame, file: SeriesFile, source: Source, problems: list[Problem]) -> pl.DataFrame:
    """Return rows of the ``snapshots`` table with the CPU that pg_stat_kcache counted: user and system time, or their total.

    Nested statements (label ``top``) are part of the statements that call them and left out.
    """
    parts = pl.DataFrame(list(_KCACHE.items()), schema=["metric", "what"], orient="row")
    series = _identified(series.join(parts, on="metric", maintain_order="left"), clean(name_stem(source.name)))
    series = series.filter(~pl.col("top").str.to_lowercase().is_in(["f", "false", "0"]).fill_null(False))
    own = ["series", "queryid", "user", "database", "query"]
    points = _points(series, ["what", *own], file, source, problems)

    def total(when: str) -> pl.Expr:
        user, system, both = (
            pl.col("value").filter(pl.col("what") == when + what).first() for what in ("user", "system", "total")
        )
        return pl.coalesce(user + system, both)

    rows = points.group_by("series", "at_ms", *own[1:], maintain_order=True).agg(
        pl.coalesce(total("exec_"), total("")).alias("run"), total("plan_").fill_null(0.0).alias("planned")
    )
    half = rows.filter(pl.col("run").is_null())
    if half.height:
        reason = "user time of query classes without their system time, or the reverse: ask for both in one query"
        problems.append(Problem.at(source.path, "half-counted", reason, count=half["queryid"].n_unique()))
    cpu = ((pl.col("run") + pl.col("planned")) * _S).alias("cpu_us")
    rows = rows.filter(pl.col("run").is_not_null()).with_columns(
        pl.lit(KCACHE).alias("system"), cpu, pl.concat_list(cpu).alias("counters"),
        pl.concat_str(["queryid", "user", "database"], separator="\x1f").alias("key"),
    ).drop("run", "planned")  # fmt: skip
    return _table(rows)


def _container_rows(series: pl.DataFrame, file: SeriesFile, source: Source, problems: list[Problem]) -> pl.DataFrame:
    """Return rows of the ``host`` table: microseconds of the CPU of a pod's database containers, and the cores it may use."""
    series = series.filter((pl.col("metric") != _LIMIT) | (pl.col("resource") == "cpu")).with_columns(
        pl.coalesce("pod", "instance").fill_null("").alias("pod")
    )
    points = _points(series, ["metric", "pod", "container", "cpu"], file, source, problems)
    newest = points.sort("at_ms", maintain_order=True).unique(
        ["metric", "pod", "container"], keep="last", maintain_order=True
    )
    limits = {(metric, pod, container): value for metric, pod, container, value in
              newest.select("metric", "pod", "container", "value").iter_rows()}  # fmt: skip
    cores: dict[str, float] = {}
    for pod, container in newest.select("pod", "container").unique(maintain_order=True).iter_rows():
        quota, period, limit = (limits.get((name, pod, container)) for name in (_QUOTA, _PERIOD, _LIMIT))
        cores[pod] = cores.get(pod, 0.0) + (limit or (quota / period if quota and period else float("nan")))
    rows = HostRows(source, "cadvisor")
    used = points.filter(pl.col("metric") == _CONTAINER).group_by("pod", "at_ms").agg(pl.col("value").sum())
    for pod, moment, seconds in used.sort("pod", "at_ms").iter_rows():
        rows.host, rows.cores = prometheus.host_of(pod), cores[pod] if cores[pod] > 0 else None
        rows.used(moment, "cpu_us", seconds * _S)
    return pl.DataFrame(rows.columns, schema=HOST.schema)


def _server(stem: str) -> pl.Expr:
    """Select the server of a series: its host or pod, else the file's name without its moment."""
    return pl.coalesce("pod", pl.col("instance").str.replace(r":\d{1,5}$", ""), "host").fill_null(STEM + stem)
