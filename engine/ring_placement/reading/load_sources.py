"""Where load is from: stats, usage gauges, a load table, counters, blocks. Each has its own byte; they are never mixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from engine.inputs import Inputs
from engine.ring_placement.pyroscope.ring import Member
from engine.ring_placement.reading.metric_files import INGEST, SENT, SHARD_USAGE, USAGE

SOURCES = ("stats", "usage", "table", "ingest", "sent", "blocks")
"""Load sources, the best first."""

UNITS = {
    "stats": "encoded bytes in segments per second",
    "usage": "encoded bytes in segments per second",
    "table": "bytes per second as the table gives them",
    "ingest": "uncompressed profile bytes",
    "sent": "pushed bytes (perhaps compressed)",
    "blocks": "bytes in blocks",
}
"""What a byte is in each source."""

LOAD_SCHEMA: dict[str, Any] = {
    "tenant": pl.String,
    "tenant_hash": pl.UInt64,
    "dataset": pl.String,
    "dataset_hash": pl.UInt64,
    "bytes": pl.Float64,
    "fingerprint": pl.UInt64,
    "shard": pl.Int64,
}
"""Columns of load rows; what a source does not know is null."""

OBSERVED_SCHEMA: dict[str, Any] = {
    "source": pl.String,
    "tenant": pl.String,
    "dataset": pl.String,
    "shard": pl.Int64,
    "instance": pl.String,
    "bytes": pl.Int64,
}
"""Columns of observed (shard, owner) pairs; what a source does not know is null."""


def conform(frame: pl.DataFrame, schema: Mapping[str, Any]) -> pl.DataFrame:
    """Select exactly the columns of ``schema``; those that are missing become nulls."""
    return frame.select(
        pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in schema.items()
    )


def with_file_times(frame: pl.DataFrame, inputs: Inputs) -> pl.DataFrame:
    """Add the column ``t``, the modification time (epoch ms) of each row's file, and sort by it."""
    times = {number: info.mtime_ms for number, info in inputs.files.items()}
    time = pl.col("file").replace_strict(times, default=0, return_dtype=pl.Int64)
    return frame.with_columns(time.alias("t")).sort("t", "file", maintain_order=True)


@dataclass
class LoadSources:
    """The load rows of each source that is there, its unit, and what the sources say about who wrote what."""

    loads: dict[str, pl.DataFrame] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=UNITS.copy)
    _observed: list[pl.DataFrame] = field(default_factory=list)

    @classmethod
    def read(cls, inputs: Inputs, stats: pl.DataFrame, members: tuple[Member, ...]) -> LoadSources:
        """Collect all sources. ``stats``: the distribution stats in use; ``members`` of the ring in use."""
        sources = cls()
        metrics, blocks, table = (inputs.table(name) for name in ("metrics", "blocks", "loads"))
        if stats.height:
            rows = stats.select("tenant", "dataset", "shard", "instance", pl.col("usage").alias("bytes"))
            sources.loads["stats"] = rows
            sources._observe("stats", rows)
        if metrics.height:
            sources._read_usage(metrics, inputs)
            sources._read_counters(metrics, inputs, members)
        if blocks.height:
            sources._read_blocks(blocks)
        if table.height:
            sources.loads["table"] = table.rename({"bytes_per_s": "bytes"})
        return sources

    @property
    def names(self) -> list[str]:
        """The sources that are there, the best first."""
        return [name for name in SOURCES if name in self.loads]

    @property
    def observed(self) -> pl.DataFrame:
        """Rows of ``OBSERVED_SCHEMA`` of all sources, sorted."""
        if not self._observed:
            return pl.DataFrame(schema=OBSERVED_SCHEMA)
        order = ["source", "tenant", "dataset", "shard", "instance", "bytes"]
        rows = pl.concat([conform(frame, OBSERVED_SCHEMA) for frame in self._observed])
        return rows.sort(order, nulls_last=True, maintain_order=True)

    def _observe(self, source: str, rows: pl.DataFrame) -> None:
        self._observed.append(rows.with_columns(pl.lit(source).alias("source")))

    def _read_usage(self, metrics: pl.DataFrame, inputs: Inputs) -> None:
        """Read the usage gauges, by shard and by dataset; the newest sample of each series."""
        ordered = with_file_times(metrics, inputs)

        def newest(metric: str, series: list[str]) -> pl.DataFrame:
            samples = ordered.filter(pl.col("metric") == metric)
            samples = samples.unique(series, keep="last", maintain_order=True).sort(series, nulls_last=True)
            return samples.select("tenant", "dataset", "shard", "instance", pl.col("value").round().alias("bytes"))

        by_shard = newest(SHARD_USAGE, ["tenant", "dataset", "shard", "instance"])
        by_dataset = newest(USAGE, ["tenant", "dataset"])
        if by_shard.height:
            self._observe("usage", by_shard)
            self.loads["usage"] = by_shard
        if by_dataset.height:
            key = ["tenant", "dataset"]
            self._observe(
                "usage", by_dataset.join(by_shard, on=key, how="anti", maintain_order="left", nulls_equal=True)
            )
            self.loads["usage"] = whole_usage(by_shard, by_dataset)

    def _read_counters(self, metrics: pl.DataFrame, inputs: Inputs, members: tuple[Member, ...]) -> None:
        """Read the byte counters of clients and writers; their addresses become IDs of ``members``."""
        addresses = {m.address: m.id for m in members if m.address}
        addresses |= {address.rsplit(":", 1)[0]: name for address, name in addresses.items() if ":" in address}
        for metric, source in ((SENT, "sent"), (INGEST, "ingest")):
            rows, rated = counter_totals(metrics, inputs, metric)
            if not rows.height:
                continue
            instance = pl.col("instance").replace(addresses) if addresses else pl.col("instance")
            is_member = pl.col("instance").is_in(sorted({m.id for m in members}))
            rows = rows.with_columns(instance)
            rows = rows.with_columns(pl.when(is_member).then("instance").alias("instance"))
            self._observe(source, rows)
            self.loads[source] = rows.group_by("tenant", "shard", maintain_order=True).agg(pl.col("bytes").sum())
            self.units[source] += " per second" if rated else " since the writers started (one scrape gives no rate)"

    def _read_blocks(self, blocks: pl.DataFrame) -> None:
        """Read the sizes in block footers, each block once."""
        columns = ("tenant", "dataset", "shard", "instance", "block", pl.col("size").alias("bytes"), "level")
        rows = blocks.select(columns).unique(["block", "tenant", "dataset", "shard"], keep="first", maintain_order=True)
        pair = ["tenant", "dataset", "shard", "instance"]
        self._observe("blocks", rows.group_by(pair, maintain_order=True).agg(pl.col("bytes").sum()))
        # Compacted blocks repeat the data of segments: count one level, the youngest that is there.
        youngest = rows.filter(pl.col("level") == rows["level"].min())
        key = ["tenant", "dataset", "shard"]
        self.loads["blocks"] = youngest.group_by(key, maintain_order=True).agg(pl.col("bytes").sum())


