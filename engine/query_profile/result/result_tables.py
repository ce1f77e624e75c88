"""The result tables: what was computed, as frames of the declared columns in a defined order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from engine.query_profile import tables
from engine.query_profile.estimators.attribution import Attribution
from engine.query_profile.insight import whatif
from engine.query_profile.insight.fits import Fits
from engine.query_profile.parameters import QueryProfileParameters
from engine.query_profile.reading.fingerprint import verb
from engine.query_profile.wlr.regression import Lines
from engine.query_profile.workloads import profile
from engine.query_profile.workloads.sources import Gathered
from engine.query_profile.workloads.workload import Workload


def classes(
    given: QueryProfileParameters,
    work: Workload,
    shown: np.ndarray,
    x_total: np.ndarray,
    total: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    totals: dict[str, np.ndarray],
    lines: Lines | None,
    fits: Fits,
    measured: float,
    attribution: Attribution | None,
    y_known: bool,
) -> pl.DataFrame:
    """The ``classes`` table by rank, filtered, grouped and cut as ``given`` asks."""
    count = len(work.classes)
    none = np.full(count, np.nan)
    metric = {
        name: values[shown].sum(axis=0) if not shown.all() else values.sum(axis=0)
        for name, values in work.metrics.items()
        if name != "time_us"
    }
    time, call = none, none
    if y_known:
        if given.method == "default" and attribution is not None:
            time, call = attribution.time, attribution.call
        elif given.method != "wlr":
            costs = fits.costs(given.method)
            time, call = costs.time, costs.call
        elif lines is not None:
            time, call = np.where(lines.usable(), lines.slope, 0.0), none
        if work.calls is None:
            call = none
    infos = work.classes
    columns: dict[str, Any] = {
        "class": [i.name for i in infos],
        "queryid": [i.queryid for i in infos],
        "y_total": total,
        "y_low": low,
        "y_high": high,
        "x_total": x_total,
        "calls": metric.get("calls", none),
        "cost_per_time": time,
        "cost_per_call": call,
        "disagreement": none,
        "rows": metric.get("rows", none),
        "errors": metric.get("errors", none),
        "io_us": metric.get("io_us", none),
        "lock_us": metric.get("lock_us", none),
        "cpu_measured_us": metric.get("cpu_us", none),
        "flag": [""] * count,
        "verb": [verb(i.query) if i.query else "" for i in infos],
        "user": [i.user for i in infos],
        "database": [i.database for i in infos],
        "query": [i.query for i in infos],
        "members": np.ones(count, np.int64),
        **{f"y_{name}": totals.get(name, none) for name in tables.METHODS},
    }
    if lines is not None:
        columns |= {
            "n": lines.n.astype(np.int64),
            "r2": lines.r2,
            "slope": lines.slope,
            "slope_stderr": lines.slope_stderr,
            "intercept": lines.intercept,
            "intercept_stderr": lines.intercept_stderr,
            "intercept_stderr_correct": lines.intercept_stderr_correct,
            "flag": ["no spread" if flat else "" for flat in fits.flat()],
        }
    frame = tables.CLASSES.frame(columns)
    keep = np.ones(count, bool)
    if given.filter:
        keep = np.array([profile.matches(info, given.filter) for info in infos], bool)
        frame = frame.filter(pl.Series(keep))
    if given.group != "class":
        place, names = profile.group(work, given.group)
        frame = _bounded(_grouped(frame, [names[p] for p in place[keep]], given.group), measured)
    whole_x = float(np.nansum(x_total))
    frame = _shares(frame, whole_x, measured if y_known else math.nan)
    rank = {"cpu": "y_total", "time": "x_total", "io": "io_us", "latency": "latency_us"}.get(given.metric, given.metric)
    frame = frame.with_columns(pl.col(pl.Float64).fill_nan(None))
    frame = frame.sort([rank, "x_total", "class"], descending=[True, True, False], nulls_last=True, maintain_order=True)
    if given.top and frame.height > given.top:
        rest = frame.slice(given.top)
        joined = _grouped(rest, [f"{profile.OTHERS} - {rest.height} items"] * rest.height, "class")
        joined = _bounded(joined, measured)
        frame = pl.concat([frame.head(given.top), _shares(joined, whole_x, measured if y_known else math.nan)])
        frame = frame.with_columns(pl.col(pl.Float64).fill_nan(None))
    return frame.select(tables.CLASSES.schema.names())


def methods_side_by_side(
    fits: Fits, work: Workload, methods: list[str], totals: dict[str, np.ndarray], measured: float
) -> pl.DataFrame:
    """The ``methods`` table: what each method makes of the same intervals."""
    rows: list[dict[str, Any]] = []
    for name in methods:
        fitted = fits.fitted(name)
        fine = fits.y > 0
        with np.errstate(invalid="ignore", over="ignore"):
            mape = float(np.mean(np.abs(fitted[fine] / fits.y[fine] - 1))) if fine.any() else math.nan
        total = totals[name]
        attributed, background = float(total.sum()), fits.background(name)
        top = int(np.argmax(total)) if len(total) else -1
        moved = math.nan
        if "default" in totals and measured > 0:
            moved = float(np.abs(total - totals["default"]).sum()) / 2 / measured
        rows.append(
            {
                "method": name,
                "mape": mape,
                "attributed": attributed,
                "background": background,
                "unattributed": rest(measured, attributed, background),
                "moved_share": moved,
                "top_class": work.classes[top].name if top >= 0 else "",
                "top_share": float(total[top]) / measured if top >= 0 and measured > 0 else math.nan,
            }
        )
    frame = pl.DataFrame(rows, schema=tables.METHODS_SIDE_BY_SIDE.schema)
    return frame.with_columns(pl.col(pl.Float64).fill_nan(None))


def intervals(work: Workload, used: np.ndarray) -> pl.DataFrame:
    """The ``intervals`` table."""
    reasons = [
        reason or ("" if finite else "no CPU sample") for reason, finite in zip(work.reasons, np.isfinite(work.y), strict=True)
    ]  # fmt: skip
    with np.errstate(invalid="ignore"):
        x = work.x.sum(axis=1)
    frame = tables.INTERVALS.frame(
        {
            "row": np.arange(1, len(work.y) + 1),
            "start_ms": work.start_ms,
            "end_ms": work.end_ms,
            "seconds": work.seconds,
            "used": used,
            "reason": reasons,
            "x": x,
            "y": work.y,
        }
    )
    known = pl.col("end_ms") >= 0
    return frame.with_columns(
        pl.when(pl.col("start_ms") >= 0).then(pl.col("start_ms")).alias("start_ms"),
        pl.when(known).then(pl.col("end_ms")).alias("end_ms"),
        pl.col(pl.Float64).fill_nan(None),
    )


def comparison(work: Workload, now: profile.Side, before: profile.Side) -> pl.DataFrame:
    """The ``comparison`` table: classes that were there in either window, those whose time changed most first."""
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(before.x > 0, now.x / before.x, np.nan)
    status = np.where((before.x > 0) & (now.x > 0), "both", np.where(now.x > 0, "new", "gone"))
    frame = tables.COMPARISON.frame(
        {
            "class": [info.name for info in work.classes],
            "x_before": before.x,
            "x_now": now.x,
            "x_factor": factor,
            "calls_before": before.calls,
            "calls_now": now.calls,
            "latency_before_us": before.latency,
            "latency_now_us": now.latency,
            "y_before": before.y,
            "y_now": now.y,
            "status": status.tolist(),
        }
    )
    frame = frame.with_columns(pl.col(pl.Float64).fill_nan(None)).filter(
        (pl.col("x_before") > 0) | (pl.col("x_now") > 0)
    )
    change = (pl.col("x_now") - pl.col("x_before")).abs()
    return frame.sort(change, pl.col("class"), descending=[True, False], maintain_order=True)


def what_if(
    frame: pl.DataFrame, given: QueryProfileParameters, measured: float, seconds: float, cores: float
) -> pl.DataFrame:
    """The ``what_if`` table for the class (by name or query id) in ``frame``, the ``classes`` table; empty if there is none
    or nothing is attributed to it."""
    rows = frame.filter((pl.col("class") == given.what_if) | (pl.col("queryid") == given.what_if))
    if not rows.height or rows["y_total"][0] is None:
        return tables.WHAT_IF.empty()
    row = rows.row(0, named=True)
    low, high = (math.nan if row[name] is None else row[name] for name in ("y_low", "y_high"))
    found = whatif.saving(
        row["y_total"],
        low,
        high,
        faster=given.faster,
        drop=given.drop,
        used_us=measured,
        seconds=seconds,
        cores=cores,
    )
    return tables.WHAT_IF.frame(
        {
            "class": [row["class"]],
            "faster": [None if given.drop else given.faster],
            "saved": [found.saved],
            "saved_low": [found.low],
            "saved_high": [found.high],
            "utilisation": [found.before],
            "utilisation_after": [found.after],
            "latency_factor": [found.latency_factor],
        }
    ).with_columns(pl.col(pl.Float64).fill_nan(None))


def sources_found(gathered: Gathered, chosen: Workload) -> pl.DataFrame:
    """The ``sources`` table."""
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
        for w in gathered.workloads
    ]
    return pl.DataFrame(rows, schema=tables.SOURCES.schema)


def rest(measured: float, attributed: float, background: float) -> float:
    """What is left of the measured; rounding is nothing."""
    left = measured - attributed - background
    return 0.0 if abs(left) <= 1e-12 * abs(measured) else left


def _shares(frame: pl.DataFrame, whole_x: float, measured: float) -> pl.DataFrame:
    """Columns that follow from the sums of each row. The methods disagree on a row by what its sums differ: who of a
    group's classes is to blame does not matter to the group."""
    differ = (pl.col("y_default") - pl.col("y_wlr")).abs() / measured
    return frame.with_columns(
        (differ if measured > 0 else pl.lit(None, dtype=pl.Float64)).alias("disagreement"),
        (pl.col("x_total") / whole_x if whole_x > 0 else pl.lit(None, dtype=pl.Float64)).alias("x_share"),
        (pl.col("y_total") / measured if measured > 0 else pl.lit(None, dtype=pl.Float64)).alias("y_share"),
        pl.when(pl.col("calls") > 0).then(pl.col("x_total") / pl.col("calls")).alias("latency_us"),
    )


