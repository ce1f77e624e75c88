"""Series of brokers, their machines and containers → raw metrics, from text scrapes and from Prometheus' answers alike.

Two rule sets are understood: one-minute rates under the names that Cruise Control's Prometheus sampler asks for (any
letter case), and counters (``…_total``, ``…persec_count``), whose rates are made from consecutive scrapes later.
Which host it is of comes from the ``pod`` and ``instance`` labels, the file's name or its folder (``host_port``); when, from the
sample, the file's name or its modification time. See ``metric_names`` for the names.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

import numpy as np
import polars as pl

from engine.broker_load.reading import metric_names
from engine.broker_load.reading.fields import LATEST_MS, file_time, name_time, strip_time
from engine.broker_load.tables import raw_metrics
from engine.broker_load.tables.inputs import BROKERS_IN, METRICS
from engine.formats.prometheus import series as prometheus
from engine.formats.prometheus.series import SeriesFile
from engine.problems import Problem
from engine.reading import Reading, Source
from engine.tables import Rows, Table

_PORT = re.compile(r"^(.+?)[_:](\d{2,5})$")
_PLAIN = re.compile(
    r"^(?:(?:metrics?|scrape|sample|tick|jmx|exporter|prom)?[-_.]?\d{0,9}|node|kafka|broker|node_exporter|jmx_exporter)$",
    re.I,
)
"""File names without a host in them."""


def instance(source: Source) -> str:
    """Return the host, or ``host:port``, a scrape came from, by the file's name and then its folder's."""
    stem = PurePath(source.name).stem if name_time(source.name) is None else source.name.rsplit(".", 1)[0]
    if "." in source.name and not source.name.rsplit(".", 1)[1].isalpha():
        stem = source.name
    candidate = strip_time(stem)
    folder = strip_time(PurePath(source.path).parent.name)
    if _PLAIN.match(candidate) or (_PORT.match(folder) and not _PORT.match(candidate)):
        # A folder called host_port is plainer than any file name in it.
        candidate = folder
    match = _PORT.match(candidate)
    return f"{match[1]}:{match[2]}" if match else candidate


class MetricScrape:
    """Series of brokers: text scrapes of a JMX exporter or node_exporter, and Prometheus' answers with the same series."""

    id = "metric-scrape"
    title = "JMX exporter, node_exporter, cAdvisor and Redpanda series: scrapes, Prometheus' answers and exports"
    append = False
    version = 5
    tables: tuple[Table, ...] = (METRICS, BROKERS_IN)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise by content: series in any form. Whether it holds broker series is seen when it is read."""
        return prometheus.looks_like(name, head)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read a file to rows of ``metrics``; a text without any series of interest gives none, without a problem."""
        if prometheus.is_text(data) and not metric_names.ANY.search(data):
            return Reading(consumed=len(data))
        file = prometheus.read(source, data, metric_names.LABELS, metric_names.NAMES)
        problems = list(file.problems)
        series = _series(file, source)
        mapped = _mapped(series, source, problems)
        _name_clusters(mapped, source, problems)
        mapped = _distinct(mapped, file, source, problems)
        rows: dict[str, Rows] = {"metrics": _rows(mapped, file, source, problems)}
        info = series.filter(pl.col("series").is_in(metric_names.BROKER_INFO))
        if info.height:
            rows["broker_list"] = _broker_list(info)
        return Reading(rows=rows, problems=problems, consumed=len(data), complete=final or not file.cut)


def _series(file: SeriesFile, source: Source) -> pl.DataFrame:
    """Return the series with their names in lower case, the place of each (``row``), and which ``host`` they are of."""
    name = pl.col("metric").str.to_lowercase()
    rated = metric_names.is_rate(name)
    pod = pl.coalesce(metric_names.PODS)
    of_node = pl.col("series").is_in(metric_names.NODE_CPU)
    return (
        file.series.lazy().with_row_index("row")
        .with_columns(
            metric_names.of_counter(name).alias("series"),
            rated.alias("rated"),
            pl.col("name").str.to_lowercase().fill_null("").alias("kind"),
            pl.coalesce("request", "redpanda_request").str.to_lowercase().fill_null("").alias("asked"),
            pl.coalesce(pl.when(pl.col("topic") != "").then("topic"), "redpanda_topic").alias("topic"),
        )
        .with_columns(
            pl.when(of_node).then("instance").otherwise(pl.coalesce(pod, "instance")).fill_null(instance(source))
            .alias("host")
        )
        .collect(engine="in-memory")
    )  # fmt: skip


