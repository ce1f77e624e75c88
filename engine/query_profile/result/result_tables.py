"""Build the result tables: frames of the declared columns in a defined order, filtered, grouped and cut off."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
from msgspec.structs import asdict

from engine.formats.sql_text import fingerprint
from engine.query_profile import tables
from engine.query_profile.insight.profile import Profile, saving
from engine.query_profile.parameters import QueryProfileParameters
from engine.query_profile.tables import CLASSES, METHODS, NAN_TO_NULL
from engine.query_profile.workloads.sources import Sources
from engine.query_profile.workloads.workload import Workload

LINE_COLUMNS = ("r2", "slope", "slope_stderr", "intercept", "intercept_stderr", "intercept_stderr_correct")
"""Columns of ``classes`` that are fields of WLR's lines."""


def classes(parameters: QueryProfileParameters, profile: Profile) -> pl.DataFrame:
    """Build the ``classes`` table by rank, filtered, grouped and cut off as ``parameters`` ask."""
    work, measured = profile.work, profile.measured if profile.attributable else math.nan
    frame = tables.CLASSES.frame(_class_columns(profile))
    draws, level = profile.draws, profile.fits.level
    keep = np.ones(len(work.classes), bool)
    if parameters.filter:
        keep = matching(work, parameters.filter)
        frame = frame.filter(pl.Series(keep))
    place, groups = group(work, parameters.group)
    names, draws = [groups[p] for p in place[keep]], draws[:, keep] if len(draws) else draws
    if parameters.group != "class":
        frame = sums(frame, names, parameters.group, measured)
        frame = ranges(frame, names, draws, level)
    whole_x = float(np.nansum(profile.x_total))
    frame = with_shares(frame, whole_x, measured, profile.seconds).with_columns(NAN_TO_NULL)
    rank = {"cpu": "y_total", "time": "x_total", "io": "io_us", "latency": "latency_us"}
    order = [rank.get(parameters.metric, parameters.metric), "x_total", "class"]
    frame = frame.sort(order, descending=[True, True, False], nulls_last=True, maintain_order=True)
    if parameters.top and frame.height > parameters.top:
        rest = frame.slice(parameters.top)
        title, joined = f"{OTHERS} - {rest.height} items", set(rest["class"])
        others = sums(rest, [title] * rest.height, "class", measured)
        others = ranges(others, [title if name in joined else "" for name in names], draws, level)
        others = with_shares(others, whole_x, measured, profile.seconds)
        frame = pl.concat([frame.head(parameters.top), others]).with_columns(NAN_TO_NULL)
    return frame.select(tables.CLASSES.schema.names())


def _class_columns(profile: Profile) -> dict[str, Any]:
    """Return the columns of ``classes`` before they are filtered, grouped and ranked; shares are added later."""
    infos, lines = profile.work.classes, profile.lines
    unknown = np.full(len(infos), np.nan)
    metric = {
        name: values[profile.shown].sum(axis=0) for name, values in profile.work.metrics.items() if name != "time_us"
    }
    time, call = profile.costs
    cpu_low_us, cpu_high_us = profile.interval
    columns: dict[str, Any] = {
        "class": [i.name for i in infos],
        "queryid": [i.queryid for i in infos],
        "y_total": profile.total,
        "y_low": cpu_low_us,
        "y_high": cpu_high_us,
        "x_total": profile.x_total,
        "cost_per_time": time,
        "cost_per_call": call,
        "disagreement": unknown,
        **{name: metric.get(name, unknown) for name in ("calls", "rows", "errors", "io_us", "lock_us")},
        "cpu_measured_us": metric.get("cpu_us", unknown),
        "flag": [""] * len(infos),
        "verb": [i.verb for i in infos],
        "user": [i.user for i in infos],
        "database": [i.database for i in infos],
        "query": [i.query for i in infos],
        "members": np.ones(len(infos), np.int64),
        **{f"y_{name}": profile.totals.get(name, unknown) for name in tables.METHODS},
    }
    if lines is not None:
        columns |= {name: getattr(lines, name) for name in LINE_COLUMNS}
        columns |= {
            "n": lines.n.astype(np.int64),
            "flag": ["no spread" if flat else "" for flat in profile.fits.no_spread()],
        }
    return columns


def intervals(whole: Workload, window: np.ndarray, before: np.ndarray | None, used: np.ndarray) -> pl.DataFrame:
    """Build the ``intervals`` table of the ``whole`` workload. ``window``, ``before``: masks (T,) of the window and of the one
    it is compared with; ``used``: mask over the intervals of the window."""
    used_of_all = np.zeros(len(whole.y), bool)
    used_of_all[window] = used
    words = np.full(len(whole.y), "", dtype=object)
    if before is not None:
        words[before] = "before"
    words[window] = "now"
    finite = np.isfinite(whole.y)
    with np.errstate(invalid="ignore", over="ignore"):
        x = whole.x.sum(axis=1)
    frame = tables.INTERVALS.frame(
        {
            "row": np.arange(1, len(whole.y) + 1),
            "start_ms": whole.start_ms,
            "end_ms": whole.end_ms,
            "seconds": whole.seconds,
            "window": words.tolist(),
            "used": used_of_all,
            "reason": [
                reason or ("" if known else "no CPU sample")
                for reason, known in zip(whole.reasons, finite, strict=True)
            ],
            "x": x,
            "y": whole.y,
        }
    )
    return frame.with_columns(
        *(pl.when(pl.col(name) >= 0).then(pl.col(name)).alias(name) for name in ("start_ms", "end_ms")), NAN_TO_NULL
    )


