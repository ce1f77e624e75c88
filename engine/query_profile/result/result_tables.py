"""Build the result tables: frames of the declared columns in a defined order."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np
import polars as pl

from engine.query_profile import tables
from engine.query_profile.insight import grouping
from engine.query_profile.insight.profile import Profile, saving
from engine.query_profile.parameters import QueryProfileParameters
from engine.query_profile.tables import NAN_TO_NULL
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
        keep = grouping.matching(work, parameters.filter)
        frame = frame.filter(pl.Series(keep))
    place, groups = grouping.group(work, parameters.group)
    names, draws = [groups[p] for p in place[keep]], draws[:, keep] if len(draws) else draws
    if parameters.group != "class":
        frame = grouping.sums(frame, names, parameters.group, measured)
        frame = grouping.ranges(frame, names, draws, level)
    whole_x = float(np.nansum(profile.x_total))
    frame = grouping.with_shares(frame, whole_x, measured, profile.seconds).with_columns(NAN_TO_NULL)
    rank = {"cpu": "y_total", "time": "x_total", "io": "io_us", "latency": "latency_us"}
    order = [rank.get(parameters.metric, parameters.metric), "x_total", "class"]
    frame = frame.sort(order, descending=[True, True, False], nulls_last=True, maintain_order=True)
    if parameters.top and frame.height > parameters.top:
        rest = frame.slice(parameters.top)
        title, joined = f"{grouping.OTHERS} - {rest.height} items", set(rest["class"])
        others = grouping.sums(rest, [title] * rest.height, "class", measured)
        others = grouping.ranges(others, [title if name in joined else "" for name in names], draws, level)
        others = grouping.with_shares(others, whole_x, measured, profile.seconds)
        frame = pl.concat([frame.head(parameters.top), others]).with_columns(NAN_TO_NULL)
    return frame.select(tables.CLASSES.schema.names())


def _class_columns(profile: Profile) -> dict[str, Any]:
    """Return the columns of ``classes`` before they are filtered, grouped and ranked; shares are added later."""
    infos, lines = profile.work.classes, profile.lines
    unknown = np.full(len(infos), np.nan)
    metrics = profile.work.metrics.items()
    metric = {name: values[profile.shown].sum(axis=0) for name, values in metrics if name != "time_us"}
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
