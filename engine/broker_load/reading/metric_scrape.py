"""Series of brokers, their machines and containers to raw metrics, from text scrapes and Prometheus' answers.

Two rule sets are understood: one-minute rates under the names that Cruise Control's Prometheus sampler asks for (any
letter case), and counters (``…_total``, ``…persec_count``), whose rates are computed from consecutive scrapes later.
The host comes from the ``pod`` and ``instance`` labels, the file's name or its folder (``host_port``); the time from the
sample, the file's name or its modification time. See ``metric_names`` for the names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
import polars as pl

from engine.broker_load.reading import metric_names
from engine.broker_load.reading.fields import LATEST_MS, file_time, name_time, problems_at, strip_time
from engine.broker_load.tables import raw_metrics
from engine.broker_load.tables.inputs import BROKERS_IN, CLUSTERS, FACTS, MACHINES, METRICS
from engine.core.reading import Document, Problem, Reading, Source
from engine.core.tables import Parts, Rows, Table
from engine.formats.prometheus import series as prometheus
from engine.formats.prometheus.series import SeriesFile
from engine.formats.prometheus.text import AT_ONCE

_RATE = r":(?:rate|irate)(?:\d+[smh])?$"
"""The ending that a recording rule, or ``label_replace`` around ``rate()``, puts behind a counter's name."""
_PORT = re.compile(r"^(.+?)[_:](\d{2,5})$")
_PLAIN = re.compile(
    r"^(?:(?:metrics?|scrape|sample|tick|jmx|exporter|prom)?[-_.]?\d{0,9}|node|kafka|broker|node_exporter|jmx_exporter)$",
    re.I,
)
"""File names without a host in them."""


def instance(source: Source) -> str:
    """Return the host, or ``host:port``, of a scrape, by the file's name, else by its folder's."""
    stem = PurePath(source.name).stem if name_time(source.name) is None else source.name.rsplit(".", 1)[0]
    if "." in source.name and not source.name.rsplit(".", 1)[1].isalpha():
        stem = source.name
    candidate = strip_time(stem)
    folder = strip_time(PurePath(source.path).parent.name)
    if _PLAIN.match(candidate) or (_PORT.match(folder) and not _PORT.match(candidate)):
        # A folder called host_port is a better source than the names of its files.
        candidate = folder
    match = _PORT.match(candidate)
    return f"{match[1]}:{match[2]}" if match else candidate


class MetricScrape(Document):
    """Series of brokers: text scrapes of a JMX exporter or node_exporter, and Prometheus' answers with the same series."""

    id = "metric-scrape"
    title = "JMX exporter, node_exporter, cAdvisor and Redpanda series: scrapes, Prometheus' answers and exports"
    marks = ("# type ", "kafka_")
    tables: tuple[Table, ...] = (METRICS, FACTS, CLUSTERS, BROKERS_IN, MACHINES)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise series in any form by content; whether they are of brokers shows when the file is read."""
        return prometheus.looks_like(name, head)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read a file to rows of ``metrics``; a text without series of interest gives no rows and no problem."""
        if prometheus.is_text(data) and not metric_names.ANY.search(data):
            return Reading(consumed=len(data))
        file = prometheus.read(source, data, metric_names.LABELS, metric_names.NAMES)
        problems = list(file.problems)
        series, names = _by_cluster(_series(file, source), source, problems)
        # Each query takes as long as for thousands of lines: those for absent series and labels are skipped.
        found = set(series["series"].unique().to_list())
        facts = _facts(series) if found & _NAMES_OF_FACTS else _NO_FACTS
        mapped = _mapped(series, found, source, problems)
        if facts.height:  # without the CPU of exporters of the whole cluster, which are not brokers
            exporters = facts.filter(~pl.col("own"))["host"].unique().implode()
            mapped = mapped.filter(
                ~((pl.col("id_of") == raw_metrics.PROCESS_CPU_SECONDS) & pl.col("host").is_in(exporters))
            )
        mapped = _distinct(mapped, file, source, problems)
        rows: dict[str, Rows] = {"metrics": _rows(mapped, file, source, problems)}
        if facts.height:
            rows["cluster_facts"] = _spans(facts, file, source)
        if names:
            brokers = mapped.filter(~pl.col("id_of").is_in(_OF_MACHINES)).select("cluster", "host")
            counts = dict(
                pl.concat([brokers, facts.select("cluster", "host")]).unique().group_by("cluster").len().iter_rows()
            )
            numbers = list(range(1, len(names) + 1))
            rows["clusters"] = {
                "cluster": numbers,
                "name": names,
                "brokers": [counts.get(number, 0) for number in numbers],
            }
        if _has_any(series, metric_names.MACHINES) and (machines := _machines(series)).height:
            rows["machines"] = machines
        if found & set(metric_names.BROKER_INFO):
            rows["broker_list"] = _broker_list(series.filter(pl.col("series").is_in(metric_names.BROKER_INFO)), file)
        return Reading(rows=rows, problems=problems, consumed=len(data), complete=final or not file.cut)


