"""The result tables: frames of the declared columns in a defined order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from engine.query_profile import tables
from engine.query_profile.insight import whatif
from engine.query_profile.insight.profile import Profile
from engine.query_profile.parameters import QueryProfileParameters
from engine.query_profile.reading.fingerprint import verb
from engine.query_profile.result import grouping
from engine.query_profile.workloads.sources import Sources
from engine.query_profile.workloads.windows import Side
from engine.query_profile.workloads.workload import Workload

NAN_TO_NULL = pl.col(pl.Float64).fill_nan(None)
"""Unknown numbers as result tables have them."""


LINE_COLUMNS = ("r2", "slope", "slope_stderr", "intercept", "intercept_stderr", "intercept_stderr_correct")
"""Columns of ``classes`` that are fields of WLR's lines."""


def classes(parameters: QueryProfileParameters, profile: Profile) -> pl.DataFrame:
    """Build the ``classes`` table by rank, filtered, grouped and cut off as ``parameters`` ask."""
    work, measured = profile.work, profile.measured
    frame = tables.CLASSES.frame(_class_columns(profile))
    keep = np.ones(len(work.classes), bool)
    if parameters.filter:
        keep = grouping.matching(work, parameters.filter)
        frame = frame.filter(pl.Series(keep))
    if parameters.group != "class":
        place, names = grouping.group(work, parameters.group)
        frame = _bounded(_grouped(frame, [names[p] for p in place[keep]], parameters.group), measured)
    whole_x = float(np.nansum(profile.x_total))
    frame = _shares(frame, whole_x, measured).with_columns(NAN_TO_NULL)
    rank = {"cpu": "y_total", "time": "x_total", "io": "io_us", "latency": "latency_us"}
    order = [rank.get(parameters.metric, parameters.metric), "x_total", "class"]
    frame = frame.sort(order, descending=[True, True, False], nulls_last=True, maintain_order=True)
    if parameters.top and frame.height > parameters.top:
        rest = frame.slice(parameters.top)
        others = _grouped(rest, [f"{grouping.OTHERS} - {rest.height} items"] * rest.height, "class")
        others = _shares(_bounded(others, measured), whole_x, measured)
        frame = pl.concat([frame.head(parameters.top), others]).with_columns(NAN_TO_NULL)
    return frame.select(tables.CLASSES.schema.names())


