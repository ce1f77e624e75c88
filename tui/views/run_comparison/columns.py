"""Choose the columns of the tables on screen: order, widths, and which go first in a narrow terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.views.run_comparison.drawing import named

if TYPE_CHECKING:
    import polars as pl

    from engine.core.tables import Table

Shape = Mapping[str, tuple[int, int, int]]
"""Width, priority and growth of columns on screen."""

METRICS = (
    "name", "bucket", "test", "verdict", "means", "ratio", "samples", "interval", "matched", "q_value", "p_value",
    "similarity", "runs_needed", "disagree", "n_left", "n_right", "mean_left", "mean_right", "median_left", "median_right",
    "unit", "upstream_matched", "changed", "evidence", "kind", "effect",
)  # fmt: skip
"""Columns of the metrics table on screen, in order; others can be switched on."""
SHAPE: Shape = {
    "name": (18, 0, 40), "bucket": (6, 0, 9), "test": (11, 0, 22), "samples": (6, 2, 20), "ratio": (10, 0, 0),
    "interval": (13, 3, 0), "verdict": (12, 0, 0),
    "means": (14, 1, 12), "matched": (5, 4, 0), "effect": (6, 3, 0), "q_value": (8, 3, 0),
    "p_value": (8, 4, 0), "similarity": (6, 4, 0), "runs_needed": (6, 4, 0), "disagree": (6, 4, 0), "n_left": (6, 5, 0),
    "n_right": (6, 5, 0), "mean_left": (9, 4, 0), "mean_right": (9, 4, 0), "median_left": (11, 5, 0),
    "median_right": (12, 5, 0), "unit": (5, 4, 0), "evidence": (8, 6, 0),
    "changed": (7, 6, 0), "upstream_matched": (8, 5, 0), "kind": (12, 6, 0),
}  # fmt: skip
"""Width, priority and growth of columns on screen."""
MISSING = ("name", "bucket", "test", "side", "n", "unit", "kind")
CHANGES = ("name", "bucket", "test", "change", "along", "run", "inside", "mean_before", "mean_after", "unit", "p_value", "job",
           "time_ms", "index")  # fmt: skip
CHANGES_SHAPE: Shape = {
    "name": (19, 0, 40), "bucket": (6, 0, 9), "test": (9, 0, 22), "change": (8, 0, 0), "along": (18, 0, 40), "run": (19, 1, 0),
    "inside": (7, 3, 0), "mean_before": (9, 2, 0), "mean_after": (9, 2, 0), "unit": (5, 2, 0), "p_value": (8, 3, 0),
    "job": (18, 4, 30), "time_ms": (14, 4, 0), "index": (5, 5, 0),
}  # fmt: skip
RUNS = ("job", "run", "side", "result", "time_ms", "files", "problems", "influence", "badness", "bad", "outliers")
RUNS_SHAPE: Shape = {
    "job": (15, 0, 40), "run": (19, 0, 0), "side": (10, 0, 0), "result": (10, 0, 0), "time_ms": (14, 1, 0),
    "problems": (8, 2, 0), "influence": (9, 2, 0), "badness": (7, 2, 0), "bad": (3, 3, 0),
    "files": (5, 1, 0), "outliers": (8, 5, 0),
}  # fmt: skip
GROUPS = ("group", "metrics", "different", "worse", "equivalent", "undecided", "missing", "share", "ratio", "by")
GROUPS_SHAPE: Shape = {
    "group": (16, 0, 40), "metrics": (7, 1, 0), "different": (9, 0, 0), "worse": (5, 0, 0), "equivalent": (10, 1, 0),
    "undecided": (9, 1, 0), "missing": (7, 2, 0), "share": (7, 1, 0), "ratio": (6, 1, 0), "by": (8, 4, 0),
}  # fmt: skip
SECTIONS: Mapping[str, tuple[Sequence[str], Shape]] = {
    "metrics": (METRICS, SHAPE), "missing": (MISSING, SHAPE), "change_points": (CHANGES, CHANGES_SHAPE),
    "runs": (RUNS, RUNS_SHAPE), "groups": (GROUPS, GROUPS_SHAPE),
}  # fmt: skip
"""Columns and shape of each table on screen."""


def screen_table(declared: Table, mode: str, names: tuple[str, str]) -> Table:
    """Return a declared table as the screen shows it: with a name in one column and samples in the row. Titles name the two
    sides, and which is divided by which: that depends on the ``mode``.

    Columns that the section does not name can be switched on.
    """
    import polars as pl

    from engine.core.tables import Column

    extra, middle = [], "median" if mode == "statistical" else "mean"
    if any(column.name == "test" for column in declared.columns):
        extra.append(Column("name", pl.String, "verb, resource, scope and further labels", priority=0))
    if declared.name == "metrics":
        title = f"{middle}s: {' to '.join(names)}"
        title = title if len(title) <= SECTIONS["metrics"][1]["means"][0] else f"{middle}s"
        meaning = f"{middle} of {names[0]}, then of {names[1]}, with the unit"
        extra.append(Column("means", pl.String, meaning, title=title, kind="number"))
        extra.append(
            Column("samples", pl.String, f"values of both sides: {names[0]} above, {names[1]} below", title="values")
        )
        extra.append(Column("interval", pl.String, "interval of the ratio"))
    order, shape = SECTIONS[declared.name]
    by_name = {column.name: column for column in (*declared.columns, *extra)}
    columns = []
    for name in (*order, *(other for other in by_name if other not in order)):
        column = by_name[name]
        width, priority, grow = shape.get(name, (column.width, column.priority, column.grow))
        hidden = column.hidden or name not in order
        if name == "ratio" and declared.name == "metrics":
            turn = -1 if mode == "statistical" else 1
            over, sides = ("/".join(each[::turn]) for each in (names, ("left", "right")))
            how = "median of all pairwise ratios (Hodges-Lehmann)" if turn < 0 else "ratio of the means"
            column = replace(column, title=over if len(over) <= width else sides, meaning=f"{over}: {how}")
        if name in ("mean_before", "mean_after"):
            column = replace(column, title=name.removeprefix("mean_"))
        columns.append(replace(column, width=width, priority=priority, grow=grow, hidden=hidden))
    return replace(declared, columns=tuple(columns))


def screen_frame(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a table with the columns that only the screen has; cells draw samples and intervals.

    Metrics that became worse come first, then other differences; within each the strongest evidence or, without enough runs,
    the largest change.
    """
    import polars as pl

    if "test" not in frame.columns:
        return frame
    if name == "metrics":
        different, effect = pl.col("verdict") == "different", pl.col("effect")
        place = pl.when(~different | pl.col("muted")).then(2).when(effect == "worse").then(0).otherwise(1)
        change = pl.col("ratio").log().abs()
        by = (place, pl.coalesce("evidence", change), change)
        frame = frame.sort(by, descending=[False, True, True], nulls_last=True, maintain_order=True)
        frame = frame.with_columns(pl.lit(" ").alias(name) for name in ("means", "samples", "interval"))
    return named(frame)
