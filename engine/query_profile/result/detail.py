"""What the screen shows of a result: tables in readable units, classes by their statements, sparklines, one class in full."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl

from engine.core.tables import Column, Kind, Table
from engine.formats import sql_text
from engine.query_profile.insight.prediction import Exact
from engine.query_profile.insight.profile import Profile, Saving, saving
from engine.query_profile.parameters import QueryProfileParameters
from engine.query_profile.result import result_tables
from engine.query_profile.tables import METHODS
from engine.query_profile.wlr.regression import plausible
from engine.query_profile.workloads.workload import ClassInfo

SPARK_POINTS = 40  # most points of a sparkline

LISTING = Table(
    "listing",
    "Query classes by rank.",
    (
        Column("name", pl.String, "The statement on one line; the class' name if its text is unknown.", "", "text",
               "class", width=30, priority=0, grow=80),
        Column("cpu_share", pl.Float64, "Share of everything measured, with its interval: full up to the lower end, "
               "shaded up to the upper one.", "%", "percent", "CPU share %", width=20, priority=0, grow=44),
        Column("cpu_share_low", pl.Float64, "Lower end of the interval of its share.", "%", "percent", hidden=True),
        Column("cpu_share_high", pl.Float64, "Upper end of the interval of its share.", "%", "percent", hidden=True),
        Column("cpu_s", pl.Float64, "CPU (or the chosen resource) of the class.", "s", "number", "CPU s", width=8, priority=0),
        Column("active_cpus", pl.Float64, "CPUs that it keeps busy on average.", "CPUs", "number", "CPUs", width=6, priority=1),
        Column("low_s", pl.Float64, "Interval of its CPU.", "s", "number", "CPU s from-to", width=16, priority=2),
        Column("high_s", pl.Float64, "Upper end of the interval of its CPU.", "s", "number", hidden=True),
        Column("trend", pl.List(pl.Float64), "Its CPU (or its time, without CPU) over the window.", "", "spark",
               width=10, priority=1, grow=24),
        Column("time_s", pl.Float64, "Elapsed time inside the server.", "s", "number", "time s", width=8, priority=1),
        Column("time_share", pl.Float64, "Its share of all elapsed time.", "%", "percent", "time %", width=7, priority=2),
        Column("calls", pl.Float64, "Executions.", "", "count", width=8, priority=2),
        Column("latency_ms", pl.Float64, "Elapsed time per call in the window.", "ms", "ms", "latency", width=8, priority=3),
        Column("disagreement", pl.Float64, "Difference of WLR and the default as a share of all CPU.", "%", "percent",
               "disagree", width=9, priority=3),
        Column("rows", pl.Float64, "Rows sent or touched.", "", "count", width=8, priority=5),
        Column("io_s", pl.Float64, "Time in block reads and writes.", "s", "s", "IO", width=8, priority=6),
        Column("errors", pl.Float64, "Failed executions.", "", "count", width=7, priority=7),
        Column("flag", pl.String, "No spread: all times of the class are equal.", width=10, priority=7),
        Column("cost_per_time", pl.Float64, "The model's CPU per elapsed time.", "", "number", "model: CPU/time", hidden=True),
        Column("cost_per_call_ms", pl.Float64, "The model's CPU per call beside it.", "ms", "ms", "model: CPU/call",
               hidden=True),
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


METHODS_LISTING = Table(
    "methods_listing",
    "The methods side by side, in readable units.",
    (
        Column("method", pl.String, "Method; Enter chooses it.", priority=0, width=9),
        Column("mape", pl.Float64, "Mean error on the intervals it was fitted on.", "%", "percent", "error", width=8,
               priority=0),
        Column("attributed_s", pl.Float64, "Given to classes.", "s", "s", "attributed", width=11, priority=0),
        Column("background_s", pl.Float64, "Used at all times, given to no class.", "s", "s", "background", width=11),
        Column("unattributed_s", pl.Float64, "Measured less both.", "s", "s", "unattributed", width=13),
        Column("moved", pl.Float64, "Share attributed to other classes than by default.", "%", "percent", "moved", width=8),
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
        Column("y_change_ms", pl.Float64, "Change of its CPU per second.", "ms", "number", "CPU ms/s change", width=15,
               priority=0),
        Column("y_change_low_ms", pl.Float64, "Interval of the change.", "ms", "number", "from-to", width=16, priority=0),
        Column("y_change_high_ms", pl.Float64, "Upper end of the interval of the change.", "ms", "number", hidden=True),
        Column("y_change_sure", pl.Boolean, "The interval of the change lies on one side of 0.", kind="flag", hidden=True),
        Column("status", pl.String, "new, gone or both.", priority=3, width=6),
        Column("x_before_ms", pl.Float64, "Time per second before.", "ms", "ms", "time before", width=11, priority=2),
        Column("x_now_ms", pl.Float64, "Time per second now.", "ms", "ms", "time now", width=9, priority=2),
        Column("x_factor", pl.Float64, "Now / before.", "", "ratio", "time factor", width=11, priority=2),
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
        Column("seconds", pl.Float64, "Length of the interval.", "s", "s", "length", width=8, priority=2),
        Column("window", pl.String, "now or before, if windows are chosen.", width=7, priority=0),
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
    """Return the label of each class by name: its statement, with user, database or id added if not unique."""
    texts = [sql_text.label(info.query) for info in infos]
    counts = Counter(texts)

    def unique(name: str, text: str) -> str:
        _, parenthesis, inside = name.partition(" (")
        own = inside.rstrip(")") if parenthesis else name[-6:]
        return f"[{own}] {text}" if text and counts[text] > 1 else text or name

    return {info.name: unique(info.name, text) for info, text in zip(infos, texts, strict=True)}


def labelled(frame: pl.DataFrame, names: Mapping[str, str], column: str = "class") -> pl.Series:
    """Return the labels of the classes in ``column``; groups and Others keep their name."""
    return pl.Series("name", [names.get(name, name) for name in frame[column].to_list()], dtype=pl.String)


US, MS, PERCENT = 1e-6, 1e-3, 100.0
"""Factors from microseconds to seconds and to milliseconds, and from shares to percent."""


def _scaled(names: Sequence[str], factor: float, unit: str) -> list[pl.Expr]:
    return [(pl.col(name) * factor).alias(f"{name.removesuffix('_us')}_{unit}") for name in names]


def tables(given: Mapping[str, pl.DataFrame], names: Mapping[str, str]) -> dict[str, tuple[Table, pl.DataFrame]]:
    """Return the other result tables as the screen lists them, by name; absent tables are empty."""
    specs = {"methods": METHODS_LISTING, "comparison": COMPARED, "intervals": INTERVALS}
    listed = {name: spec.empty() for name, spec in specs.items()}
    if "methods" in given:
        methods = given["methods"]
        listed["methods"] = methods.select(
            "method",
            pl.col("mape") * PERCENT,
            *_scaled(("attributed", "background", "unattributed"), US, "s"),
            (pl.col("moved_share") * PERCENT).alias("moved"),
            pl.col("top_share") * PERCENT,
            labelled(methods, names, "top_class").alias("top_class"),
        )
    if "comparison" in given:
        comparison = given["comparison"]
        listed["comparison"] = comparison.select(
            "class",
            labelled(comparison, names),
            "status",
            *_scaled(("x_before", "x_now", "y_before", "y_now", "y_change", "y_change_low", "y_change_high"), MS, "ms"),
            ((pl.col("y_change_low") > 0) | (pl.col("y_change_high") < 0)).alias("y_change_sure"),
            "x_factor",
            "calls_before",
            "calls_now",
            *_scaled(("latency_before_us", "latency_now_us"), MS, "ms"),
        )
    if "intervals" in given:
        listed["intervals"] = given["intervals"].select(
            "row", "end_ms", "seconds", "window", "used", *_scaled(("x", "y"), US, "s"), "reason",
        )  # fmt: skip
    return {name: (specs[name], specs[name].frame(frame)) for name, frame in listed.items()}


def rows(classes: pl.DataFrame, sparks: Mapping[str, list[float]], names: Mapping[str, str]) -> pl.DataFrame:
    """Return the ``classes`` table as the screen lists it; ``sparks`` and ``names`` (``labels``) by class name."""
    low, high = pl.col("y_low") * US, pl.col("y_high") * US
    frame = classes.select(
        "class",
        labelled(classes, names),
        (pl.col("y_share") * PERCENT).alias("cpu_share"),
        # null for classes without CPU
        *(
            pl.when(pl.col("y_total") > 0)
            .then(pl.col(f"y_{end}") / pl.col("y_total") * pl.col("y_share") * PERCENT)
            .alias(f"cpu_share_{end}")
            for end in ("low", "high")
        ),
        (pl.col("y_total") * US).alias("cpu_s"),
        "active_cpus",
        (pl.col("x_total") * US).alias("time_s"),
        (pl.col("x_share") * PERCENT).alias("time_share"),
        (pl.col("latency_us") * MS).alias("latency_ms"),
        (pl.col("disagreement") * PERCENT).alias("disagreement"),
        low.alias("low_s"),
        high.alias("high_s"),
        (pl.col("io_us") * US).alias("io_s"),
        (pl.col("cost_per_call") * MS).alias("cost_per_call_ms"),
        (pl.col("lock_us") * US).alias("lock_s"),
        "calls", "rows", "errors", "flag", "cost_per_time", "verb", "user", "database", "queryid", "query",
    )  # fmt: skip
    trends = [sparks.get(name, []) for name in frame["class"].to_list()]
    frame = LISTING.frame(frame.with_columns(pl.Series("trend", trends, dtype=pl.List(pl.Float64))))
    # drop columns that this source does not fill
    bare = [
        column.name
        for column in LISTING.columns
        if column.name not in ("class", "name", "cpu_share", "cpu_s", "time_s")
        and (
            frame[column.name].null_count() == frame.height
            or (column.dtype == pl.String and not any(frame[column.name]))
        )
    ]
    return frame.drop(bare)


def trends(profile: Profile, parameters: QueryProfileParameters, listed: list[str]) -> dict[str, list[float]]:
    """Return the sparklines of the rows ``listed``: classes, groups and Others."""
    if profile.fits.large:
        return {}
    work = profile.work
    group, names = result_tables.group(work, parameters.group)
    keep = result_tables.matching(work, parameters.filter)
    others = next((name for name in listed if name.startswith(result_tables.OTHERS) and name not in names), "")
    separate = set(listed)
    row = np.array([i if name in separate or not others else len(names) for i, name in enumerate(names)], np.int64)
    points = _sparks(profile.by_class if profile.by_class.any() else plausible(work.x), SPARK_POINTS)
    sums = np.zeros((len(names) + 1, points.shape[1]))
    np.add.at(sums, row[group[keep]], points[keep])
    return {name: line.tolist() for name, line in zip([*names, others], sums, strict=True)}


def _sparks(table: np.ndarray, points: int) -> np.ndarray:
    """Return the sums (J, points) of a table (T, J) over equal stretches of the intervals."""
    rows = len(table)
    if not rows:
        return np.zeros((table.shape[1], 0))
    return np.add.reduceat(table, np.linspace(0, rows, min(points, rows) + 1).astype(int)[:-1], axis=0).T


class Drill(msgspec.Struct, frozen=True):
    """One class in full. Series are over the intervals of the window: ``at`` their ends (epoch ms, or numbers from 1),
    ``time_ms`` and ``cpu_ms`` of the class (CPU by the chosen method). ``scatter_x``, ``scatter_z``: WLR's points (ms),
    ``slope`` and ``intercept_ms`` its line. ``facts``: label, value, kind of what the ranking does not show;
    ``by_method``: CPU in seconds; ``peak_s``: that of the class with most."""

    label: str
    query: str
    facts: tuple[tuple[str, Any, Kind], ...]
    at: list[float]
    timed: bool
    time_ms: list[float]
    cpu_ms: list[float]
    scatter_x: list[float]
    scatter_z: list[float]
    slope: float
    intercept_ms: float
    by_method: tuple[tuple[str, float], ...]
    peak_s: float


class Fit(msgspec.Struct, frozen=True):
    """Actual against predicted in seconds, used intervals only, and residuals in percent of actual."""

    at: list[float]
    timed: bool
    actual_s: list[float]
    predicted_s: list[float]
    residual: list[float]
    edges: list[float]
    counts: list[float]


class Detail(msgspec.Struct, frozen=True, eq=False):
    """The profile behind a result.

    ``exact``: results of VividCortex' program for the same rows, computed on demand; ``listing``: classes as the screen lists
    them (``listing.LISTING``); ``names``: labels of the classes on screen (``listing.labels``); ``token``: equal for
    results of the same inputs and parameters.
    """

    profile: Profile
    exact: Exact
    listing: pl.DataFrame
    names: Mapping[str, str]
    token: object

    def _axis(self) -> tuple[np.ndarray, bool]:
        """Return the ends of the intervals (T,) as epoch ms and True, or their numbers and False if any end is unknown."""
        end_ms = self.profile.work.end_ms
        timed = bool(len(end_ms)) and bool((end_ms >= 0).all())
        return (end_ms.astype(float) if timed else np.arange(1.0, len(end_ms) + 1)), timed

    def drill(self, classes: pl.DataFrame, name: str) -> Drill | None:
        """Return the details of the class ``name`` of table ``classes``; None if it is gone or a group."""
        work = self.profile.work
        j = next((j for j, info in enumerate(work.classes) if info.name == name), None)
        row = classes.filter(pl.col("class") == name)
        if j is None or not row.height:
            return None
        values = row.with_columns(pl.col("cpu_measured_us") * US, pl.col("intercept") * MS).row(0, named=True)
        cpu = values["y_total"]
        at, timed = self._axis()
        x = plausible(work.x[:, j])
        with np.errstate(all="ignore"):
            shares = np.nan_to_num(work.y / work.x.sum(axis=1), posinf=0.0, neginf=0.0) * x
        point = self.profile.used & (x > 0)
        facts: list[tuple[str, Any, Kind]] = [
            ("CPU by time", cpu / values["x_total"] if values["x_total"] and cpu is not None else None, "number"),
            ("measured CPU", values["cpu_measured_us"], "s"),
            ("WLR intervals", values["n"], "count"),
            ("WLR slope", values["slope"], "number"),
            ("WLR intercept", values["intercept"], "ms"),
            ("WLR R squared", values["r2"], "number"),
        ]
        methods = tuple(
            (method, float(values[f"y_{method}"]) * US) for method in METHODS if values[f"y_{method}"] is not None
        )
        return Drill(
            label=self.names.get(name, name),
            query=sql_text.readable(work.classes[j].query),
            facts=tuple(fact for fact in facts if fact[1] not in (None, "")),
            at=at.tolist(),
            timed=timed,
            time_ms=(x * MS).tolist(),
            cpu_ms=(self.profile.by_class[:, j] * MS).tolist(),
            scatter_x=(x[point] * MS).tolist(),
            scatter_z=(shares[point] * MS).tolist(),
            slope=float(values["slope"]) if values["slope"] is not None else math.nan,
            intercept_ms=float(values["intercept"]) if values["intercept"] is not None else math.nan,
            by_method=methods,
            peak_s=self.listing.select(pl.col("cpu_s").max().fill_null(0.0)).item(),
        )

    def fit(self) -> Fit:
        """Return actual, predicted and residuals of the chosen method."""
        at, timed = self._axis()
        use = self.profile.used & np.isfinite(self.profile.fitted)
        actual, predicted = self.profile.work.y[use], self.profile.fitted[use]
        with np.errstate(all="ignore"):
            residual = np.where(actual > 0, (predicted - actual) / actual * 100, np.nan)
        finite = residual[np.isfinite(residual)]
        counts, edges = np.zeros(1), np.array([0.0, 1.0])
        if len(finite):
            reach = max(float(np.quantile(np.abs(finite), 0.99)), 1e-6)
            counts, edges = np.histogram(np.clip(finite, -reach, reach), bins=31, range=(-reach, reach))
        return Fit(
            at=at[use].tolist(),
            timed=timed,
            actual_s=(actual * 1e-6).tolist(),
            predicted_s=(predicted * 1e-6).tolist(),
            residual=residual.tolist(),
            edges=edges.tolist(),
            counts=counts.astype(float).tolist(),
        )

    def saving(self, classes: pl.DataFrame, name: str, faster: float, drop: bool) -> Saving | None:
        """Compute the saving of a faster or dropped class; None if nothing is attributed to it."""
        row = classes.filter(pl.col("class") == name)
        return saving(row.row(0, named=True), self.profile, faster, drop) if row.height else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Detail) and self.token == other.token