# Made once: of a short scrape, making expressions takes longer than computing them.
_NAME = pl.col("metric").str.to_lowercase()
_WORDS = (
    _NAME.str.replace(_RATE, "").alias("series"),
    _NAME.str.contains(_RATE).alias("rated"),
    pl.col("name").str.to_lowercase().fill_null("").alias("kind"),
    pl.coalesce("request", "redpanda_request").str.to_lowercase().fill_null("").alias("asked"),
    pl.coalesce(pl.when(pl.col("topic") != "").then("topic"), "redpanda_topic", "topic_name").alias("topic"),
    pl.coalesce("partition", "partition_id", "redpanda_partition").alias("partition"),
)
_HOST = (
    pl.when(pl.col("series").is_in([*metric_names.NODE_CPU, metric_names.MACHINE_INFO]))
    .then("instance")
    .otherwise(pl.coalesce(*metric_names.PODS, "instance"))
)


def _series(file: SeriesFile, source: Source) -> pl.DataFrame:
    """Return the series with lower-case names, their place (``row``) and ``host``."""
    rows = file.series.lazy().with_row_index("row").with_columns(_WORDS)
    return rows.with_columns(_HOST.fill_null(instance(source)).alias("host")).collect(**AT_ONCE)


def _has_any(series: pl.DataFrame, labels: Sequence[str]) -> bool:
    """Return whether any series has one of ``labels``."""
    return any(series[label].null_count() < series.height for label in labels)


_SIZE = pl.col("topic_metric") == raw_metrics.SIZE
_METRIC = (
    pl.when(pl.col("topic").is_not_null()).then("topic_metric").otherwise("broker_metric").alias("id_of"),
    pl.when(_SIZE)
    .then(pl.col("partition").cast(pl.Int32, strict=False))
    .when(pl.col("series").is_in(["container_cpu_usage_seconds_total", "redpanda_cpu_busy_seconds_total"]))
    .then(pl.coalesce("shard", "cpu").str.extract(r"(\d+)$").cast(pl.Int32, strict=False))
    .alias("number"),
    pl.when("rated").then(False).otherwise("counter").alias("counter"),
    pl.when("rated").then(pl.lit(metric_names.ONE_MINUTE, pl.UInt8)).otherwise("rank").alias("rank"),
)
_MEASURED = (pl.col("id_of") != 255) & (~_SIZE | (pl.col("number") >= 0))


def _mapped(series: pl.DataFrame, found: set[str], source: Source, problems: list[Problem]) -> pl.DataFrame:
    """Return the series that are raw metrics: ``row``, ``host``, ``broker``, ``id_of`` (metric), ``topic``, ``number``
    (partition or CPU), ``counter``, ``rank``, and the columns that messages show. ``found``: the names of all series."""
    named = series.lazy().join(
        metric_names.KNOWN.lazy(), on=["series", "kind", "asked"], how="inner", maintain_order="left"
    )
    if found & set(metric_names.CONTAINERS):
        container = pl.col("series").is_in(metric_names.CONTAINERS)
        broker = metric_names.of_broker(pl.col("container")) & (pl.col("resource").fill_null("cpu") == "cpu")
        named = named.filter(~container | broker)
    taken = named.with_columns(_METRIC).collect(**AT_ONCE)
    if (taken["topic_metric"] == raw_metrics.SIZE).any():
        lost = taken.filter(_SIZE & (pl.col("topic").is_null() | (pl.col("number").fill_null(-1) < 0)))
        problems += _problem(source, "missing-label", "a size without topic or partition", lost)
    columns = ["row", "host", "cluster", "broker_id", "id_of", "topic", "number", "counter", "rank", "line", "metric",
               "labels"]  # fmt: skip
    mapped = taken.filter(_MEASURED)[columns]
    if found & set(metric_names.NODE_CPU):
        mapped = pl.concat([mapped, _idle(series).select(columns)]).sort("row")
    if (
        any(name.startswith("kafka_server_app_info") for name in found)
        or mapped["broker_id"].null_count() < mapped.height
    ):
        return _with_ids(mapped, series)
    return mapped.with_columns(pl.lit(None, pl.Int32).alias("broker"))