def _class_columns(profile: Profile) -> dict[str, Any]:
    """Return the columns of ``classes`` before they are filtered, grouped and ranked; shares are added later."""
    infos, lines = profile.work.classes, profile.lines
    unknown = np.full(len(infos), np.nan)
    metrics = profile.work.metrics.items()
    metric = {name: values[profile.shown].sum(axis=0) for name, values in metrics if name != "time_us"}
    time, call = _costs(profile)
    low, high = profile.interval
    columns: dict[str, Any] = {
        "class": [i.name for i in infos],
        "queryid": [i.queryid for i in infos],
        "y_total": profile.total,
        "y_low": low,
        "y_high": high,
        "x_total": profile.x_total,
        "cost_per_time": time,
        "cost_per_call": call,
        "disagreement": unknown,
        **{name: metric.get(name, unknown) for name in ("calls", "rows", "errors", "io_us", "lock_us")},
        "cpu_measured_us": metric.get("cpu_us", unknown),
        "flag": [""] * len(infos),
        "verb": [verb(i.query) if i.query else "" for i in infos],
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


def _costs(profile: Profile) -> tuple[np.ndarray, np.ndarray]:
    """Return the costs of each class (J,) per time and per call by the chosen method, NaN where it has none."""
    unknown = np.full(len(profile.work.classes), np.nan)
    if not profile.attributable:
        return unknown, unknown
    if profile.method == "wlr":
        lines = profile.lines
        return (unknown if lines is None else np.where(lines.usable(), lines.slope, 0.0)), unknown
    fitted = profile.attribution if profile.method == "default" else profile.fits.costs(profile.method)
    assert fitted is not None
    return fitted.time, unknown if profile.work.calls is None else fitted.call


def methods_side_by_side(profile: Profile) -> pl.DataFrame:
    """Build the ``methods`` table: what each method makes of the same intervals."""
    rows: list[dict[str, Any]] = []
    y, measured = profile.fits.y, profile.measured
    positive = y > 0
    for name, total in profile.totals.items():
        fitted = profile.fits.fitted(name)
        with np.errstate(invalid="ignore", over="ignore"):
            mape = float(np.mean(np.abs(fitted[positive] / y[positive] - 1))) if positive.any() else math.nan
        top = int(np.argmax(total)) if len(total) else -1
        moved = math.nan
        if "default" in profile.totals and measured > 0:
            moved = float(np.abs(total - profile.totals["default"]).sum()) / 2 / measured
        rows.append(
            {
                "method": name,
                "mape": mape,
                "attributed": float(total.sum()),
                "background": profile.fits.background(name),
                "unattributed": profile.unattributed(name),
                "moved_share": moved,
                "top_class": profile.work.classes[top].name if top >= 0 else "",
                "top_share": float(total[top]) / measured if top >= 0 and measured > 0 else math.nan,
            }
        )
    return pl.DataFrame(rows, schema=tables.METHODS_SIDE_BY_SIDE.schema).with_columns(NAN_TO_NULL)


def intervals(work: Workload, used: np.ndarray) -> pl.DataFrame:
    """Build the ``intervals`` table; ``used``: mask (T,)."""
    finite = np.isfinite(work.y)
    with np.errstate(invalid="ignore", over="ignore"):
        x = work.x.sum(axis=1)
    frame = tables.INTERVALS.frame(
        {
            "row": np.arange(1, len(work.y) + 1),
            "start_ms": work.start_ms,
            "end_ms": work.end_ms,
            "seconds": work.seconds,
            "used": used,
            "reason": [
                reason or ("" if known else "no CPU sample") for reason, known in zip(work.reasons, finite, strict=True)
            ],
            "x": x,
            "y": work.y,
        }
    )
    return frame.with_columns(
        *(pl.when(pl.col(name) >= 0).then(pl.col(name)).alias(name) for name in ("start_ms", "end_ms")), NAN_TO_NULL
    )


def comparison(work: Workload, now: Side, before: Side) -> pl.DataFrame:
    """Build the ``comparison`` table: classes of either window, those whose time changed most first."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        factor = np.where(before.x > 0, now.x / before.x, np.nan)
    status = np.where((before.x > 0) & (now.x > 0), "both", np.where(now.x > 0, "new", "gone"))
    names = [info.name for info in work.classes]
    columns: dict[str, Any] = {"class": names, "x_factor": factor, "status": status.tolist()}
    for when, side in (("before", before), ("now", now)):
        columns |= {f"x_{when}": side.x, f"calls_{when}": side.calls, f"y_{when}": side.y}
        columns[f"latency_{when}_us"] = side.latency
    frame = (
        tables.COMPARISON.frame(columns)
        .with_columns(NAN_TO_NULL)
        .filter((pl.col("x_before") > 0) | (pl.col("x_now") > 0))
    )
    change = (pl.col("x_now") - pl.col("x_before")).abs()
    return frame.sort(change, pl.col("class"), descending=[True, False], maintain_order=True)


def what_if(classes: pl.DataFrame, parameters: QueryProfileParameters, profile: Profile) -> pl.DataFrame:
    """Build the ``what_if`` table for the class (by name or query id) in the ``classes`` table; empty if there is none or
    nothing is attributed to it."""
    rows = classes.filter((pl.col("class") == parameters.what_if) | (pl.col("queryid") == parameters.what_if))
    row = rows.row(0, named=True) if rows.height else {"y_total": None}
    saving = whatif.saving_of_class(row, profile, parameters.faster, parameters.drop)
    if saving is None:
        return tables.WHAT_IF.empty()
    return tables.WHAT_IF.frame(
        {
            "class": [row["class"]],
            "faster": [None if parameters.drop else parameters.faster],
            "saved": [saving.saved],
            "saved_low": [saving.low],
            "saved_high": [saving.high],
            "utilisation": [saving.before],
            "utilisation_after": [saving.after],
            "latency_factor": [saving.latency_factor],
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


def _shares(frame: pl.DataFrame, whole_x: float, measured: float) -> pl.DataFrame:
    """Add the columns that follow from the sums of each row. The methods disagree on a row by the difference of its sums:
    which of a group's classes cause it does not matter to the group."""
    unknown = pl.lit(None, dtype=pl.Float64)
    differ = (pl.col("y_default") - pl.col("y_wlr")).abs() / measured
    return frame.with_columns(
        (differ if measured > 0 else unknown).alias("disagreement"),
        (pl.col("x_total") / whole_x if whole_x > 0 else unknown).alias("x_share"),
        (pl.col("y_total") / measured if measured > 0 else unknown).alias("y_share"),
        pl.when(pl.col("calls") > 0).then(pl.col("x_total") / pl.col("calls")).alias("latency_us"),
    )


def _bounded(frame: pl.DataFrame, measured: float) -> pl.DataFrame:
    """Bound the sums of upper ends of intervals by what was measured (or attributed, if that is more)."""
    if not math.isfinite(measured):
        return frame
    most = pl.max_horizontal("y_total", pl.lit(measured))
    return frame.with_columns(pl.when(pl.col("y_high") > most).then(most).otherwise(pl.col("y_high")).alias("y_high"))


def _grouped(frame: pl.DataFrame, names: list[str], by: str) -> pl.DataFrame:
    """Sum the rows of each group; intervals add as if classes erred together (never too narrow)."""
    summed = (
        "y_total", "y_low", "y_high", "x_total", "calls", "rows", "errors", "io_us", "lock_us", "cpu_measured_us",
        *(f"y_{name}" for name in tables.METHODS),
    )  # fmt: skip
    sums = (pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).first().alias(name) for name in summed)
    grouped = (
        frame.with_columns(NAN_TO_NULL, pl.Series("group", names, dtype=pl.String))
        .group_by("group", maintain_order=True)
        .agg(*sums, pl.col("members").sum())
        .rename({"group": "class"})
    )
    return tables.CLASSES.frame(grouped if by == "class" else grouped.with_columns(pl.col("class").alias(by)))
