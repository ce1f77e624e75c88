"""Ticks and readings: which file holds readings of which host or broker and from when, and the readings by sampling interval.

Running totals become rates here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from engine.broker_load.tables import raw_metrics
from engine.core.incremental import FramePartials
from engine.core.view import FILE, Context, Inputs

_OF = (FILE, "host", "broker", "time_ms")


def of(inputs: Inputs, context: Context) -> pl.DataFrame:
    """Return the ticks of all files; each version of a file is read once.

    A tick is one file, ``host``, ``broker`` (either may be null) and ``time_ms``; ``version`` of the file; ``counter``:
    it has running totals, those of ``exporters`` (``raw_metrics.of_exporter``); ``sized``: it has partition sizes; ``cpus``:
    numbers of the CPUs that node_exporter names; ``print``: a fingerprint of all its running totals; ``rows``: how many it has.
    """
    ticks: FramePartials[int] = context.memo.state("broker load ticks", lambda: FramePartials(FILE))
    ticks.update(
        {number: info.version for number, info in inputs.files.items()}, lambda files: {"ticks": _read(inputs, files)}
    )
    return ticks.frame("ticks")


def _read(inputs: Inputs, files: Collection[int]) -> pl.DataFrame:
    versions = {FILE: list(files), "version": [inputs.files[number].version for number in files]}
    numbers = pl.DataFrame(versions, schema={FILE: pl.UInt32, "version": pl.Int64})
    parts = list(map(of_rows, inputs.parts("metrics", set(files)))) or [of_rows(inputs.table("metrics").clear())]
    ticks = parts[0] if len(parts) == 1 else _together(pl.concat(parts))
    return ticks.join(numbers, on=FILE, how="left").sort(FILE, "time_ms", "host", "broker")


def of_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the ticks of some rows of ``metrics``, without versions."""
    counter, metric = pl.col("counter"), pl.col("metric")
    return rows.group_by(_OF, maintain_order=True).agg(
        counter.any(),
        raw_metrics.of_exporter().filter(counter).unique().sort().alias("exporters"),
        pl.len().alias("rows"),
        (metric == raw_metrics.SIZE).any().alias("sized"),
        pl.col("partition").filter(metric == raw_metrics.NODE_IDLE_SECONDS).unique().alias("cpus"),
        pl.struct("metric", "topic", "partition", "value").hash().filter(counter).bitwise_xor().alias("print"),
    )


def _together(ticks: pl.DataFrame) -> pl.DataFrame:
    """Merge ``ticks`` whose rows came in several parts."""
    several = [pl.col(name).explode(empty_as_null=False).drop_nulls().unique().sort() for name in ("exporters", "cpus")]
    merged = ticks.group_by(_OF, maintain_order=True).agg(
        pl.col("counter").any(), *several, pl.col("rows").sum(), pl.col("sized").any(), pl.col("print").bitwise_xor()
    )
    return merged.select(ticks.columns)


def newest_files(ticks: pl.DataFrame) -> set[int]:
    """Return the files with the newest tick of each host."""
    named = ticks.filter(pl.col("host").is_not_null())
    return set(named.filter(pl.col("time_ms") == pl.col("time_ms").max().over("host"))[FILE].unique().to_list())


def cpu_counts(ticks: pl.DataFrame, ids: Mapping[str, tuple[int, ...]]) -> dict[int, int]:
    """Return the number of CPUs that node_exporter names on the machine of each broker id."""
    named = ticks.filter(pl.col("host").is_not_null()).select("host", "cpus").explode("cpus", empty_as_null=False)
    counts = named.drop_nulls().group_by("host", maintain_order=True).agg(pl.col("cpus").n_unique())
    return {broker: count for host, count in counts.iter_rows() for broker in ids.get(host, ())}


def by_broker(rows: pl.DataFrame, ids: Mapping[str, tuple[int, ...]]) -> pl.DataFrame:
    """Return ``rows`` of known brokers: ``broker`` as the row names it, else each id that its host is matched with."""
    pairs = [(host, broker) for host, brokers in ids.items() for broker in brokers]
    if pairs:
        names = pl.DataFrame(pairs, schema={"host": pl.String, "_broker": pl.Int32}, orient="row")
        rows = rows.join(names, on="host", how="left", maintain_order="left")
        rows = rows.with_columns(pl.coalesce("broker", "_broker").alias("broker")).drop("_broker")
    return rows.filter(pl.col("broker").is_not_null())