def _mapped(series: pl.DataFrame, source: Source, problems: list[Problem]) -> pl.DataFrame:
    """Return the series that are raw metrics: ``row``, ``host``, ``broker``, ``id_of`` (metric), ``topic``, ``number``
    (partition or CPU), ``counter``, ``rank``, and what messages need."""
    # Most scrapes have few of these: what a scrape lacks costs no query.
    found = set(series["series"].unique().to_list())
    named = series.join(metric_names.KNOWN, on=["series", "kind", "asked"], how="inner", maintain_order="left")
    if found & set(metric_names.CONTAINERS):
        container = pl.col("series").is_in(metric_names.CONTAINERS)
        broker = metric_names.of_broker(pl.col("container")) & (pl.col("resource").fill_null("cpu") == "cpu")
        named = named.filter(~container | broker)
    has_topic = pl.col("topic").is_not_null()
    per_cpu = pl.col("series").is_in(["container_cpu_usage_seconds_total", "redpanda_cpu_busy_seconds_total"])
    cpu = pl.coalesce("shard", "cpu").str.extract(r"(\d+)$").cast(pl.Int32, strict=False)
    size = pl.col("topic_metric") == raw_metrics.SIZE
    named = named.with_columns(
        pl.when(has_topic).then("topic_metric").otherwise("broker_metric").alias("id_of"),
        pl.when(size).then(pl.col("partition").cast(pl.Int32, strict=False)).when(per_cpu).then(cpu).alias("number"),
        pl.when("rated").then(False).otherwise("counter").alias("counter"),
        pl.when("rated").then(pl.lit(metric_names.ONE_MINUTE, pl.UInt8)).otherwise("rank").alias("rank"),
    )
    lost = named.filter(size & (~has_topic | (pl.col("number").fill_null(-1) < 0)))
    if lost.height:
        problems.append(_problem(source, "missing-label", "a size without topic or partition", lost))
    named = named.filter((pl.col("id_of") != 255) & (~size | (pl.col("number") >= 0)))
    columns = ["row", "host", "broker_id", "id_of", "topic", "number", "counter", "rank", "line", "metric", "labels",
               *metric_names.CLUSTERS]  # fmt: skip
    mapped = named.select(columns)
    if found & set(metric_names.NODE_CPU):
        mapped = pl.concat([mapped, _idle(series).select(columns)]).sort("row")
    if (
        any(name.startswith("kafka_server_app_info") for name in found)
        or mapped["broker_id"].null_count() < mapped.height
    ):
        return _with_ids(mapped, series)
    return mapped.with_columns(pl.lit(None, pl.Int32).alias("broker"))


def _idle(series: pl.DataFrame) -> pl.DataFrame:
    """Return the idle seconds of machines' CPUs. A JMX rule set may carry labels ``cpu`` that mean nothing here."""
    idle = series.filter(pl.col("series").is_in(metric_names.NODE_CPU) & (pl.col("mode") == "idle") & ~pl.col("rated"))
    return idle.with_columns(
        pl.lit(raw_metrics.NODE_IDLE_SECONDS, pl.UInt8).alias("id_of"),
        pl.col("cpu").str.extract(r"(\d+)$").cast(pl.Int32, strict=False).alias("number"),
        pl.lit(True).alias("counter"),
        pl.lit(metric_names.COUNTED, pl.UInt8).alias("rank"),
        pl.lit(None, pl.String).alias("topic"),
    )


def _with_ids(mapped: pl.DataFrame, series: pl.DataFrame) -> pl.DataFrame:
    """Add ``broker``: the id that a label of the series names, else the one that the host's application info has."""
    info = series.filter(pl.col("series").str.starts_with("kafka_server_app_info"))
    number = pl.col("id").cast(pl.Int32, strict=False)
    ids = info.select("host", number.alias("of_host")).filter(pl.col("of_host") >= 0).unique()
    ids = ids.filter(pl.len().over("host") == 1)
    own = pl.col("broker_id").cast(pl.Int32, strict=False)
    mapped = mapped.join(ids, on="host", how="left", maintain_order="left")
    return mapped.with_columns(pl.coalesce(pl.when(own >= 0).then(own), "of_host").alias("broker"))


_PLACE = ("host", "id_of", "topic", "number")
"""Columns that say what a series measures."""


