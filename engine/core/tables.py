"""Typed tables: what readers deliver and what results show, both described by the same ``Column`` and ``Table``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import polars as pl

if TYPE_CHECKING:
    import numpy as np

Kind = Literal[
    "text", "id", "count", "number", "bytes", "bytes_per_s", "ms", "s", "time_ms", "percent", "ratio", "level",
    "flag", "json", "spark", "mb_s",
]  # fmt: skip
"""How a value is shown: ``ms``/``s`` durations, ``time_ms`` an epoch, ``percent`` 0-100, ``level`` a severity word,
``json`` a JSON text that exports as an object, ``spark`` a list of floats, ``mb_s`` megabyte-seconds."""


class Parts(msgspec.Struct, frozen=True):
    """Rows of one file made in parts to bound memory: ``height`` rows in total, of ``columns``; ``frames`` yields them."""

    height: int
    columns: Sequence[str]
    frames: Callable[[], Iterable[pl.DataFrame]]

    def __reduce__(self) -> tuple[Any, ...]:
        """Make them all: pickled, they are sent to another process."""
        return Parts, (self.height, self.columns, partial(iter, list(self.frames())))


class Gathered(msgspec.Struct, frozen=True):
    """Rows of one file that become columns together with those of others, which takes a tenth of the time: ``height`` rows in
    ``piece``. ``make`` turns such pieces of several files into columns."""

    height: int
    piece: Any
    make: Callable[[Sequence[Any]], Mapping[str, Sequence[Any]]]


if TYPE_CHECKING:
    Rows = Mapping[str, Sequence[Any] | np.ndarray | pl.Series] | pl.DataFrame | Parts | Gathered
else:
    Rows = Any  # NumPy takes as long to import as everything else here


def height_of(rows: Rows) -> int:
    """Return the number of rows."""
    if not isinstance(rows, Mapping):
        return rows.height
    return next((len(column) for column in rows.values()), 0)


def _series(name: str, values: Any, dtype: Any) -> pl.Series:
    if isinstance(values, pl.Series) and values.dtype == dtype:
        return values if values.name == name else values.alias(name)
    return pl.Series(name, values, dtype=dtype, strict=False)


@cache
def _null(dtype: Any) -> pl.Series:
    return pl.Series([None], dtype=dtype)


class Column(msgspec.Struct, frozen=True):
    """One column: stable snake_case ``name`` (columns are addressed by name, never by position), Polars ``dtype``, a sentence
    of ``meaning``, its ``unit``, and hints for front ends.

    ``priority`` 0 is always shown; higher numbers hide first on narrow terminals; ``width`` 0 means a width that suits ``kind``.
    ``hidden`` columns are exported but shown only on request. ``grow``: width up to which a column with a bar takes spare
    cells, before texts do.
    """

    name: str
    dtype: Any
    meaning: str
    unit: str = ""
    kind: Kind = "text"
    title: str = ""
    width: int = 0
    priority: int = 1
    hidden: bool = False
    grow: int = 0

    @property
    def header(self) -> str:
        """Short header text."""
        return self.title or self.name.replace("_", " ")


class Table(msgspec.Struct, frozen=True, dict=True):
    """A declared table: its columns in order, the ``key`` columns that identify a row, and its row ``order`` (column names,
    ``-`` in front for descending; always total, so that equal data print equally).

    ``seldom``: rows of this input table are rarely read again, so only the newest stay in memory.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    title: str = ""
    seldom: bool = False

    @cached_property
    def schema(self) -> pl.Schema:
        """Polars schema of the table. Do not modify."""
        return pl.Schema({column.name: column.dtype for column in self.columns})

    @cached_property
    def _empty(self) -> pl.DataFrame:
        return pl.DataFrame(schema=self.schema)

    def column(self, name: str) -> Column:
        """Return the column called ``name``. Raises KeyError."""
        if name not in self.schema:
            raise KeyError(f"{self.name} has no column {name!r}")
        return next(column for column in self.columns if column.name == name)

    def empty(self) -> pl.DataFrame:
        """Make a frame of the declared schema without rows."""
        return self._empty.clone()

    def frame(self, rows: Rows) -> pl.DataFrame:
        """Convert ``rows`` to a frame of exactly the declared columns and dtypes.

        Missing columns become nulls; unknown ones raise ValueError (a programming error, not bad data).
        """
        if isinstance(rows, pl.DataFrame) and rows.schema == self.schema:
            return rows
        if isinstance(rows, Parts):
            return pl.concat([self.empty(), *(self.frame(part) for part in rows.frames())])
        if isinstance(rows, Gathered):
            return self.frame(rows.make([rows.piece]))
        names = rows.columns if isinstance(rows, pl.DataFrame) else list(rows)
        # As declared: instances of data types, as in the schema, are slower.
        dtypes = {column.name: column.dtype for column in self.columns}
        unknown = set(names) - dtypes.keys()
        if unknown:
            raise ValueError(f"table {self.name} does not declare {sorted(unknown)}")
        if not names:
            return self.empty()  # a select of nothing but literals would give one row of nulls
        # Columns are converted and columns of nulls made one by one: a query costs more than a growing file's rows.
        if isinstance(rows, pl.DataFrame):
            series = {column.name: column.cast(dtypes[column.name]) for column in rows.iter_columns()}
        else:
            series = {n: _series(n, rows[n], dtypes[n]) for n in names}
        height = len(next(iter(series.values())))
        return pl.DataFrame(
            [
                series[n] if n in series else _null(dtype).new_from_index(0, height).alias(n)
                for n, dtype in dtypes.items()
            ]
        )

    def sorted(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Sort ``frame`` in the declared order."""
        if not self.order or frame.height < 2:
            return frame
        names = [name.removeprefix("-") for name in self.order]
        return frame.sort(
            names, descending=[n.startswith("-") for n in self.order], nulls_last=True, maintain_order=True
        )