def _idle(series: pl.DataFrame) -> pl.DataFrame:
    """Return the idle seconds of machines' CPUs. Labels ``cpu`` of JMX rule sets do not count."""
    return series.filter(
        pl.col("series").is_in(metric_names.NODE_CPU) & (pl.col("mode") == "idle") & ~pl.col("rated")
    ).with_columns(
        pl.lit(raw_metrics.NODE_IDLE_SECONDS, pl.UInt8).alias("id_of"),
        pl.col("cpu").str.extract(r"(\d+)$").cast(pl.Int32, strict=False).alias("number"),
        pl.lit(True).alias("counter"),
        pl.lit(metric_names.COUNTED, pl.UInt8).alias("rank"),
        pl.lit(None, pl.String).alias("topic"),
    )


def _with_ids(mapped: pl.DataFrame, series: pl.DataFrame) -> pl.DataFrame:
    """Add ``broker``: the id in the series' label, else the one in the host's application info."""
    info = series.filter(pl.col("series").str.starts_with("kafka_server_app_info"))
    number = pl.col("id").cast(pl.Int32, strict=False)
    ids = info.select("host", "cluster", number.alias("of_host")).filter(pl.col("of_host") >= 0).unique()
    ids = ids.filter(pl.len().over("host", "cluster") == 1)
    own = pl.col("broker_id").cast(pl.Int32, strict=False)
    mapped = mapped.join(ids, on=["host", "cluster"], how="left", maintain_order="left")
    return mapped.with_columns(pl.coalesce(pl.when(own >= 0).then(own), "of_host").alias("broker"))


MOST_CLUSTERS = 255  # most clusters distinguished in one file; series of further ones are left out
_OF_MACHINES = (
    raw_metrics.NODE_IDLE_SECONDS, raw_metrics.CONTAINER_CPU_SECONDS, raw_metrics.CONTAINER_CORES,
    raw_metrics.CONTAINER_QUOTA, raw_metrics.CONTAINER_PERIOD, raw_metrics.PROCESS_CPU_SECONDS,
)  # fmt: skip
"""Metrics that not only brokers have."""
_PLACE = ("host", "cluster", "id_of", "topic", "number")  # columns that identify what a series measures


def _distinct(mapped: pl.DataFrame, file: SeriesFile, source: Source, problems: list[Problem]) -> pl.DataFrame:
    """Keep one series where several measure the same; ``place`` numbers what is measured.

    A rate is preferred to a counter. If series differ only in other labels, like copies by two servers, the one with most samples
    is kept.
    """
    if not mapped.select(_PLACE).is_duplicated().any():
        return mapped.with_row_index("place")
    mapped = mapped.with_columns((pl.struct(_PLACE).rank("dense") - 1).alias("place"))
    mapped = mapped.filter(pl.col("rank") == pl.col("rank").min().over("place"))
    if mapped.select("place", "labels").unique().height > mapped["place"].n_unique():
        kept, twins = prometheus.copies(mapped, ["place"], file)
        mapped = mapped.filter(kept)
        reason = "series given twice; the one with most samples, else the first, counts"
        problems += _problem(source, "duplicate-series", reason, twins)
    return mapped


