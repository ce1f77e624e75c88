"""Prometheus text expositions with Pyroscope's placement metrics."""

from __future__ import annotations

from typing import Any

import polars as pl

from engine.formats import prometheus
from engine.problems import Problem
from engine.reading import Reading, Source
from engine.ring_placement import tables
from engine.ring_placement.reading.document import SANE_RATE, Document

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
)  # fmt: skip
"""Metrics of Mimir, Loki and Tempo: load by tenant, members by state, and the replication factor."""

_METRICS = (*DSKIT, SENT, INGEST, SHARD_LIMIT, USAGE, SHARD_USAGE, "pyroscope_ring_members")
_LABELS = ("tenant", "dataset", "shard", "shard_id", "shard_owner", "addr", "instance", "pod", "load_balancing",
           "name", "state", "user")  # fmt: skip


class Metrics(Document):
    """A Prometheus text exposition with the placement metrics."""

    id = "placement-metrics"
    title = "Prometheus text with placement metrics of Pyroscope, or tenant and ring metrics of Mimir, Loki, Tempo"
    tables = (tables.METRICS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether it is a text exposition at all: the placement metrics may come late in it."""
        return prometheus.looks_like(head)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row per sample of a placement metric."""
        if not any(word in data for word in (b"pyroscope_", b"cortex_", b"loki_", b"tempo_")):
            return Reading()
        scrape = prometheus.parse(source.path, data, _LABELS, "^(?:" + "|".join(_METRICS) + ")")
        problems = list(scrape.problems)
        samples = scrape.samples.filter(pl.col("metric").is_in(list(_METRICS)))
        value = pl.col("value")
        sane = value.is_finite() & (value >= 0) & (value <= float(SANE_RATE))
        bad = samples.filter(~sane)
        if bad.height:
            reason = f"{bad['metric'][0]} has a value that is negative, not finite or impossible"
            problems.append(Problem.at(source.path, "bad-rate", reason, line=int(bad["line"][0]), count=bad.height))
        shard_text = pl.coalesce("shard_id", "shard")
        rows = samples.filter(sane).select(
            "metric",
            pl.coalesce("tenant", "user").alias("tenant"),
            "dataset",
            shard_text.cast(pl.Int64, strict=False).alias("shard"),
            pl.coalesce("shard_owner", "addr", "instance", "pod", "state").alias("instance"),
            "value",
            "load_balancing",
            "time_ms",
            "line",
            shard_text.is_not_null().alias("has_shard"),
        )
        in_range = pl.col("shard").is_between(0, 2**31)
        odd = rows.filter(pl.col("has_shard") & (pl.col("shard").is_null() | ~in_range))
        if odd.height:
            problem = Problem.at(source.path, "bad-shard", "a shard label is no shard ID", line=int(odd["line"][0]),
                                 count=odd.height)  # fmt: skip
            problems.append(problem)
        rows = rows.filter(~pl.col("has_shard") | in_range)
        return Reading({"metrics": rows.drop("line", "has_shard")}, problems)