def _bounded(frame: pl.DataFrame, measured: float) -> pl.DataFrame:
    """Sums of upper ends of intervals are no more than what was measured (or attributed, if that is more)."""
    if not math.isfinite(measured):
        return frame
    most = pl.max_horizontal("y_total", pl.lit(measured))
    return frame.with_columns(pl.when(pl.col("y_high") > most).then(most).otherwise(pl.col("y_high")).alias("y_high"))


def _grouped(frame: pl.DataFrame, names: list[str], by: str) -> pl.DataFrame:
    """Rows of one group as one: sums; intervals add as if classes erred together (never too narrow)."""
    frame = frame.with_columns(pl.col(pl.Float64).fill_nan(None))
    summed = (
        "y_total", "y_low", "y_high", "x_total", "calls", "rows", "errors", "io_us", "lock_us", "cpu_measured_us",
        *(f"y_{name}" for name in tables.METHODS),
    )  # fmt: skip
    out = (
        frame.with_columns(pl.Series("group", names, dtype=pl.String))
        .group_by("group", maintain_order=True)
        .agg(
            *(
                pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).first().alias(name)
                for name in summed
            ),
            pl.col("members").sum(),
        )
        .rename({"group": "class"})
    )
    if by in ("verb", "user", "database"):
        out = out.with_columns(pl.col("class").alias(by))
    return tables.CLASSES.frame(out)
