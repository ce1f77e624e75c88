"""What the screen shows of a result beyond its tables: rows in units that people read, and one class in full."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from engine.query_profile import fingerprint, profile, whatif
from engine.tables import Column, Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.query_profile.trust import Trust
    from engine.query_profile.wlr import Lines, Quality
    from engine.query_profile.workload import ClassInfo, Workload

LISTING = Table(
    "listing",
    "Query classes by rank.",
    (
        Column("name", pl.String, "The statement on one line; the class' name where its text is not known.", "", "text",
               "class", width=24, priority=0),
        Column("cpu_share", pl.Float64, "Share of everything measured that the method gives it.", "%", "percent",
               "CPU share", width=18, priority=0),
        Column("cpu_s", pl.Float64, "CPU (or the chosen resource) of the class.", "s", "s", "CPU", width=8, priority=0),
        Column("range_s", pl.String, "Interval of its CPU.", "s", "text", "CPU from-to", width=15, priority=2),
        Column("trend", pl.List(pl.Float64), "Its CPU (its time, where there is none) over the window.", "", "spark",
               width=16, priority=1),
        Column("time_s", pl.Float64, "Elapsed time inside the server.", "s", "s", "time", width=8, priority=1),
        Column("time_share", pl.Float64, "Its share of all elapsed time.", "%", "percent", "time %", width=7, priority=2),
        Column("calls", pl.Float64, "Executions.", "", "count", width=8, priority=2),
        Column("latency_ms", pl.Float64, "Elapsed time per call in the window.", "ms", "ms", "latency", width=8, priority=3),
        Column("disagreement", pl.Float64, "Share of all CPU that WLR and the default give it or not.", "%", "percent",
               "disagree", width=9, priority=3),
        Column("rows", pl.Float64, "Rows sent or touched.", "", "count", width=8, priority=5),
        Column("io_s", pl.Float64, "Time in block reads and writes.", "s", "s", "IO", width=8, priority=6),
        Column("errors", pl.Float64, "Failed executions.", "", "count", width=7, priority=7),
        Column("flag", pl.String, "No spread: all times of the class are equal.", width=10, priority=7),
        Column("cost_per_time", pl.Float64, "CPU per elapsed time.", "", "number", "CPU/time", hidden=True),
        Column("cost_per_call_ms", pl.Float64, "CPU per call beside it.", "ms", "ms", "CPU/call", hidden=True),
        Column("lock_s", pl.Float64, "Time waiting for locks.", "s", "s", "locks", hidden=True),
        Column("verb", pl.String, "First word of the statement.", width=8, hidden=True),
        Column("user", pl.String, "User or its id.", width=10, hidden=True),
        Column("database", pl.String, "Database or schema, or its id.", width=10, hidden=True),
        Column("class", pl.String, "Name of the class: column of the table, query id or digest.", title="class id", width=20,
               hidden=True),
        Column("queryid", pl.String, "The server's id of the query.", "", "id", hidden=True),
        Column("query", pl.String, "Normalised query text.", hidden=True),
    ),
    key=("class",),
    title="Query classes",
)  # fmt: skip


METHODS = Table(
    "methods_listing",
    "The methods side by side, in units that people read.",
    (
        Column("method", pl.String, "Method; Enter chooses it.", priority=0, width=9),
        Column("mape", pl.Float64, "Mean error on the intervals it was fitted on.", "%", "percent", "error", width=8,
               priority=0),
        Column("attributed_s", pl.Float64, "Given to classes.", "s", "s", "attributed", width=11, priority=0),
        Column("background_s", pl.Float64, "Used at all times, given to no class.", "s", "s", "background", width=11),
        Column("unattributed_s", pl.Float64, "Measured less both.", "s", "s", "unattributed", width=13),
        Column("moved", pl.Float64, "Share that it puts elsewhere than the default.", "%", "percent", "moved", width=8),
        Column("top_share", pl.Float64, "Share of its top class.", "%", "percent", "top %", width=8, priority=2),
        Column("top_class", pl.String, "Class with most.", priority=2, title="top class"),
    ),
    key=("method",),
    title="Methods",
)  # fmt: skip

COMPARED = Table(
    "comparison_listing",
    "Two windows, per second where times are known.",
    (
        Column("name", pl.String, "The statement on one line, or the class' name.", "", "text", "class", width=22,
               priority=0),
        Column("status", pl.String, "new, gone or both.", priority=3, width=6),
        Column("x_before_ms", pl.Float64, "Time per second before.", "ms", "ms", "time before", width=11, priority=0),
        Column("x_now_ms", pl.Float64, "Time per second now.", "ms", "ms", "time now", width=9, priority=0),
        Column("x_factor", pl.Float64, "Now / before.", "", "ratio", "factor", width=8, priority=1),
        Column("y_before_ms", pl.Float64, "CPU per second before.", "ms", "ms", "CPU before", width=11, priority=1),
        Column("y_now_ms", pl.Float64, "CPU per second now.", "ms", "ms", "CPU now", width=9, priority=1),
        Column("calls_before", pl.Float64, "Calls per second before.", "", "number", "calls before", width=12, priority=3),
        Column("calls_now", pl.Float64, "Calls per second now.", "", "number", "calls now", width=10, priority=3),
        Column("latency_before_ms", pl.Float64, "Time per call before.", "ms", "ms", "latency before", width=14, priority=2),
        Column("latency_now_ms", pl.Float64, "Time per call now.", "ms", "ms", "latency now", width=12, priority=2),
        Column("class", pl.String, "Name of the class.", title="class id", width=20, hidden=True),
    ),
    key=("class",),
    title="Comparison",
)  # fmt: skip

INTERVALS = Table(
    "intervals_listing",
    "Every interval, and whether fits use it.",
    (
        Column("row", pl.Int64, "Interval, from 1.", "", "count", "", width=6, priority=0),
        Column("end_ms", pl.Int64, "End.", "ms", "time_ms", "end", priority=0),
        Column("seconds", pl.Float64, "Length.", "s", "s", "length", width=8, priority=2),
        Column("used", pl.Boolean, "Fits use it.", "", "flag", "used", width=5, priority=0),
        Column("x_s", pl.Float64, "Time of all classes.", "s", "s", "time", width=9, priority=1),
        Column("y_s", pl.Float64, "Measured resource use.", "s", "s", "CPU", width=9, priority=1),
        Column("reason", pl.String, "Why it is left out.", priority=0),
    ),
    key=("row",),
    order=("row",),
    title="Intervals",
)  # fmt: skip


def labels(infos: Sequence[ClassInfo]) -> dict[str, str]:
    """Class name -> what the screen calls the class: its statement, told apart by user, database or id where equal."""
    texts = [fingerprint.label(info.query) for info in infos]
    times = Counter(texts)
    found = {}
    for info, text in zip(infos, texts, strict=True):
        if text and times[text] > 1:
            _, told, inside = info.name.partition(" (")
            text = f"[{inside.rstrip(')') if told else info.name[-6:]}] {text}"
        found[info.name] = text or info.name
    return found


def named(frame: pl.DataFrame, names: Mapping[str, str], column: str = "class") -> pl.Series:
    """Labels of the classes in ``column``; groups and Others keep their name."""
    return pl.Series("name", [names.get(name, name) for name in frame[column].to_list()], dtype=pl.String)


def tables(
    result_tables: Mapping[str, pl.DataFrame], names: Mapping[str, str]
) -> dict[str, tuple[Table, pl.DataFrame]]:
    """The other result tables as the screen lists them, by the name of the result table; absent ones empty."""
    us, ms, percent = 1e-6, 1e-3, 100.0
    found: dict[str, tuple[Table, pl.DataFrame]] = {
        "methods": (METHODS, METHODS.empty()),
        "comparison": (COMPARED, COMPARED.empty()),
        "intervals": (INTERVALS, INTERVALS.empty()),
    }
    if "methods" in result_tables:
        frame = result_tables["methods"].select(
            "method",
            (pl.col("mape") * percent),
            *((pl.col(name) * us).alias(f"{name}_s") for name in ("attributed", "background", "unattributed")),
            (pl.col("moved_share") * percent).alias("moved"),
            (pl.col("top_share") * percent),
            named(result_tables["methods"], names, "top_class").alias("top_class"),
        )
        found["methods"] = (METHODS, METHODS.frame(frame))
    if "comparison" in result_tables:
        frame = result_tables["comparison"].select(
            "class",
            named(result_tables["comparison"], names),
            "status",
            *((pl.col(name) * ms).alias(f"{name}_ms") for name in ("x_before", "x_now", "y_before", "y_now")),
            "x_factor",
            "calls_before",
            "calls_now",
            (pl.col("latency_before_us") * ms).alias("latency_before_ms"),
            (pl.col("latency_now_us") * ms).alias("latency_now_ms"),
        )
        found["comparison"] = (COMPARED, COMPARED.frame(frame))
    if "intervals" in result_tables:
        frame = result_tables["intervals"].select(
            "row",
            "end_ms",
            "seconds",
            "used",
            (pl.col("x") * us).alias("x_s"),
            (pl.col("y") * us).alias("y_s"),
            "reason",
        )
        found["intervals"] = (INTERVALS, INTERVALS.frame(frame))
    return found


def rows(classes: pl.DataFrame, sparks: dict[str, list[float]], names: Mapping[str, str]) -> pl.DataFrame:
    """The ``classes`` table as the screen lists it; ``sparks`` and ``names`` (``labels``) by class name."""
    us, percent = 1e-6, 100.0
    low, high = pl.col("y_low") * us, pl.col("y_high") * us
    frame = classes.select(
        "class",
        named(classes, names),
        (pl.col("y_share") * percent).alias("cpu_share"),
        (pl.col("y_total") * us).alias("cpu_s"),
        (pl.col("x_total") * us).alias("time_s"),
        (pl.col("x_share") * percent).alias("time_share"),
        "calls",
        (pl.col("latency_us") * 1e-3).alias("latency_ms"),
        (pl.col("disagreement") * percent).alias("disagreement"),
        pl.when(low.is_not_null()).then(pl.concat_str(_short(low), pl.lit(" - "), _short(high))).alias("range_s"),
        "rows",
        (pl.col("io_us") * us).alias("io_s"),
        "errors",
        "flag",
        "cost_per_time",
        (pl.col("cost_per_call") * 1e-3).alias("cost_per_call_ms"),
        (pl.col("lock_us") * us).alias("lock_s"),
        "verb",
        "user",
        "database",
        "queryid",
        "query",
    )
    trends = [sparks.get(name, []) for name in frame["class"].to_list()]
    frame = LISTING.frame(frame.with_columns(pl.Series("trend", trends, dtype=pl.List(pl.Float64))))
    # columns that this source does not fill would only take room
    bare = [
        column.name
        for column in LISTING.columns
        if column.name not in ("class", "name", "cpu_share", "cpu_s", "time_s")
        and (
            frame[column.name].null_count() == frame.height
            or (column.dtype == pl.String and not (frame[column.name].fill_null("") != "").any())
        )
    ]
    return frame.drop(bare)


def _short(value: pl.Expr) -> pl.Expr:
    """Seconds with three digits or none."""
    return (
        pl.when(value >= 100)
        .then(value.round(0).cast(pl.Int64, strict=False).cast(pl.String))
        .when(value >= 1)
        .then(value.round(1).cast(pl.String))
        .otherwise(value.round(3).cast(pl.String))
    )


def trends(table: np.ndarray, place: np.ndarray, keep: np.ndarray, names: list[str]) -> dict[str, list[float]]:
    """Sums over the window in a few points of each of ``names``; column j of ``table`` (T, J) belongs to
    ``names[place[j]]``, those that ``keep`` (J,) has not count nowhere."""
    points = profile.sparks(table, 40)
    rows = np.zeros((len(names), points.shape[1]))
    np.add.at(rows, place[keep], points[keep])
    return {name: row.tolist() for name, row in zip(names, rows, strict=True)}


@dataclass(frozen=True)
class Drill:
    """One class in full. Series are over the intervals of the window: ``at`` their ends (epoch ms, or numbers from 1),
    ``time_ms`` and ``cpu_ms`` of the class (CPU by the chosen method). ``scatter_x``, ``scatter_z``: WLR's points (ms),
    ``slope`` and ``intercept_ms`` its line. ``facts``: label, value, unit kind."""

    name: str
    label: str
    query: str
    facts: tuple[tuple[str, Any, str], ...]
    at: list[float]
    timed: bool
    time_ms: list[float]
    cpu_ms: list[float]
    calls: list[float]
    scatter_x: list[float]
    scatter_z: list[float]
    slope: float
    intercept_ms: float
    by_method: tuple[tuple[str, float], ...]
    low_s: float
    high_s: float


@dataclass(frozen=True)
class Fit:
    """Actual against predicted in seconds, used intervals only, and residuals in percent of actual."""

    at: list[float]
    timed: bool
    actual_s: list[float]
    predicted_s: list[float]
    residual: list[float]
    edges: list[float]
    counts: list[float]
    left_out: list[float]


def axis(detail: Detail) -> tuple[np.ndarray, bool]:
    """Ends of the intervals (T,) as epoch ms where known, else their numbers."""
    timed = bool(len(detail.work.end_ms)) and bool((detail.work.end_ms >= 0).all())
    return (detail.work.end_ms.astype(float) if timed else np.arange(1.0, len(detail.work.y) + 1)), timed


def drill(detail: Detail, classes: pl.DataFrame, name: str) -> Drill | None:
    """Everything about the class called ``name``; None if it is gone (or is a group)."""
    found = [j for j, info in enumerate(detail.work.classes) if info.name == name]
    row = classes.filter(pl.col("class") == name)
    if not found or not row.height:
        return None
    j, values = found[0], row.row(0, named=True)
    work = detail.work
    at, timed = axis(detail)
    x = np.maximum(np.nan_to_num(work.x[:, j]), 0)
    with np.errstate(all="ignore"):
        ratio = np.nan_to_num(work.y / work.x.sum(axis=1), posinf=0.0, neginf=0.0)
    point = detail.used & (x > 0)
    calls = work.calls
    us, ms = 1e-6, 1e-3
    facts: list[tuple[str, Any, str]] = [
        ("CPU", _scaled(values["y_total"], us), "s"),
        ("CPU from", _scaled(values["y_low"], us), "s"),
        ("CPU to", _scaled(values["y_high"], us), "s"),
        ("share of all CPU", _scaled(values["y_share"], 100), "percent"),
        ("time", _scaled(values["x_total"], us), "s"),
        ("share of all time", _scaled(values["x_share"], 100), "percent"),
        ("calls", values["calls"], "count"),
        ("latency", _scaled(values["latency_us"], ms), "ms"),
        ("CPU per time", values["cost_per_time"], "number"),
        ("CPU per call", _scaled(values["cost_per_call"], ms), "ms"),
        ("rows", values["rows"], "count"),
        ("IO", _scaled(values["io_us"], us), "s"),
        ("locks", _scaled(values["lock_us"], us), "s"),
        ("errors", values["errors"], "count"),
        ("measured CPU", _scaled(values["cpu_measured_us"], us), "s"),
        ("methods disagree by", _scaled(values["disagreement"], 100), "percent"),
        ("WLR intervals", values["n"], "count"),
        ("WLR slope", values["slope"], "number"),
        ("WLR intercept", _scaled(values["intercept"], ms), "ms"),
        ("WLR R squared", values["r2"], "number"),
        ("user", values["user"], "text"),
        ("database", values["database"], "text"),
        ("query id", values["queryid"], "text"),
        ("flag", values["flag"], "text"),
    ]
    methods = tuple(
        (method, float(values[f"y_{method}"]) * us)
        for method in ("default", "wlr", "ols", "nnls", "ratio")
        if values[f"y_{method}"] is not None
    )
    return Drill(
        name=name,
        label=detail.names.get(name, name),
        query=fingerprint.readable(work.classes[j].query),
        facts=tuple(fact for fact in facts if fact[1] not in (None, "")),
        at=at.tolist(),
        timed=timed,
        time_ms=(x * ms).tolist(),
        cpu_ms=(detail.by_class[:, j] * ms).tolist(),
        calls=calls[:, j].tolist() if calls is not None else [],
        scatter_x=(x[point] * ms).tolist(),
        scatter_z=((ratio * x)[point] * ms).tolist(),
        slope=float(values["slope"]) if values["slope"] is not None else math.nan,
        intercept_ms=float(values["intercept"]) * ms if values["intercept"] is not None else math.nan,
        by_method=methods,
        low_s=float(values["y_low"]) * us if values["y_low"] is not None else math.nan,
        high_s=float(values["y_high"]) * us if values["y_high"] is not None else math.nan,
    )


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value * by


def fit(detail: Detail) -> Fit:
    """Actual, predicted and residuals of the chosen method."""
    at, timed = axis(detail)
    use = detail.used & np.isfinite(detail.fitted)
    actual, predicted = detail.work.y[use], detail.fitted[use]
    with np.errstate(all="ignore"):
        residual = np.where(actual > 0, (predicted - actual) / actual * 100, np.nan)
    fine = residual[np.isfinite(residual)]
    if len(fine):
        reach = max(float(np.quantile(np.abs(fine), 0.99)), 1e-6)
        counts, edges = np.histogram(np.clip(fine, -reach, reach), bins=31, range=(-reach, reach))
    else:
        counts, edges = np.zeros(1), np.array([0.0, 1.0])
    return Fit(
        at=at[use].tolist(),
        timed=timed,
        actual_s=(actual * 1e-6).tolist(),
        predicted_s=(predicted * 1e-6).tolist(),
        residual=residual.tolist(),
        edges=edges.tolist(),
        counts=counts.astype(float).tolist(),
        left_out=at[~detail.used].tolist(),
    )


def saving(detail: Detail, classes: pl.DataFrame, name: str, faster: float, drop: bool) -> whatif.Saving | None:
    """What a faster or dropped class would save; None where nothing is attributed."""
    row = classes.filter(pl.col("class") == name)
    if not row.height or row["y_total"][0] is None:
        return None
    low, high = row["y_low"][0], row["y_high"][0]
    return whatif.saving(
        float(row["y_total"][0]),
        math.nan if low is None else float(low),
        math.nan if high is None else float(high),
        faster=faster,
        drop=drop,
        used_us=detail.measured,
        seconds=detail.seconds,
        cores=detail.work.cores,
    )


@dataclass(frozen=True)
class Detail:
    """What the screen draws beyond the tables: the workload in the window, by class and interval."""

    work: Workload
    used: np.ndarray
    by_class: np.ndarray
    """(T, J) CPU of the chosen method, NaN-free; zeros without y."""
    fitted: np.ndarray
    """(T,) CPU of the chosen method."""
    order: np.ndarray
    """(J,) classes by rank."""
    method: str
    trust: Trust
    exact: Callable[[], tuple[Lines, np.ndarray, np.ndarray, Quality]] | None
    """Upstream's lines, actuals, predictions and final line; made when asked for."""
    series: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray
    total: np.ndarray
    measured: float
    seconds: float
    listing: pl.DataFrame
    """The classes as the screen lists them (``listing.LISTING``)."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What the screen calls each class (``labels``)."""
    token: object = None

    def drill(self, classes: pl.DataFrame, name: str) -> Drill | None:
        """One class in full, None if it is gone; ``classes`` is the result's table."""
        return drill(self, classes, name)

    def fit(self) -> Fit:
        """Actual against predicted and residuals."""
        return fit(self)

    def saving(self, classes: pl.DataFrame, name: str, faster: float, drop: bool) -> whatif.Saving | None:
        """What a faster or dropped class would save."""
        return saving(self, classes, name, faster, drop)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Detail) and self.token == other.token

    __hash__ = None  # type: ignore[assignment]