def what_if(classes: pl.DataFrame, parameters: QueryProfileParameters, profile: Profile) -> pl.DataFrame:
    """Build the ``what_if`` table for the class (by name or query id) in the ``classes`` table; empty if there is none or
    nothing is attributed to it."""
    rows = classes.filter((pl.col("class") == parameters.what_if) | (pl.col("queryid") == parameters.what_if))
    row = rows.row(0, named=True) if rows.height else {"y_total": None}
    found = saving(row, profile, parameters.faster, parameters.drop)
    if found is None:
        return tables.WHAT_IF.empty()
    return tables.WHAT_IF.frame(
        {
            "class": [row["class"]],
            "faster": [None if parameters.drop else parameters.faster],
            **{name: [value] for name, value in asdict(found).items()},
        }
    ).with_columns(NAN_TO_NULL)


def sources(found: Sources, chosen: Workload) -> pl.DataFrame:
    """Build the ``sources`` table."""
    rows = [
        {
            "source": w.label,
            "kind": w.kind,
            "classes": len(w.classes),
            "intervals": len(w.y),
            "usable": int(w.used.sum()),
            "resource": f"{w.y_name} ({w.y_source})" if w.y_name else "none",
            "chosen": w is chosen,
        }
        for w in found.workloads
    ]
    return pl.DataFrame(rows, schema=tables.SOURCES.schema)


OTHERS = "Others"  # begin of the name of the row that joins the classes beyond ``top``


def group(work: Workload, by: str) -> tuple[np.ndarray, list[str]]:
    """Return the group of each class (J,) and the names of the groups in order of first appearance. ``by``: class, query
    (statements of one text, whoever runs them), verb, user or database."""
    if by == "class":
        return np.arange(len(work.classes)), [info.name for info in work.classes]
    names: dict[str, int] = {}
    place = np.empty(len(work.classes), np.int64)
    for i, info in enumerate(work.classes):
        name = info.name.partition(".")[0] if by == "verb" and not info.query else getattr(info, by)
        if by == "query":
            name = fingerprint(name, postgres=work.kind.startswith(("postgres", "pg"))) or info.name
        place[i] = names.setdefault(name or "(none)", len(names))
    return place, list(names)


def matching(work: Workload, text: str) -> np.ndarray:
    """Return the mask (J,) of the classes with every word of ``text`` somewhere in their name, query, user or database."""
    words = text.lower().split()
    texts = (" ".join((info.name, info.query, info.user, info.database)).lower() for info in work.classes)
    return np.array([all(word in each for word in words) for each in texts], bool)


def with_shares(frame: pl.DataFrame, whole_x: float, measured: float, seconds: float) -> pl.DataFrame:
    """Add the columns that follow from the sums of each row: shares, latency, disagreement, active CPUs over ``seconds``.

    The methods disagree on a row by the difference of its sums, whichever classes of a group cause it.
    """
    unknown = pl.lit(None, dtype=pl.Float64)
    differ = (pl.col("y_default") - pl.col("y_wlr")).abs() / measured
    return frame.with_columns(
        (differ if measured > 0 else unknown).alias("disagreement"),
        (pl.col("x_total") / whole_x if whole_x > 0 else unknown).alias("x_share"),
        (pl.col("y_total") / measured if measured > 0 else unknown).alias("y_share"),
        (pl.col("y_total") / (seconds * 1e6) if seconds > 0 else unknown).alias("active_cpus"),
        pl.when(pl.col("calls") > 0).then(pl.col("x_total") / pl.col("calls")).alias("latency_us"),
    )


def sums(frame: pl.DataFrame, names: list[str], by: str, measured: float) -> pl.DataFrame:
    """Sum the rows of ``classes`` by the group that ``names`` gives each; ``measured``: use of the resource, NaN if unknown.

    Interval ends add up, which is right for counters that miss the same everywhere; capped at what was measured. Ranges of the
    model become those of ``ranges``.
    """
    summed = (
        "y_total", "y_low", "y_high", "x_total", "calls", "rows", "errors", "io_us", "lock_us", "cpu_measured_us",
        *(f"y_{name}" for name in METHODS),
    )  # fmt: skip
    sums = (pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).first().alias(name) for name in summed)
    grouped = (
        frame.with_columns(NAN_TO_NULL, pl.Series("group", names, dtype=pl.String))
        .group_by("group", maintain_order=True)
        .agg(*sums, pl.col("members").sum())
        .rename({"group": "class"})
    )
    # Sums of upper interval ends are capped at the measured use (or the attributed one, if larger).
    most = pl.max_horizontal("y_total", pl.lit(measured if math.isfinite(measured) else math.inf))
    return CLASSES.frame(grouped if by == "class" else grouped.with_columns(pl.col("class").alias(by))).with_columns(
        pl.when(pl.col("y_high") > most).then(most).otherwise(pl.col("y_high")).alias("y_high")
    )


def ranges(frame: pl.DataFrame, names: list[str], draws: np.ndarray, level: float) -> pl.DataFrame:
    """Add to each row of ``frame`` its range, with coverage ``level``: that of the summed ``draws`` (B, J) of the classes that
    ``names`` (J,) assign to the row. The classes' own ranges do not add up: what one has too much another lacks."""
    if not len(draws):
        return frame
    place = {name: row for row, name in enumerate(frame["class"])}
    known = [column for column, name in enumerate(names) if name in place]
    summed = np.zeros((frame.height, len(draws)))
    np.add.at(summed, [place[names[column]] for column in known], draws.T[known])
    low, high = np.quantile(summed, [(1 - level) / 2, (1 + level) / 2], axis=1)
    return frame.with_columns(
        pl.min_horizontal(pl.Series(low).clip(0.0), "y_total").alias("y_low"),
        pl.max_horizontal(pl.Series(high), "y_total").alias("y_high"),
    )
