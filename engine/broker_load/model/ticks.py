"""Ticks: which file holds readings of which host or broker, and from when."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import polars as pl

from engine.broker_load.tables import raw_metrics
from engine.incremental import FramePartials
from engine.inputs import FILE, Inputs
from engine.view import Context

_OF = (FILE, "host", "broker", "time_ms")


def of(inputs: Inputs, context: Context) -> pl.DataFrame:
    """Return the ticks of all files, each file looked at once per version.

    A tick is one file, ``host``, ``broker`` (either may be null) and ``time_ms``; ``version`` of the file; ``counter``:
    it has running totals; ``sized``: it has partition sizes; ``cpus``: numbers of the CPUs that node_exporter names.
    """
    ticks: FramePartials[int] = context.memo.state("broker load ticks", lambda: FramePartials(FILE))
    versions = {number: info.version for number, info in inputs.files.items()}
    ticks.update(versions, lambda files: {"ticks": _read(inputs, files)})
    return ticks.frame("ticks")


def _read(inputs: Inputs, files: Collection[int]) -> pl.DataFrame:
    rows = inputs.table("metrics") if len(files) == len(inputs.files) else inputs.of("metrics", set(files))
    ticks = _starts(rows, (*_OF, "counter")).group_by(_OF, maintain_order=True).agg(pl.col("counter").any())
    sized = _starts(rows.filter(pl.col("metric") == raw_metrics.SIZE), _OF).unique()
    idle = rows.filter(pl.col("metric") == raw_metrics.NODE_IDLE_SECONDS)
    cpus = idle.group_by(_OF).agg(pl.col("partition").unique().alias("cpus"))
    versions = {FILE: list(files), "version": [inputs.files[number].version for number in files]}
    return (
        ticks.join(sized.with_columns(pl.lit(True).alias("sized")), on=_OF, how="left", nulls_equal=True)
        .join(cpus, on=_OF, how="left", nulls_equal=True)
        .join(pl.DataFrame(versions, schema={FILE: pl.UInt32, "version": pl.Int64}), on=FILE, how="left")
        .with_columns(pl.col("sized").fill_null(False))
        .sort(FILE, "time_ms", "host", "broker")
    )


def _starts(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Return the rows at which a value of ``columns`` changes: a scrape is one long run of equal ticks, so these are few."""
    changes = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in columns)
    return rows.select(columns).filter(changes | (pl.int_range(pl.len()) == 0))


def newest_files(ticks: pl.DataFrame) -> set[int]:
    """Return the files with the newest tick of each host."""
    named = ticks.filter(pl.col("host").is_not_null())
    newest = named.filter(pl.col("time_ms") == pl.col("time_ms").max().over("host"))
    return set(newest[FILE].unique().to_list())


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


def sources(ticks: pl.DataFrame) -> pl.DataFrame:
    """Return the files each sampling interval is made of: ``interval``, file, ``version`` and ``broker``, sorted.

    ``ticks`` are by broker and have a column ``interval``. Beside the files with ticks in the interval these are the files
    with the tick before, where running totals make it necessary: their rate is the increase since then.
    """
    columns = ("interval", FILE, "version", "broker")
    counting = ticks.filter("counter")
    moments = counting.select("broker", "time_ms", "interval").unique().sort("broker", "time_ms")
    before = moments.select(
        "broker", pl.col("time_ms").shift(1).over("broker", order_by="time_ms").alias("time_ms"), "interval"
    )
    earlier = counting.drop("interval").join(before, on=["broker", "time_ms"])
    return pl.concat([ticks.select(columns), earlier.select(columns)]).unique().sort("interval", FILE, "broker")
