"""Results: frozen, complete, comparable. The dashboard, ``report`` and ``check`` show the same object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import polars as pl

from engine.core.problems import Problem, fold

Level = Literal["", "ok", "low", "moderate", "severe", "critical"]
LEVELS: tuple[Level, ...] = ("", "ok", "low", "moderate", "severe", "critical")
"""Levels from harmless to worst; ``""`` is no judgement."""


@dataclass(frozen=True, slots=True)
class Headline:
    """One number of the tab's header line: ``label``, ``value`` as text with its unit, and its window, sample count and
    uncertainty in words (``basis``). ``short``: label and value for narrow screens; numbers without it are hidden there."""

    label: str
    value: str
    basis: str = ""
    level: Level = ""
    short: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of ``check``: level, subject, and a plain sentence with the numbers.

    ``row``: name of a result table and the key of the row that it is about. ``rest``: number of further findings that this
    one stands for and that are not listed.
    """

    level: Level
    subject: str
    text: str
    row: tuple[str, tuple[Any, ...]] | None = None
    rest: int = 0


TREND_LENGTH = 120
"""Maximum length of a trend."""


@dataclass(frozen=True, slots=True)
class Trend:
    """History of the number ``label``, oldest first (None: not known). A single value is the current one."""

    label: str
    values: tuple[float | None, ...]

    @classmethod
    def of(cls, label: str, values: pl.Series) -> Trend | None:
        """Make a trend of the last ``TREND_LENGTH`` numbers of ``values``; None without any number."""
        numbers = values.cast(pl.Float64).tail(TREND_LENGTH).fill_nan(None)
        return cls(label, tuple(numbers)) if numbers.drop_nulls().len() else None


class TooLarge(Exception):
    """Raised for a table with too many rows to hold in memory; the message says where they are."""


MadeLater = Callable[[], tuple[pl.DataFrame, Sequence[Problem]]]
"""Reads or makes a table. Returns its rows and the problems of its files. Raises TooLarge."""


@dataclass(frozen=True)
class Result:
    """What a view computes from its inputs and parameters. Equal inputs and parameters give an equal result.

    ``summary`` holds JSON scalars under snake_case names; ``tables`` one frame per declared result table that applies
    (a table that does not apply to these parameters is absent, an empty one is present); ``notes`` the modes and
    assumptions in force, as sentences for the tab; ``detail`` a frozen value that the view's own screen draws beyond the
    tables. ``newest_ms``: modification time of the newest input. ``focus``: where the parameters choose
    one subject, table name to (column, value) of its rows; texts for humans leave the other rows out, data do not.
    ``outcome``: outcome of the active what-if, None without one. ``trend``: history of the view's main number. ``latest``: name
    of the newest input where inputs arrive one by one (``run 132``), for events. ``later``: makers of the tables that are made
    only on demand (``table``), by name.
    """

    view: str
    summary: Mapping[str, Any]
    tables: Mapping[str, pl.DataFrame]
    headline: tuple[Headline, ...] = ()
    findings: Sequence[Finding] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    newest_ms: int | None = None
    at_ms: int | None = None
    detail: Any = field(default=None, compare=False)
    focus: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    outcome: Headline | None = None
    trend: Trend | None = None
    latest: str = ""
    later: Mapping[str, MadeLater] = field(default_factory=dict, compare=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all tables, made or not."""
        return (*self.tables, *self.later)

    def table(self, name: str) -> pl.DataFrame:
        """Return a table, making it if necessary. Raises KeyError, TooLarge."""
        return self.tables[name] if name in self.tables else self.later[name]()[0]

    def with_tables(self, names: Iterable[str]) -> Result:
        """Return this result with tables ``names`` made, and the problems of their files added. Raises KeyError, TooLarge."""
        made = {name: self.later[name]() for name in names if name not in self.tables}
        if not made:
            return self
        return replace(
            self,
            tables={**self.tables, **{name: frame for name, (frame, _) in made.items()}},
            later={name: get for name, get in self.later.items() if name not in made},
            problems=fold([*self.problems, *(problem for _, problems in made.values() for problem in problems)]),
        )

    def focused(self, table: str, rows: pl.DataFrame | None = None) -> pl.DataFrame:
        """Return the rows of ``table`` that are in focus; ``rows`` saves making it. Raises KeyError, TooLarge."""
        frame = self.table(table) if rows is None else rows
        if table not in self.focus:
            return frame
        column, value = self.focus[table]
        return frame.filter(pl.col(column) == value)

    def same_as(self, other: Result | None) -> bool:
        """Return whether ``other`` would be drawn identically."""
        if other is None or (self.view, self.at_ms) != (other.view, other.at_ms):
            return False
        plain = ("newest_ms", "summary", "headline", "notes", "problems", "findings", "outcome", "trend")
        return (
            all(getattr(self, name) == getattr(other, name) for name in plain)
            and self.tables.keys() == other.tables.keys()
            and all(frame.equals(other.tables[name]) for name, frame in self.tables.items())
            and self.detail == other.detail
        )
