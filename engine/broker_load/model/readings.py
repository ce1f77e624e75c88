"""Readings: raw metrics by broker and sampling interval, running totals turned into rates."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from engine.broker_load.model import ticks
from engine.broker_load.tables import raw_metrics
from engine.core.inputs import FILE

_SERIES = ("broker", "metric", "topic", "partition")
_COLUMNS = ("time_ms", *_SERIES, "value")
_SUMMED = (raw_metrics.PROCESS_CPU_SECONDS, raw_metrics.CONTAINER_CPU_SECONDS)
"""Metrics that are summed if a broker reports them by CPU."""


def of(rows: pl.DataFrame, ids: Mapping[str, tuple[int, ...]], interval_ms: int, repeats: pl.DataFrame) -> pl.DataFrame:
    """Return the raw metrics ``rows`` of known brokers (``ids`` by host) with their sampling ``interval``. Running totals at
    the ticks ``repeats`` are left out."""
    rows = ticks.by_broker(rows, ids)
    counters = rows.filter(pl.col("counter"))
    if repeats.height:
        counters = counters.join(repeats, on=["host", "time_ms"], how="anti", maintain_order="left")
    gauges = rows.filter(~pl.col("counter"))
    scrapes = gauges.select("broker", "time_ms", "host", FILE).unique()
    if scrapes.height > scrapes.select("broker", "time_ms").unique().height:
        # Two scrapes of one broker at one moment (a host listed twice, a file copied) are one reading.
        gauges = gauges.unique([*_SERIES, "time_ms"], keep="first", maintain_order=True)
    parts = [gauges.select(_COLUMNS)]
    if counters.height:
        parts.append(_rates(counters))
    whole = pl.concat(parts) if len(parts) > 1 else parts[0]
    return whole.with_columns((pl.col("time_ms") // interval_ms).alias("interval"))


def _rates(counters: pl.DataFrame) -> pl.DataFrame:
    """Return the increase per second since the broker's previous tick.

    Traffic, process, machine and container have separate ticks, as each has its own exporter. A counter that fell was reset
    and counts from 0, as in Prometheus' ``irate``; one missing in the previous tick has no rate yet. Idle seconds become the
    busy fraction of the node: 1 − mean over its CPUs.
    """
    by = [*_SERIES, "time_ms"]
    frame = counters.unique(by, keep="first", maintain_order=True).sort(by, nulls_last=False)
    frame = frame.with_columns(raw_metrics.of_exporter().alias("exporter"))
    target = ["broker", "exporter"]
    moments = frame.select(*target, "time_ms").unique().sort(*target, "time_ms")
    moments = moments.with_columns(pl.col("time_ms").shift(1).over(target, order_by="time_ms").alias("_before"))
    frame = frame.join(moments, on=[*target, "time_ms"], how="left", maintain_order="left")
    same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift(1)) for name in _SERIES)
    same &= pl.col("time_ms").shift(1) == pl.col("_before")
    rise = pl.col("value") - pl.col("value").shift(1)
    rise = pl.when(rise < 0).then("value").otherwise(rise)
    seconds = (pl.col("time_ms") - pl.col("time_ms").shift(1)) / 1000
    rated = frame.with_columns(pl.when(same).then(rise / seconds).alias("value")).filter(
        pl.col("value").is_not_null() & pl.col("value").is_finite()
    )
    idle = pl.col("metric") == raw_metrics.NODE_IDLE_SECONDS
    summed = pl.col("metric").is_in(_SUMMED)
    by_cpu = (
        rated.filter(idle | summed)
        .group_by("time_ms", "broker", "metric", maintain_order=True)
        .agg(pl.when(idle.first()).then(1 - pl.col("value").mean()).otherwise(pl.col("value").sum()).alias("value"))
        .with_columns(pl.lit(None, pl.String).alias("topic"), pl.lit(None, pl.Int32).alias("partition"))
    )
    return pl.concat([rated.filter(~(idle | summed)).select(_COLUMNS), by_cpu.select(_COLUMNS)])


def add_sizes(rows: pl.DataFrame, sizes: pl.DataFrame, until_ms: int) -> pl.DataFrame:
    """Add to ``rows`` of one interval the sizes from kafka-log-dirs of brokers that report rates but no size at all.

    The newest size not after ``until_ms`` counts, else the oldest.
    """
    sized = rows.filter(pl.col("metric") == raw_metrics.SIZE)["broker"].unique()
    unsized = rows.filter(~pl.col("broker").is_in(sized.implode()))["broker"].unique()
    if not unsized.len() or not sizes.height:
        return rows
    late = pl.col("time_ms") > until_ms
    chosen = (
        sizes.filter(pl.col("broker").is_in(unsized.implode()))
        .with_columns(late.alias("_late"), pl.when(late).then("time_ms").otherwise(-pl.col("time_ms")).alias("_rank"))
        .sort("_late", "_rank", maintain_order=True)
        .unique(["broker", "topic", "partition"], keep="first", maintain_order=True)
    )
    added = chosen.select(
        pl.lit(rows["time_ms"].max(), pl.Int64).alias("time_ms"),
        "broker",
        pl.lit(raw_metrics.SIZE, pl.UInt8).alias("metric"),
        "topic",
        "partition",
        pl.col("size").cast(pl.Float64).alias("value"),
        pl.lit(rows["interval"][0], rows.schema["interval"]).alias("interval"),
    )
    return pl.concat([rows, added.select(rows.columns)])
