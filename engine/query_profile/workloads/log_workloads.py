"""Turn logs and digests into workloads: cut them into intervals at the CPU samples, or at round times."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl

from engine.core import units
from engine.core.view import FILE
from engine.formats.sql_text import label
from engine.query_profile.reading.statements import SECOND
from engine.query_profile.tables import METRICS
from engine.query_profile.workloads import deltas, resources
from engine.query_profile.workloads.workload import ClassInfo, Workload, unique_names

BUCKETS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
"""Interval lengths in seconds for a log without a CPU series."""

LIMITS_US = tuple(step * 10**power for power in range(3, 8) for step in (1, 2, 5))
"""Usual thresholds of logs in microseconds: 1 ms to 50 s."""
MANY, NEAR_LIMIT = 20, 1.5
"""Fewest rows of a log whose shortest statement tells the threshold, and that statement's largest ratio to it."""

MOST_BUCKETS = 720
"""Approximate limit on intervals of a log without a CPU series."""


def edges(part: pl.DataFrame, series: Sequence[resources.Series], target: str) -> np.ndarray | None:
    """Choose the interval edges of a log (epoch ms): its CPU samples, or round times.

    ``part``: rows of the ``interval_classes`` table. Returns None where no entry has a time.
    """
    low, high = part["start_ms"].min(), part["end_ms"].max()
    if low is None or high is None:
        return None
    first, last = int(low), int(high)  # type: ignore[arg-type]
    for candidate in series:
        if candidate.name == (target or resources.CPU):
            inside = candidate.at_ms[(candidate.at_ms >= first - 1000) & (candidate.at_ms <= last + 1000)]
            if len(inside) >= 3 and np.median(np.diff(inside)) >= 900:
                return inside
    seconds = (last - first) / 1000
    days = math.ceil(seconds / MOST_BUCKETS / BUCKETS_S[-1])  # damaged times may be millennia apart
    step = next((s for s in BUCKETS_S if seconds / s <= MOST_BUCKETS), days * BUCKETS_S[-1]) * 1000
    return first // step * step + step * np.arange(int((last - 1 - first // step * step) // step + 1) + 1)


FEWEST = 10
"""Intervals that are kept whatever memory they take."""