def repeats(ticks: pl.DataFrame) -> pl.DataFrame:
    """Return the ticks (``host``, ``time_ms``) at which all running totals of a machine are those of the tick before.

    A range query repeats the newest sample if its step is finer than the scrapes, and for five minutes after a target has
    vanished. Such repeats are no observations. Only machines with CPU seconds are checked, since those never stand still.
    """
    counting = ticks.filter(pl.col("host").is_not_null() & pl.col("counter"))
    if not counting.height:
        return counting.select("host", "time_ms")
    counting = counting.with_columns(pl.col("host").str.replace(r":\d{2,5}$", "").str.to_lowercase().alias("machine"))
    by_time = (
        counting.unique(["machine", "host", "time_ms", "print"])
        .group_by("machine", "time_ms")
        .agg(pl.col("print").bitwise_xor(), pl.col("exporters").explode(empty_as_null=False).max().alias("most"))
        .sort("machine", "time_ms")
    )
    same = (pl.col("print") == pl.col("print").shift(1)).over("machine", order_by="time_ms")
    still = by_time.filter(same & (pl.col("most") > 0))
    return counting.join(still, on=["machine", "time_ms"], how="semi").select("host", "time_ms").unique()


def counting(ticks: pl.DataFrame, repeats: pl.DataFrame) -> pl.DataFrame:
    """Return ``ticks`` without the running totals of those in ``repeats``."""
    if not repeats.height:
        return ticks
    marked = repeats.with_columns(pl.lit(True).alias("_again"))
    again = ticks.join(marked, on=["host", "time_ms"], how="left", maintain_order="left")["_again"].fill_null(False)
    none = pl.lit([], pl.List(pl.UInt8))
    return ticks.with_columns(
        pl.when(again).then(False).otherwise("counter").alias("counter"),
        pl.when(again).then(none).otherwise("exporters").alias("exporters"),
    )


def sources(ticks: pl.DataFrame) -> pl.DataFrame:
    """Return the inputs of each sampling interval: ``interval``, sorted lists of file, ``version`` and ``broker``, the number
    of ``rows`` in it and the moment (``since``, epoch ms) of the first tick needed.

    ``ticks`` are by broker, with a column ``interval``. Running totals also need the file with the tick before, since their
    rate is the increase since then.
    """
    columns = ("interval", FILE, "version", "broker", "time_ms")
    needed = ticks.select(columns)
    counting = ticks.filter("counter")
    if counting.height:
        counting = counting.explode("exporters", empty_as_null=False)
        target = ["broker", "exporters"]
        moments = counting.select(*target, "time_ms", "interval").unique().sort(*target, "time_ms")
        before = moments.select(
            *target, pl.col("time_ms").shift(1).over(target, order_by="time_ms").alias("time_ms"), "interval"
        )
        needed = pl.concat([needed, counting.drop("interval").join(before, on=[*target, "time_ms"]).select(columns)])
    since = needed.group_by("interval").agg(pl.col("time_ms").min().alias("since"))
    parts = needed.select(columns[:-1]).unique().sort(columns[:-1]).group_by("interval").agg(FILE, "version", "broker")
    parts = parts.join(ticks.group_by("interval").agg(pl.col("rows").sum()), on="interval")
    return parts.join(since, on="interval").sort("interval")


_SERIES = ("broker", "metric", "topic", "partition")
_COLUMNS = ("time_ms", *_SERIES, "value")
_SUMMED = (raw_metrics.PROCESS_CPU_SECONDS, raw_metrics.CONTAINER_CPU_SECONDS)
"""Metrics that are summed if a broker reports them by CPU."""


def readings(
    rows: pl.DataFrame, ids: Mapping[str, tuple[int, ...]], interval_ms: int, repeats: pl.DataFrame
) -> pl.DataFrame:
    """Return the raw metrics ``rows`` of known brokers (``ids`` by host) with their sampling ``interval``. Running totals at
    the ticks ``repeats`` are left out."""
    rows = by_broker(rows, ids)
    counters = rows.filter(pl.col("counter"))
    if repeats.height:
        counters = counters.join(repeats, on=["host", "time_ms"], how="anti", maintain_order="left")
    gauges = rows.filter(~pl.col("counter"))
    scrapes = gauges.select("broker", "time_ms", "host", FILE).unique()
    if scrapes.height > scrapes.select("broker", "time_ms").unique().height:
        # Two scrapes of one broker at one moment (a host listed twice, a file copied) are one reading.
        gauges = gauges.unique([*_SERIES, "time_ms"], keep="first", maintain_order=True)
    whole = gauges.select(_COLUMNS)
    if counters.height:
        whole = pl.concat([whole, _rates(counters)])
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