def counter_totals(metrics: pl.DataFrame, inputs: Inputs, name: str) -> tuple[pl.DataFrame, bool]:
    """Sum up one counter. Returns rows (tenant, shard, instance, bytes), and whether they are rates.

    Series seen in two scrapes of different time give a rate, one scrape alone only its total.
    """
    samples = metrics.filter((pl.col("metric") == name) & pl.col("shard").is_not_null())
    if not samples.height:
        return samples, False
    times = pl.coalesce("time_ms", "t").alias("t")
    samples = with_file_times(samples, inputs).with_columns(times).sort("t", "file", maintain_order=True)
    series = ["tenant", "shard", "instance"]
    ends = samples.group_by(series, maintain_order=True).agg(
        pl.col("value").first().alias("first"),
        pl.col("value").last().alias("last"),
        ((pl.col("t").last() - pl.col("t").first()) / 1000).alias("seconds"),
    )
    rated = bool(((ends["seconds"] >= 1) & (ends["last"] >= ends["first"])).all())
    value = (pl.col("last") - pl.col("first")) / pl.col("seconds") if rated else pl.col("last")
    return ends.with_columns(value.round().alias("bytes")).sort(series, nulls_last=True), rated


def whole_usage(by_shard: pl.DataFrame, by_dataset: pl.DataFrame) -> pl.DataFrame:
    """Combine the usage gauges to load rows: a dataset's breakdown by shard where it adds up to the dataset's own gauge
    (each shard is rounded), else that gauge alone.

    Series of shards that moved stay behind, and a scrape may lack some.
    """
    key = ["tenant", "dataset"]
    parts = by_shard.group_by(key, maintain_order=True).agg(pl.col("bytes").sum().alias("parts"), pl.len().alias("n"))
    joined = by_dataset.join(parts, on=key, how="left", maintain_order="left", nulls_equal=True)
    adds_up = ((pl.col("bytes") - pl.col("parts")).abs() <= pl.col("n")).fill_null(False)
    alone = joined.filter(~adds_up).select(by_dataset.columns)
    broken_down = by_shard.join(alone, on=key, how="anti", maintain_order="left", nulls_equal=True)
    return pl.concat([broken_down, alone], how="vertical_relaxed")
