"""Series with Pyroscope's placement metrics, or the loads of dskit's rings: scrapes and Prometheus' answers."""

from __future__ import annotations

from typing import Any

import polars as pl

from engine.core.reading import Document, Problem, Reading, Source
from engine.formats.prometheus import series as prometheus
from engine.ring_placement import tables
from engine.ring_placement.reading.document import SANE_RATE

SENT = "pyroscope_segment_writer_client_sent_bytes_sum"
"""Counter: bytes of pushed profiles (perhaps compressed) by tenant, shard and address."""
INGEST = "pyroscope_segment_writer_segment_ingest_bytes_sum"
"""Counter: bytes of uncompressed profiles by tenant and shard, one series per scraped writer."""
SHARD_LIMIT = "pyroscope_adaptive_placement_dataset_shard_limit"
"""Gauge: shards of a dataset by its placement rule."""
USAGE = "pyroscope_adaptive_placement_dataset_shard_usage_bytes_per_second"
"""Gauge: bytes per second of a dataset, as encoded in segments."""
SHARD_USAGE = "pyroscope_adaptive_placement_dataset_shard_usage_per_shard_bytes_per_second"
"""Gauge: the same by shard and owner (only with the breakdown switched on)."""

DSKIT = (
    "cortex_distributor_received_samples_total", "cortex_ingester_active_series",
    "cortex_ingester_memory_series_created_total", "cortex_ingester_memory_series_removed_total",
    "cortex_ingester_memory_series", "cortex_ingester_owned_series", "cortex_distributor_replication_factor",
    "loki_distributor_bytes_received_total", "loki_ingester_memory_streams", "tempo_distributor_bytes_received_total",
    "tempo_distributor_spans_received_total", "cortex_ring_members", "loki_ring_members", "tempo_ring_members",
    "loki_distributor_replication_factor",
)  # fmt: skip
"""Metrics of Mimir, Loki and Tempo: load by tenant, members by state, and the replication factor."""

_METRICS = (*DSKIT, SENT, INGEST, SHARD_LIMIT, USAGE, SHARD_USAGE, "pyroscope_ring_members",
            "pyroscope_distributor_replication_factor")  # fmt: skip
_LABELS = ("tenant", "dataset", "shard", "shard_id", "shard_owner", "addr", "instance", "pod", "load_balancing",
           "name", "state", "user")  # fmt: skip


class Metrics(Document):
    """A text exposition, or an answer of Prometheus, with the placement metrics."""

    id = "placement-metrics"
    title = "Prometheus text or answers with placement metrics of Pyroscope, or tenant and ring metrics of Mimir, Loki, Tempo"
    tables = (tables.METRICS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether it holds any series: the placement metrics may come late in the file."""
        return prometheus.looks_like(name, head)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row per sample of a placement metric."""
        words = (b"pyroscope_", b"cortex_", b"loki_", b"tempo_")
        if prometheus.is_text(data) and not any(word in data for word in words):
            return Reading()
        file = prometheus.read(source, data, _LABELS, "^(?:" + "|".join(_METRICS) + ")")
        problems = list(file.problems)
        samples = file.samples.filter(pl.col("metric").is_in(list(_METRICS)))
        value = pl.col("value")
        sane = value.is_finite() & (value >= 0) & (value <= float(SANE_RATE))
        bad = samples.filter(~sane)
        if bad.height:
            reason = f"{bad['metric'][0]} has a value that is negative, not finite or impossible"
            problems.append(Problem.at(source.path, "bad-rate", reason, line=_line(bad), count=bad.height))
        shard_text = pl.coalesce("shard_id", "shard")
        # A server adds the labels of its target to every series; a count of members is by state.
        owner = pl.when(pl.col("metric").str.ends_with("_ring_members")).then("state")
        target = pl.coalesce("instance", "pod")
        rows = samples.filter(sane).select(
            "metric",
            pl.coalesce("tenant", "user").alias("tenant"),
            "dataset",
            shard_text.cast(pl.Int64, strict=False).alias("shard"),
            pl.coalesce(owner, "shard_owner", "addr", target, "state").alias("instance"),
            "value",
            "load_balancing",
            "time_ms",
            target.alias("target"),
            "line",
            shard_text.is_not_null().alias("has_shard"),
        )
        in_range = pl.col("shard").is_between(0, 2**31)
        odd = rows.filter(pl.col("has_shard") & (pl.col("shard").is_null() | ~in_range))
        if odd.height:
            problem = Problem.at(
                source.path, "bad-shard", "a shard label is not a shard ID", line=_line(odd), count=odd.height
            )
            problems.append(problem)
        rows = rows.filter(~pl.col("has_shard") | in_range)
        complete = final or not file.cut or not file.answer
        return Reading({"metrics": rows.drop("line", "has_shard")}, problems, complete=complete)


def _line(rows: pl.DataFrame) -> int | None:
    line = rows["line"][0]
    return None if line is None else int(line)