def workload(part: pl.DataFrame, name: str, system: str, edges: np.ndarray | None, memory: int) -> Workload:
    """Sum ``part`` (rows of the ``interval_classes`` table) by class between ``edges`` (epoch ms; None: one interval per
    file). ``name``: label of the workload; ``system``: its kind. The oldest intervals are left out where all metrics of all
    classes would take more than ``memory`` bytes."""
    nested = pl.col("nested").fill_null(pl.lit(False))
    part, within = part.filter(~nested), part.filter(nested)
    part = part if edges is None else _split(part, edges)
    interval, inside, start_ms, end_ms = _by_file(part) if edges is None or len(edges) < 2 else _between(part, edges)
    times = within.group_by("key").agg(pl.col("query").first(), pl.col("time_us").sum()).select("query", "time_us")
    nested = [(label(query), time_us) for query, time_us in times.sort("query").rows()]
    notes = _not_counted(part, inside) + _threshold(part) + ((deltas.inside_note(nested),) if nested else ())
    tables = max(1, sum(part[metric].count() > 0 for metric, _ in METRICS))
    most = max(FEWEST, memory // (max(1, part["key"].n_unique()) * tables * 8))
    if (gone := len(start_ms) - most) > 0:
        notes = (*notes, left_out(gone, len(start_ms), "memory-mb"))
        kept = ~inside | (interval >= gone)
        part, interval, inside = part.filter(kept), interval[kept] - gone, inside[kept]
        start_ms, end_ms = start_ms[gone:], end_ms[gone:]
    count = len(start_ms)
    classes = part.unique("key", keep="first", maintain_order=True).with_row_index("index")
    index = part.join(classes.select("key", "index"), on="key", how="left", maintain_order="left")["index"].to_numpy()
    texts = classes.select("queryid", "query", "user", "database").rows()
    metrics: dict[str, np.ndarray] = {}
    for metric, _ in METRICS:
        values = part[metric].to_numpy().astype(float)
        counted = np.isfinite(values) & inside
        if counted.any():
            table = np.zeros((count, len(texts)))
            np.add.at(table, (interval[counted], index[counted]), values[counted])
            metrics[metric] = table
    metrics.setdefault("time_us", np.zeros((count, len(texts))))
    more = [(user, database, query[:24]) for _, query, user, database in texts]
    names = unique_names([queryid for queryid, *_ in texts], more)
    return Workload(
        name,
        system,
        tuple(ClassInfo(name, *text) for name, text in zip(names, texts, strict=True)),
        metrics,
        np.full(count, np.nan),
        start_ms,
        end_ms,
        ("",) * count,
        notes=notes,
        counted=float(part.filter(pl.col("cpu_us").is_not_null())["time_us"].sum())
        / max(float(part["time_us"].sum()), 1e-9),
    )


def _split(part: pl.DataFrame, edges: np.ndarray) -> pl.DataFrame:
    """Split the entries that run across ``edges``: each interval gets its share of the time, the last one the call."""
    starts, ends = part["start_ms"].fill_null(-1).to_numpy(), part["end_ms"].fill_null(-1).to_numpy()
    first, last = np.searchsorted(edges, starts, side="right"), np.searchsorted(edges, ends, side="left")
    across = np.flatnonzero((starts >= 0) & (ends - starts > SECOND) & (first < last))
    if not len(across):
        return part
    inner = [np.r_[starts[i], edges[first[i] : last[i]], ends[i]] for i in across]
    pieces = np.array([len(cuts) - 1 for cuts in inner])
    length = np.concatenate([np.diff(cuts) for cuts in inner])
    share = length / np.repeat(ends[across] - starts[across], pieces)
    whole = np.zeros(len(length))
    whole[np.cumsum(pieces) - 1] = 1.0
    split = part[np.repeat(across, pieces)].with_columns(
        pl.Series("start_ms", np.concatenate([cuts[:-1] for cuts in inner])),
        pl.Series("end_ms", np.concatenate([cuts[1:] for cuts in inner])),
        *(pl.col(name) * pl.lit(share if name.endswith("_us") else whole).alias(name) for name, _ in METRICS),
    )
    rest = np.ones(part.height, bool)
    rest[across] = False
    return pl.concat([part.filter(rest), split])


def _threshold(part: pl.DataFrame) -> tuple[str, ...]:
    """Word from which length on a log has statements, where it seems to leave out shorter ones."""
    per_call = part.filter(pl.col("calls") > 0).select((pl.col("time_us") / pl.col("calls")).min()).item()
    limit = max((each for each in LIMITS_US if each <= (per_call or 0)), default=0)
    if part.height < MANY or not limit or per_call > NEAR_LIMIT * limit:
        return ()
    said = "and more are in the log: the CPU of shorter ones is nobody's here, or blamed on these"
    return (f"only statements of {units.text('ms', limit / 1000)} {said}",)


def left_out(gone: int, count: int, why: str) -> str:
    """Word that only the newest intervals are used."""
    return f"the oldest {gone:,} of {count:,} intervals are left out ({why})"


Cut = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Interval of each row and whether it counts; begin and end of each interval (epoch ms, -1: unknown)."""


def _between(part: pl.DataFrame, edges: np.ndarray) -> Cut:
    """Assign entries to the intervals between ``edges`` in which they end."""
    timed = part["end_ms"].is_not_null().to_numpy()
    interval = np.searchsorted(edges, np.where(timed, part["end_ms"].to_numpy(), -1), side="left") - 1
    inside = timed & (interval >= 0) & (interval < len(edges) - 1)
    return interval, inside, edges[:-1].astype(np.int64), edges[1:].astype(np.int64)


def _by_file(part: pl.DataFrame) -> Cut:
    """Treat each file as one interval."""
    order = part.group_by(FILE, maintain_order=True).agg(pl.col("start_ms").min(), pl.col("end_ms").max())
    order = order.sort("start_ms", FILE, nulls_last=True).with_row_index("interval")
    numbers = part.join(order.select(FILE, "interval"), on=FILE, how="left", maintain_order="left")["interval"]
    start_ms, end_ms = (order[name].fill_null(-1).to_numpy().astype(np.int64) for name in ("start_ms", "end_ms"))
    return numbers.to_numpy().astype(np.int64), np.ones(part.height, bool), start_ms, end_ms


def _not_counted(part: pl.DataFrame, inside: np.ndarray) -> tuple[str, ...]:
    """Word how many entries belong to no interval."""
    if inside.all():
        return ()
    timeless = int(part["end_ms"].null_count())
    reasons = ((timeless, "have no time"), (int((~inside).sum()) - timeless, "lie outside the CPU samples"))
    return tuple(
        f"{count} log {'entry' if count == 1 else 'entries'} {what}: not counted" for count, what in reasons if count
    )
