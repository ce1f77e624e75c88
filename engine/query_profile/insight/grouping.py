"""Group and filter query classes: sums, shares, latency and disagreement of groups and of the row Others."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from engine.formats.sql_text import fingerprint
from engine.query_profile.tables import CLASSES, METHODS, NAN_TO_NULL
from engine.query_profile.workloads.workload import Workload

OTHERS = "Others"
"""Begin of the name of the row that joins the classes beyond ``top``."""


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
    return _bounded(
        CLASSES.frame(grouped if by == "class" else grouped.with_columns(pl.col("class").alias(by))), measured
    )


def ranges(frame: pl.DataFrame, names: list[str], draws: np.ndarray, level: float) -> pl.DataFrame:
    """Give each row of ``frame`` the range, of coverage ``level``, of the summed ``draws`` (B, J) of the classes whose ``names``
    (J,) are its own: what one class has too much another has too little, so that ends of ranges do not add up."""
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


def _bounded(frame: pl.DataFrame, measured: float) -> pl.DataFrame:
    """Cap sums of upper interval ends at the measured use (or the attributed one, if larger)."""
    if not math.isfinite(measured):
        return frame
    most = pl.max_horizontal("y_total", pl.lit(measured))
    return frame.with_columns(pl.when(pl.col("y_high") > most).then(most).otherwise(pl.col("y_high")).alias("y_high"))
