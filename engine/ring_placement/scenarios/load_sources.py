"""Sources of load: stats, usage gauges, a load table, counters, blocks. Each counts other bytes; they are never mixed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import polars as pl

from engine.core.view import FILE, Inputs
from engine.ring_placement.pyroscope.ring import Member
from engine.ring_placement.reading.load_table import INGEST, SENT, SHARD_USAGE, USAGE, by_dataset

SOURCES = ("stats", "usage", "table", "ingest", "sent", "blocks")  # load sources, the best first

UNITS = {
    "stats": "encoded bytes in segments per second",
    "usage": "encoded bytes in segments per second",
    "table": "bytes per second as the table gives them",
    "ingest": "uncompressed profile bytes",
    "sent": "pushed bytes (perhaps compressed)",
    "blocks": "bytes in blocks",
}
"""Unit of each source."""

LOAD_SCHEMA: dict[str, Any] = {
    "tenant": pl.Categorical(),
    "tenant_hash": pl.UInt64,
    "dataset": pl.Categorical(),
    "dataset_hash": pl.UInt64,
    "bytes": pl.Float64,
    "fingerprint": pl.UInt64,
    "shard": pl.Int64,
}
"""Columns of load rows; unknown values are null. There may be millions of keys: categoricals hold each text once."""

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
    """Add the column ``t``, the time of each row's sample where it has one, else the modification time of its file (epoch ms),
    and sort by it."""
    times = {number: info.mtime_ms for number, info in inputs.files.items()}
    time = pl.col("file").replace_strict(times, default=0, return_dtype=pl.Int64)
    if "time_ms" in frame.columns:
        time = pl.coalesce("time_ms", time)
    return frame.with_columns(time.alias("t")).sort("t", "file", maintain_order=True)


STALE_MS = 300_000
"""Age against the newest sample of its metric from which on a gauge with times is gone, as for Prometheus."""


def present(samples: pl.DataFrame) -> pl.DataFrame:
    """Drop samples of gauges (with ``t``) whose series had ended when the newest was taken."""
    timed = pl.col("time_ms").is_not_null()
    return samples.filter(~timed | (pl.col("t") >= pl.col("t").filter(timed).max() - STALE_MS).fill_null(True))


class LoadSources(msgspec.Struct):
    """Load rows and unit of each source in the files, and the (shard, writer) pairs that the sources observed."""

    loads: dict[str, pl.DataFrame] = msgspec.field(default_factory=dict)
    units: dict[str, str] = msgspec.field(default_factory=UNITS.copy)
    _observed: list[pl.DataFrame] = msgspec.field(default_factory=list)

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
            # Readers add up only what comes together: add up the rest, so that the result does not depend on the cuts.
            sources.loads["table"] = by_dataset(table.drop(FILE)).rename({"bytes_per_s": "bytes"})
        return sources

    @property
    def names(self) -> list[str]:
        """Names of the sources in the files, the best first."""
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
        ordered = with_file_times(metrics, inputs)

        def newest(metric: str, series: list[str]) -> pl.DataFrame:
            samples = present(ordered.filter(pl.col("metric") == metric))
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
        for metric, source in ((SENT, "sent"), (INGEST, "ingest")):
            rows, rated = counter_totals(metrics, inputs, metric)
            if not rows.height:
                continue
            is_member = pl.col("instance").is_in(sorted({m.id for m in members}))
            rows = rows.with_columns(by_address(members))
            rows = rows.with_columns(pl.when(is_member).then("instance").alias("instance"))
            self._observe(source, rows)
            self.loads[source] = rows.group_by("tenant", "shard", maintain_order=True).agg(pl.col("bytes").sum())
            self.units[source] += " per second" if rated else " since the writers started (one scrape gives no rate)"

    def _read_blocks(self, blocks: pl.DataFrame) -> None:
        key = ["tenant", "dataset", "shard"]
        rows = blocks.select(*key, "instance", "block", pl.col("size").alias("bytes"), "level")
        rows = rows.unique([*key, "block"], keep="first", maintain_order=True)
        self._observe("blocks", rows.group_by(*key, "instance", maintain_order=True).agg(pl.col("bytes").sum()))
        # Compacted blocks repeat the data of segments: count the youngest level only.
        youngest = rows.filter(pl.col("level") == rows["level"].min())
        self.loads["blocks"] = youngest.group_by(key, maintain_order=True).agg(pl.col("bytes").sum())


def by_address(members: Iterable[Member]) -> pl.Expr:
    """Return the column ``instance`` with addresses, also without their port, replaced by the IDs of ``members``."""
    addresses = {m.address: m.id for m in members if m.address}
    addresses |= {address.rsplit(":", 1)[0]: name for address, name in addresses.items() if ":" in address}
    return pl.col("instance").replace(addresses) if addresses else pl.col("instance")


def counter_totals(metrics: pl.DataFrame, inputs: Inputs, name: str) -> tuple[pl.DataFrame, bool]:
    """Sum up one counter. Returns rows (tenant, shard, instance, bytes), and whether they are rates.

    Series seen in two scrapes give a rate, a single scrape only its total. Several targets, where the server names them, are
    added up.
    """
    samples = metrics.filter((pl.col("metric") == name) & pl.col("shard").is_not_null())
    if not samples.height:
        return samples, False
    samples = with_file_times(samples, inputs)
    series = ["tenant", "shard", "instance"]
    step = pl.col("value").diff()
    ends = samples.group_by(*series, "target", maintain_order=True).agg(
        pl.when(step < 0).then("value").otherwise(step).sum().alias("rise"),
        pl.col("value").last().alias("last"),
        (pl.col("value").last() < pl.col("value").first()).alias("fell"),
        pl.len().alias("samples"),
        ((pl.col("t").last() - pl.col("t").first()) / 1000).alias("seconds"),
    )
    # A fall between just two scrapes means two writers, or one before and after a restart.
    rated = bool(((ends["seconds"] >= 1) & (~ends["fell"] | (ends["samples"] > 2))).all())
    value = pl.col("rise") / pl.col("seconds") if rated else pl.col("last")
    return ends.group_by(series, maintain_order=True).agg(value.sum().round().alias("bytes")).sort(
        series, nulls_last=True
    ), rated


def whole_usage(by_shard: pl.DataFrame, by_dataset: pl.DataFrame) -> pl.DataFrame:
    """Combine the usage gauges to load rows: a dataset's breakdown by shard if it adds up to the dataset's own gauge (each
    shard is rounded), else that gauge alone: series of moved shards linger, and a scrape may lack some.
    """
    key = ["tenant", "dataset"]
    parts = by_shard.group_by(key, maintain_order=True).agg(pl.col("bytes").sum().alias("parts"), pl.len().alias("n"))
    joined = by_dataset.join(parts, on=key, how="left", maintain_order="left", nulls_equal=True)
    alone = joined.filter(~((pl.col("bytes") - pl.col("parts")).abs() <= pl.col("n")).fill_null(False)).select(
        by_dataset.columns
    )
    broken_down = by_shard.join(alone, on=key, how="anti", maintain_order="left", nulls_equal=True)
    return pl.concat([broken_down, alone], how="vertical_relaxed")


NO_TENANTS: dict[str, Any] = {"tenant": pl.String, "load": pl.Float64}
NO_KEYS: dict[str, Any] = {"tenant": pl.String, "token": pl.Int64, "weight": pl.Float64, "token_without_le": pl.Int64}

TENANT_SOURCES = {
    "table": "load as the table gives it",
    "series": "series or streams in memory",
    "received": "bytes, spans or samples received per second",
}
"""Loads of tenants of token rings, the best first, and their units."""

_CREATED, _REMOVED = "cortex_ingester_memory_series_created_total", "cortex_ingester_memory_series_removed_total"
_GAUGES = ("cortex_ingester_active_series", "loki_ingester_memory_streams", "cortex_ingester_owned_series")
_RECEIVED = {
    "cortex_distributor_received_samples_total": "samples",
    "loki_distributor_bytes_received_total": "bytes",
    "tempo_distributor_bytes_received_total": "bytes",
    "tempo_distributor_spans_received_total": "spans",
}
"""Counters of distributors and their units, the preferred one first."""


class TenantLoads(msgspec.Struct, frozen=True):
    """Loads of a token ring. ``loads``: tenant and load (before replication); ``keys``: tenant, token, weight of single keys,
    which are more precise than shares of the key space; ``source`` (one of ``TENANT_SOURCES``, or "") and ``unit``; ``observed``:
    tenant, instance, load as an ingester itself reports it; ``replication``: the factor that a gauge gives, else None;
    ``is_count``: whether the load counts things, not bytes; ``replicated``: whether every replica is counted;
    ``names``: IDs as written, where they differ from those shown."""

    loads: pl.DataFrame = msgspec.field(default_factory=lambda: pl.DataFrame(schema=NO_TENANTS))
    keys: pl.DataFrame = msgspec.field(default_factory=lambda: pl.DataFrame(schema=NO_KEYS))
    source: str = ""
    unit: str = ""
    observed: pl.DataFrame = msgspec.field(
        default_factory=lambda: pl.DataFrame(schema={**NO_TENANTS, "instance": pl.String})
    )
    replication: int | None = None
    is_count: bool = True
    replicated: bool = False
    names: dict[str, str] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, inputs: Inputs, wanted: str) -> TenantLoads:
        """Collect tables and metrics of all files; ``wanted``: one of ``TENANT_SOURCES``, or ``auto`` for the best."""
        metrics, table = inputs.table("metrics"), inputs.table("keys")
        factor = metrics.filter(pl.col("metric").str.ends_with("_distributor_replication_factor"))["value"].max()
        replication = int(factor) if isinstance(factor, float) and 1 <= factor <= 100 else None
        found: dict[str, tuple[pl.DataFrame, str, bool]] = {}
        whole = table.filter(pl.col("token").is_null()).group_by("tenant", maintain_order=True)
        keys = table.filter(pl.col("token").is_not_null()).select("tenant", "token", "weight", "token_without_le")
        if table.height:
            found["table"] = whole.agg(pl.col("weight").sum().alias("load")), TENANT_SOURCES["table"], True
        observed, series_unit = _series_in_memory(metrics, inputs)
        if observed.height:
            by_tenant = observed.group_by("tenant", maintain_order=True).agg(pl.col("load").sum())
            found["series"] = by_tenant, series_unit, True
        received, what = _received(metrics, inputs)
        if received.height:
            found["received"] = received, f"{what} received", what.split()[0] != "bytes"
        names = dict(
            table.filter(pl.col("tenant_written").is_not_null()).select("tenant", "tenant_written").iter_rows()
        )
        source = wanted if wanted in found else next((n for n in TENANT_SOURCES if n in found), "")
        notes = [f"no load from {wanted} in the files"] if wanted not in ("auto", source) else []
        others = [name for name in TENANT_SOURCES if name in found and name != source]
        if others:
            notes.append(f"load from {source}; also in the files, not used: {', '.join(others)}")
        loads, unit, is_count = found.get(source, (pl.DataFrame(schema=NO_TENANTS), "", True))
        return cls(loads.sort("tenant"), keys if source == "table" else keys.clear(), source, unit, observed, replication,
                   is_count, source == "series", names, tuple(notes))  # fmt: skip


def _newest_samples(metrics: pl.DataFrame, inputs: Inputs, name: str, series: list[str]) -> pl.DataFrame:
    """Return the newest sample of each series of ``name`` that names a tenant."""
    samples = metrics.filter((pl.col("metric") == name) & pl.col("tenant").is_not_null()) if metrics.height else metrics
    if not samples.height:
        return samples
    return present(with_file_times(samples, inputs)).unique(series, keep="last", maintain_order=True)


def _series_in_memory(metrics: pl.DataFrame, inputs: Inputs) -> tuple[pl.DataFrame, str]:
    """Return the load that each ingester holds by tenant and instance, all replicas counted, and its unit."""
    # Without a scraper's labels there is one file per ingester.
    named = metrics.with_columns(pl.coalesce("instance", pl.format("{}", "file")).alias("instance"))
    series = ["tenant", "instance"]
    created, removed = (_newest_samples(named, inputs, name, series) for name in (_CREATED, _REMOVED))
    if created.height:
        joined = created.join(removed.select(*series, pl.col("value").alias("gone")), on=series, how="left")
        load = (pl.col("value") - pl.col("gone").fill_null(0)).clip(0)
        return joined.select("tenant", load.alias("load"), "instance").sort(series), "series in memory"
    for name in _GAUGES:
        gauge = _newest_samples(named, inputs, name, series)
        if gauge.height:
            unit = "streams in memory" if name.startswith("loki") else "active series"
            return gauge.select("tenant", pl.col("value").alias("load"), "instance").sort(series), unit
    return pl.DataFrame(schema={**NO_TENANTS, "instance": pl.String}), ""


def _received(metrics: pl.DataFrame, inputs: Inputs) -> tuple[pl.DataFrame, str]:
    """Return the load by tenant from the first counter of distributors in the files, and its unit: per second if every series was
    seen in two scrapes."""
    for name, what in _RECEIVED.items() if metrics.height else ():
        samples = metrics.filter((pl.col("metric") == name) & pl.col("tenant").is_not_null())
        if not samples.height:
            continue
        rows, rated = counter_totals(samples.with_columns(pl.lit(0, pl.Int64).alias("shard")), inputs, name)
        loads = rows.group_by("tenant", maintain_order=True).agg(pl.col("bytes").sum().alias("load"))
        return loads, what + (" per second" if rated else " since the distributors started (one scrape gives no rate):")
    return pl.DataFrame(schema=NO_TENANTS), ""