def _distinct(mapped: pl.DataFrame, file: SeriesFile, source: Source, problems: list[Problem]) -> pl.DataFrame:
    """Leave one series where several measure the same: a rate rather than a counter; of those that differ in other labels, as
    the copies of two servers do, the one with the most samples. ``place`` numbers what is measured."""
    if not mapped.select(_PLACE).is_duplicated().any():
        return mapped.with_row_index("place")
    mapped = mapped.with_columns((pl.struct(_PLACE).rank("dense") - 1).alias("place"))
    mapped = mapped.filter(pl.col("rank") == pl.col("rank").min().over("place"))
    if mapped.select("place", "labels").unique().height > mapped["place"].n_unique():
        kept, twins = prometheus.copies(mapped, ["place"], file)
        mapped = mapped.filter(kept)
        if twins.height:
            reason = "series given twice; the one with the most samples, else the first, counts"
            problems.append(_problem(source, "duplicate-series", reason, twins))
    return mapped


def _name_clusters(mapped: pl.DataFrame, source: Source, problems: list[Problem]) -> None:
    """Add a problem if a label names more than one cluster."""
    for label in metric_names.CLUSTERS:
        if mapped[label].null_count() == mapped.height:
            continue
        values = mapped[label].drop_nulls().unique().sort().to_list()
        if len(values) > 1:
            names = ", ".join(values[:4])
            reason = f'label {label} has several values ({names}): ask for one cluster, {label}="{values[0]}"'
            problems.append(Problem.at(source.path, "mixed-clusters", reason, count=len(values)))
            return


def _rows(mapped: pl.DataFrame, file: SeriesFile, source: Source, problems: list[Problem]) -> pl.DataFrame:
    """Return the rows of ``metrics``: the points of ``mapped`` series."""
    at = np.full(file.series.height, -1, np.int64)
    at[mapped["row"].to_numpy()] = np.arange(mapped.height)
    take = at[file.points["series"].to_numpy()] if file.points.height else np.empty(0, np.int64)
    points = file.points.select("value", "time_ms").with_columns(pl.Series("take", take)).filter(pl.Series(take >= 0))
    odd = points.filter(~pl.col("value").is_finite())
    if odd.height:
        first = mapped[odd["take"][:1]]
        problems.append(_problem(source, "not-finite", "NaN or infinite sample left out", first, odd.height))
        points = points.filter(pl.col("value").is_finite())
    place = mapped["place"].gather(points["take"])
    if mapped["place"].n_unique() < mapped.height:
        keys = points.select("time_ms", "value").with_columns(place)
        once = keys.select(pl.struct("place", "time_ms").is_first_distinct()).to_series()
        twice = keys.filter(~once)
        same = keys.filter(once).select("place", "time_ms", pl.col("value").alias("first"))
        differ = twice.join(same, on=["place", "time_ms"], how="left", nulls_equal=True)
        count = differ.filter(pl.col("value") != pl.col("first")).height
        if count:
            reason = "series given twice with other values; the first counts"
            problems.append(Problem.at(source.path, "duplicate-series", reason, count=count))
        points = points.filter(once)
    timely = pl.col("time_ms").is_between(0, LATEST_MS)
    untimely = points.filter(~timely)
    if untimely.height:
        first = mapped[untimely["take"][:1]]
        problems.append(_problem(source, "bad-time", "an impossible time; the file's is taken", first, untimely.height))
    of_series = mapped.select(
        "host",
        "broker",
        pl.col("id_of").alias("metric"),
        "topic",
        pl.col("number").alias("partition"),
        "counter",
    )[points["take"]]
    time = points.select(pl.when(timely).then("time_ms").otherwise(file_time(source)).alias("time_ms"))
    return time.hstack(of_series).hstack(points.select("value")).select(METRICS.schema.keys())


def _broker_list(info: pl.DataFrame) -> pl.DataFrame:
    """Return rows of ``broker_list`` from what exporters of the whole cluster say about its brokers."""
    number = pl.coalesce("broker_id", "id").cast(pl.Int32, strict=False)
    host = pl.col("address").str.replace(r":\d+$", "")
    rows = info.select(number.alias("broker"), host.alias("host"), pl.col("rack_id").alias("rack"))
    rows = rows.filter(pl.col("broker") >= 0).unique("broker", keep="last", maintain_order=True).sort("broker")
    return rows.with_columns(pl.lit(True).alias("alive"))


def _problem(source: Source, kind: str, reason: str, rows: pl.DataFrame, count: int | None = None) -> Problem:
    line = rows["line"][0]
    return Problem.at(
        source.path, kind, f"{reason}: {rows['metric'][0]}", line=None if line is None else int(line),
        count=rows.height if count is None else count,
    )  # fmt: skip
