"""Data that the screen draws beyond the tables: one class in full, the fit, the outcome of a what-if."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from engine.formats import sql_text
from engine.query_profile.insight.prediction import Exact
from engine.query_profile.insight.profile import Profile, Saving, saving
from engine.query_profile.tables import METHODS
from engine.query_profile.wlr.regression import plausible


@dataclass(frozen=True)
class Drill:
    """One class in full. Series are over the intervals of the window: ``at`` their ends (epoch ms, or numbers from 1),
    ``time_ms`` and ``cpu_ms`` of the class (CPU by the chosen method). ``scatter_x``, ``scatter_z``: WLR's points (ms),
    ``slope`` and ``intercept_ms`` its line. ``facts``: label, value, kind of unit; ``by_method``: CPU in seconds."""

    label: str
    query: str
    facts: tuple[tuple[str, Any, str], ...]
    at: list[float]
    timed: bool
    time_ms: list[float]
    cpu_ms: list[float]
    scatter_x: list[float]
    scatter_z: list[float]
    slope: float
    intercept_ms: float
    by_method: tuple[tuple[str, float], ...]


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


@dataclass(frozen=True, eq=False)
class Detail:
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
        values = row.row(0, named=True)
        at, timed = self._axis()
        x = plausible(work.x[:, j])
        with np.errstate(all="ignore"):
            shares = np.nan_to_num(work.y / work.x.sum(axis=1), posinf=0.0, neginf=0.0) * x
        point = self.profile.used & (x > 0)
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
            (method, float(values[f"y_{method}"]) * us) for method in METHODS if values[f"y_{method}"] is not None
        )
        return Drill(
            label=self.names.get(name, name),
            query=sql_text.readable(work.classes[j].query),
            facts=tuple(fact for fact in facts if fact[1] not in (None, "")),
            at=at.tolist(),
            timed=timed,
            time_ms=(x * ms).tolist(),
            cpu_ms=(self.profile.by_class[:, j] * ms).tolist(),
            scatter_x=(x[point] * ms).tolist(),
            scatter_z=(shares[point] * ms).tolist(),
            slope=float(values["slope"]) if values["slope"] is not None else math.nan,
            intercept_ms=float(values["intercept"]) * ms if values["intercept"] is not None else math.nan,
            by_method=methods,
        )

    def fit(self) -> Fit:
        """Return actual, predicted and residuals of the chosen method."""
        at, timed = self._axis()
        use = self.profile.used & np.isfinite(self.profile.fitted)
        actual, predicted = self.profile.work.y[use], self.profile.fitted[use]
        with np.errstate(all="ignore"):
            residual = np.where(actual > 0, (predicted - actual) / actual * 100, np.nan)
        finite = residual[np.isfinite(residual)]
        if len(finite):
            reach = max(float(np.quantile(np.abs(finite), 0.99)), 1e-6)
            counts, edges = np.histogram(np.clip(finite, -reach, reach), bins=31, range=(-reach, reach))
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
        )

    def saving(self, classes: pl.DataFrame, name: str, faster: float, drop: bool) -> Saving | None:
        """Compute the saving of a faster or dropped class; None if nothing is attributed to it."""
        row = classes.filter(pl.col("class") == name)
        return saving(row.row(0, named=True), self.profile, faster, drop) if row.height else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Detail) and self.token == other.token


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value * by
