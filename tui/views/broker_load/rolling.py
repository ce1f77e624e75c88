"""The rolling restart as a matrix: a row per broker that is down, a column per broker that is up meanwhile."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tui.views.broker_load.cells import meanwhile

if TYPE_CHECKING:
    import polars as pl

    from engine.core.tables import Kind, Table
    from tui.widgets.table.window import Renderer

Measure = tuple[str, str, str, "Kind"]
"""Column of the result table, its column of broken thresholds, what it is in words, how it is shown."""


def matrix(frame: pl.DataFrame, measure: Measure) -> tuple[pl.DataFrame, Table, dict[str, Renderer]]:
    """Return result table ``rolling_restart`` as a wide frame, its declaration, and the renderers of its cells."""
    import polars as pl

    name, over, _, kind = measure
    ids = tuple(frame["down"].unique().sort().to_list())
    columns = pl.concat_str(pl.lit("b"), pl.col("broker").cast(pl.String))
    wide = (
        frame.with_columns(columns.alias("_at"))
        .pivot("_at", index="down", on_columns=[f"b{i}" for i in ids], values=[name, *([over] if over else [])])
        .sort("down")
    )
    if over:
        wide = wide.rename({f"{name}_b{i}": f"b{i}" for i in ids})
    return wide.select(list(_spec(ids, measure).schema)), _spec(ids, measure), _cells(ids, over, name, kind)


@lru_cache(maxsize=8)
def _spec(ids: tuple[int, ...], measure: Measure) -> Table:
    """Return the declared columns of the matrix, with hidden ones for the thresholds."""
    import polars as pl

    from engine.core.tables import Column, Table

    name, over, words, kind = measure
    dtype = pl.Int64 if kind == "count" else pl.Float64
    columns = [Column("down", pl.Int32, "Broker that is down.", kind="id", width=6, priority=0, grow=6)]
    columns += [
        Column(f"b{i}", dtype, f"Broker {i} meanwhile: {words}.", kind=kind, title=str(i), width=7) for i in ids
    ]
    if over:
        columns += [Column(f"{over}_b{i}", pl.Boolean, "Over its threshold.", kind="flag", hidden=True) for i in ids]
    return Table(
        f"rolling_restart_{name}", f"Rolling restart: {words}.", tuple(columns), key=("down",), order=("down",)
    )


def _cells(ids: tuple[int, ...], over: str, name: str, kind: Kind) -> dict[str, Any]:
    return {f"b{i}": meanwhile(f"{over}_b{i}" if over else "", kind) for i in ids}