def _by_cluster(series: pl.DataFrame, source: Source, problems: list[Problem]) -> tuple[pl.DataFrame, list[str]]:
    """Add ``cluster``, the place from 1 of each series' cluster among the names in labels (0: no label); return both."""
    if not _has_any(series, metric_names.CLUSTERS):
        return series.with_columns(pl.lit(0, pl.UInt8).alias("cluster")), []
    name = pl.coalesce(pl.when(pl.col(label) != "").then(label) for label in metric_names.CLUSTERS)
    found = series.select(name.alias("name"))["name"]
    names = found.drop_nulls().unique().sort().to_list()
    if len(names) > MOST_CLUSTERS:
        reason = f"series of {len(names):,} clusters: those beyond the first {MOST_CLUSTERS} names are left out"
        known = (found.is_null() | (found <= names[MOST_CLUSTERS - 1])).to_numpy()
        problems.append(Problem.at(source.path, "too-many-clusters", reason, count=int((~known).sum())))
        series, found, names = series.filter(known), found.filter(known), names[:MOST_CLUSTERS]
    places = {one: place for place, one in enumerate(names, 1)}
    number = found.replace_strict(places, default=0, return_dtype=pl.UInt8) if names else pl.lit(0, pl.UInt8)
    return series.with_columns(number.alias("cluster")), names


_OF_POINTS = ("time_ms", "value")
_RENAMED = {"metric": "id_of", "partition": "number"}
MOST_ROWS = 1 << 20  # most rows built at once


def _rows(mapped: pl.DataFrame, file: SeriesFile, source: Source, problems: list[Problem]) -> Rows:
    """Return the rows of ``metrics``, in order of time: the points of ``mapped`` series."""
    at = np.full(file.series.height, -1, np.int32)
    at[mapped["row"].to_numpy()] = np.arange(mapped.height)
    take = pl.Series("take", at[file.points["series"].to_numpy()] if file.points.height else [], dtype=pl.Int32)
    points = pl.DataFrame([file.points["value"], file.points["time_ms"], take])
    if (take < 0).any():
        points = points.filter(take >= 0)
    below = (points["value"] < 0) & (mapped["id_of"] == raw_metrics.SIZE).gather(points["take"])
    for kind, reason, odd in (
        ("not-finite", "NaN or infinite sample left out", ~points["value"].is_finite()),
        ("negative-size", "negative size left out", below),
    ):
        if odd.any():
            some = points.filter(odd)
            problems += _problem(source, kind, reason, mapped[some["take"][:1]], some.height)
    points = points.filter(points["value"].is_finite() & ~below)
    place = mapped["place"].gather(points["take"])
    if mapped["place"].n_unique() < mapped.height or (not file.answer and points.height > mapped.height):
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
    if points["time_ms"].null_count() < points.height and (untimely := points.filter(~timely)).height:
        first = mapped[untimely["take"][:1]]
        problems += _problem(source, "bad-time", "an impossible time; the file's is taken", first, untimely.height)
        points = points.with_columns(pl.when(timely).then("time_ms").alias("time_ms"))
    if points["time_ms"].null_count():
        points = points.with_columns(pl.col("time_ms").fill_null(file_time(source)))
    of_series = [name for name in METRICS.schema if name not in _OF_POINTS]
    series = pl.DataFrame([mapped[_RENAMED.get(name, name)].alias(name) for name in of_series])

    def frames() -> Iterator[pl.DataFrame]:
        order = np.argsort(points["time_ms"].to_numpy(), kind="stable")
        for begin in range(0, len(order), MOST_ROWS):
            some = points[order[begin : begin + MOST_ROWS]]
            yield series[some["take"]].hstack([some["time_ms"], some["value"]])[METRICS.schema.names()]

    if points.height > MOST_ROWS:
        return Parts(points.height, METRICS.schema.names(), frames)
    return next(frames(), METRICS.empty())


_OF_VOLUMES = (raw_metrics.VOLUME_BYTES, raw_metrics.VOLUME_CAPACITY)


