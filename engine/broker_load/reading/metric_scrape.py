"""JMX-exporter and node_exporter text scrapes → raw metrics.

Two rule sets are understood: one-minute rates under the names that Cruise Control's Prometheus sampler asks for (any
letter case), and counters (``…_total``, ``…persec_count``), whose rates are made from consecutive scrapes later.
Which host it is of comes from the ``instance`` label, the file's name or its folder (``host_port``); when, from the
file's name or its modification time.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

import polars as pl

from engine.broker_load.reading.fields import LATEST_MS, file_time, name_time, strip_time
from engine.broker_load.tables import raw_metrics
from engine.broker_load.tables.inputs import METRICS
from engine.formats import prometheus
from engine.problems import Problem
from engine.reading import Reading, Source
from engine.tables import Table

_STEMS = (
    "bytesin",
    "bytesout",
    "replicationbytesin",
    "replicationbytesout",
    "totalproducerequests",
    "totalfetchrequests",
    "messagesin",
)
_NAMES = (
    r"(?i)^(?:kafka_server_brokertopicmetrics_|kafka_log_log_(?:value|size)\b|node_cpu(?:_seconds_total)?\b|"
    r"process_cpu_seconds_total\b|java_lang_operatingsystem_processcpuload\b|kafka_server_app_info|"
    r"kafka_network_requestmetrics_|kafka_network_requestchannel_value\b|kafka_log_logflushstats_|"
    r"kafka_server_kafkarequesthandlerpool_oneminuterate\b)"
)
_ANY = re.compile(_NAMES.replace(r"(?i)^", "").encode(), re.IGNORECASE)
_REQUESTS = {"produce": "PRODUCE", "fetchconsumer": "CONSUMER_FETCH", "fetchfollower": "FOLLOWER_FETCH"}
_WAITS = {"requestqueuetimems": "REQUEST_QUEUE_TIME_MS", "localtimems": "LOCAL_TIME_MS", "totaltimems": "TOTAL_TIME_MS"}
_HOW = {"max": "MAX", "mean": "MEAN", "50thpercentile": "50TH", "999thpercentile": "999TH"}


def _known() -> pl.DataFrame:
    """Return, by series, name label and request label (all in lower case), the metric id in broker scope and in topic scope
    (255: none) and whether it is a running total."""
    rows: list[tuple[str, str, str, int, int, bool]] = []
    for position, stem in enumerate(_STEMS):
        broker, topic = raw_metrics.TOTALS[position], raw_metrics.TOPIC[position]
        base = "kafka_server_brokertopicmetrics_"
        rows.append((base + "oneminuterate", stem + "persec", "", broker, topic, False))
        rows.append((base + "count", stem + "persec", "", broker, topic, True))
        rows.extend(
            (base + stem + middle + "_oneminuterate", "", "", broker, topic, False) for middle in ("", "persec")
        )
        rows.extend(
            (base + stem + ending, "", "", broker, topic, True)
            for ending in ("", "_total", "_count", "persec", "persec_total", "persec_count")
        )
    none = 255
    rows.append(("kafka_log_log_value", "size", "", none, raw_metrics.SIZE, False))
    rows.append(("kafka_log_log_size", "", "", none, raw_metrics.SIZE, False))
    rows.append(("process_cpu_seconds_total", "", "", raw_metrics.PROCESS_CPU_SECONDS, none, True))
    rows.append(("java_lang_operatingsystem_processcpuload", "", "", raw_metrics.PROCESS_LOAD, none, False))
    for request, who in _REQUESTS.items():
        rate = raw_metrics.ID[f"BROKER_{who}_REQUEST_RATE"]
        rows.append(("kafka_network_requestmetrics_oneminuterate", "requestspersec", request, rate, none, False))
        for wait, what in _WAITS.items():
            for series, how in _HOW.items():
                wanted = raw_metrics.ID[f"BROKER_{who}_{what}_{how}"]
                rows.append((f"kafka_network_requestmetrics_{series}", wait, request, wanted, none, False))
    for queue in ("request", "response"):
        wanted = raw_metrics.ID[f"BROKER_{queue.upper()}_QUEUE_SIZE"]
        rows.append(("kafka_network_requestchannel_value", f"{queue}queuesize", "", wanted, none, False))
    flush = "kafka_log_logflushstats_"
    rows.append(
        (flush + "oneminuterate", "logflushrateandtimems", "", raw_metrics.ID["BROKER_LOG_FLUSH_RATE"], none, False)
    )
    for series, how in _HOW.items():
        wanted = raw_metrics.ID[f"BROKER_LOG_FLUSH_TIME_MS_{how}"]
        rows.append((flush + series, "logflushrateandtimems", "", wanted, none, False))
    idle = raw_metrics.ID["BROKER_REQUEST_HANDLER_AVG_IDLE_PERCENT"]
    pool = "kafka_server_kafkarequesthandlerpool_oneminuterate"
    rows.append((pool, "requesthandleravgidlepercent", "", idle, none, False))
    return pl.DataFrame(
        rows,
        schema={
            "series": pl.String,
            "kind": pl.String,
            "request": pl.String,
            "broker_metric": pl.UInt8,
            "topic_metric": pl.UInt8,
            "counter": pl.Boolean,
        },
        orient="row",
    )


_KNOWN = _known()
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
    """Text scrapes of a broker's JMX exporter or of its machine's node_exporter."""

    id = "metric-scrape"
    title = "JMX exporter and node_exporter scrapes (one-minute rates or counters)"
    append = False
    version = 4
    tables: tuple[Table, ...] = (METRICS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise by content: a text exposition. Whether it holds broker series is seen when it is read."""
        return prometheus.looks_like(head)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one scrape to rows of ``metrics``; a file without any series of interest gives none, without a problem."""
        if not _ANY.search(data):
            return Reading(consumed=len(data))
        labels = ("name", "topic", "partition", "request", "mode", "cpu", "instance", "id")
        scrape = prometheus.parse(source.path, data, labels, _NAMES)
        problems = list(scrape.problems)
        rows = scrape.samples.with_columns(
            pl.col("metric").str.to_lowercase().alias("series"),
            pl.col("name").str.to_lowercase().fill_null("").alias("kind"),
            pl.col("request").str.to_lowercase().fill_null("").alias("asked"),
        )
        # Exporters name the node's CPU number "cpu"; a JMX rule set may carry labels that mean nothing here.
        idle = rows.filter(pl.col("series").is_in(["node_cpu_seconds_total", "node_cpu"]) & (pl.col("mode") == "idle"))
        broker = _broker_id(rows)
        named = rows.join(
            _KNOWN,
            left_on=["series", "kind", "asked"],
            right_on=["series", "kind", "request"],
            how="inner",
            maintain_order="left",
        )
        has_topic = pl.col("topic").fill_null("") != ""
        named = named.with_columns(
            pl.when(has_topic).then("topic_metric").otherwise("broker_metric").alias("id_of"),
            pl.col("partition").cast(pl.Int32, strict=False).alias("number"),
        )
        size = pl.col("topic_metric") == raw_metrics.SIZE
        lost = named.filter(size & (~has_topic | pl.col("number").is_null() | (pl.col("number") < 0)))
        if lost.height:
            problems.append(self._problem(source, "missing-label", "a size without topic or partition", lost))
        named = named.filter((pl.col("id_of") != 255) & (~size | (pl.col("number") >= 0)))
        named = named.with_columns(pl.when(size).then("number").alias("number"))
        idle = idle.with_columns(
            pl.lit(raw_metrics.NODE_IDLE_SECONDS, pl.UInt8).alias("id_of"),
            pl.col("cpu").str.extract(r"(\d+)$").cast(pl.Int32, strict=False).alias("number"),
            pl.lit(True).alias("counter"),
            pl.lit(None, pl.String).alias("topic"),
        )
        columns = ["id_of", "topic", "number", "value", "counter", "time_ms", "instance", "line", "metric"]
        rows_of_interest = pl.concat([named.select(columns), idle.select(columns)])
        odd = rows_of_interest.filter(~pl.col("value").is_finite())
        if odd.height:
            problems.append(self._problem(source, "not-finite", "NaN or infinite sample left out", odd))
        rows_of_interest = rows_of_interest.filter(pl.col("value").is_finite())
        # A rate given both as one-minute rate and as counter counts once, as the rate.
        place = ["instance", "id_of", "topic", "number", "time_ms"]
        rows_of_interest = (
            rows_of_interest.sort("counter", maintain_order=True)
            .unique(place, keep="first", maintain_order=True)
            .sort("line")
        )
        twice = odd.height + rows_of_interest.height < named.height + idle.height
        if twice:
            counted = named.height + idle.height - odd.height - rows_of_interest.height
            double = named.filter(~pl.col("counter")).select(pl.struct(place).is_duplicated().sum())
            if double.item():
                problems.append(
                    Problem.at(source.path, "duplicate-series", "series given twice; the first counts", count=counted)
                )
        timely = pl.col("time_ms").is_between(0, LATEST_MS)
        untimely = rows_of_interest.filter(~timely)
        if untimely.height:
            problems.append(self._problem(source, "bad-time", "an impossible time; the file's is taken", untimely))
        host = instance(source)
        frame = rows_of_interest.select(
            pl.when(timely).then("time_ms").otherwise(file_time(source)).alias("time_ms"),
            pl.col("instance").fill_null(host).alias("host"),
            pl.lit(broker, pl.Int32).alias("broker"),
            pl.col("id_of").alias("metric"),
            pl.when(pl.col("topic") != "").then("topic").alias("topic"),
            pl.col("number").alias("partition"),
            pl.col("value"),
            pl.col("counter"),
        )
        return Reading(rows={"metrics": frame}, problems=problems, consumed=len(data), complete=final or not scrape.cut)

    @staticmethod
    def _problem(source: Source, kind: str, reason: str, rows: pl.DataFrame) -> Problem:
        text = f"{reason}: {rows['metric'][0]}"
        return Problem.at(source.path, kind, text, line=int(rows["line"][0]), count=rows.height)


def _broker_id(rows: pl.DataFrame) -> int | None:
    """Return the broker's id where the scrape has it (``kafka_server_app_info…{id="3"}``)."""
    ids = rows.filter(pl.col("series").str.starts_with("kafka_server_app_info"))["id"].drop_nulls().unique()
    numbers = ids.cast(pl.Int32, strict=False).drop_nulls().to_list()
    return numbers[0] if len(numbers) == 1 and numbers[0] >= 0 else None