def _facts(series: pl.DataFrame) -> pl.DataFrame:
    """Return the series about the cluster as a whole: ``row``, ``host``, ``fact``, ``broker``, ``topic``, ``partition``,
    ``label`` (the value, if a label holds it) and ``own`` (a broker reports it about itself)."""
    number = pl.col("partition").cast(pl.Int32, strict=False)
    claim, of_volume = pl.col("persistentvolumeclaim"), pl.col("fact").is_in(_OF_VOLUMES)
    # data-CLUSTER-kafka-2, data-0-CLUSTER-kafka-2: pods end in the number of their broker.
    holder = pl.when(metric_names.of_broker(claim)).then(claim.str.extract(r"(\d+)$"))
    named = series.join(metric_names.FACTS, on=["series", "kind"], how="inner", maintain_order="left").select(
        "row",
        pl.when(of_volume).then(claim).otherwise("host").alias("host"),
        "cluster",
        "fact",
        pl.when(of_volume).then(holder).otherwise("broker_id").cast(pl.Int32, strict=False).alias("broker"),
        "topic",
        number.alias("partition"),
        pl.when(pl.col("series") == metric_names.TOPIC_INFO)
        .then(pl.col("replication_factor").cast(pl.Float64, strict=False))
        .alias("label"),
        pl.any_horizontal(pl.col("series").str.starts_with(name) for name in metric_names.OF_BROKERS).alias("own"),
    )
    of_broker = pl.col("fact").is_in([raw_metrics.BROKER_BYTES, *_OF_VOLUMES])
    of_topic = (pl.col("fact") == raw_metrics.TOPIC_BYTES) | pl.col("label").is_not_null()
    placed = pl.col("topic").is_not_null() & ((pl.col("partition") >= 0) | of_topic)
    return named.filter(pl.when(of_broker).then(pl.col("broker") >= 0).otherwise(placed))


_NAMES_OF_FACTS = frozenset(metric_names.FACTS["series"])
_NO_FACTS = pl.DataFrame(schema={"host": pl.String, "cluster": pl.UInt8})


def _spans(facts: pl.DataFrame, file: SeriesFile, source: Source) -> pl.DataFrame:
    """Return rows of ``cluster_facts``: for each series, the stretches of time with one value."""
    points = file.points.join(facts, left_on="series", right_on="row", how="inner", maintain_order="left")
    timely = pl.when(pl.col("time_ms").is_between(0, LATEST_MS)).then("time_ms").otherwise(file_time(source))
    points = points.with_columns(timely.alias("time_ms"), pl.coalesce("label", "value").alias("value"))
    of = ["host", "cluster", "fact", "broker", "topic", "partition"]
    points = points.filter(pl.col("value").is_finite()).sort(*of, "time_ms", maintain_order=True)
    changed = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in (*of, "value"))
    spans = points.with_columns(changed.cum_sum().alias("span")).group_by("span", maintain_order=True)
    return spans.agg(
        pl.col("time_ms").first(), pl.col("time_ms").last().alias("last_ms"), pl.col(*of, "value").first()
    ).select(FACTS.schema.keys())


def _machines(series: pl.DataFrame) -> pl.DataFrame:
    """Return rows of ``machines``: names of hosts' machines in labels."""
    name = pl.coalesce(pl.when(pl.col(label) != "").then(label) for label in metric_names.MACHINES)
    found = series.select("host", name.alias("machine")).drop_nulls().unique(maintain_order=True)
    return found.filter(pl.col("host") != pl.col("machine"))


def _broker_list(info: pl.DataFrame, file: SeriesFile) -> pl.DataFrame:
    """Return rows of ``broker_list`` from exporters of the whole cluster; a broker that is no longer listed is dead."""
    last = file.points.group_by("series").agg(pl.col("time_ms").max().alias("last"))
    info = info.join(last, left_on="row", right_on="series", how="left", maintain_order="left").sort(
        "last", maintain_order=True
    )
    number = pl.coalesce("broker_id", "id").cast(pl.Int32, strict=False)
    host = pl.col("address").str.replace(r":\d+$", "")
    there = (pl.col("last") >= pl.col("last").max() - metric_names.GONE_MS).fill_null(True)
    rows = info.select(
        number.alias("broker"), host.alias("host"), pl.col("rack_id").alias("rack"), there.alias("alive"), "cluster"
    )
    of = ["broker", "cluster"]
    return rows.filter(pl.col("broker") >= 0).unique(of, keep="last", maintain_order=True).sort(of)


def _problem(source: Source, kind: str, reason: str, rows: pl.DataFrame, count: int | None = None) -> list[Problem]:
    return [one for name in rows["metric"][:1] for one in problems_at(source, kind, f"{reason}: {name}", rows, count)]
