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
    """One number of the tab's header line: ``label``, ``value`` as text with its unit, and in ``basis`` its window, sample
    count and uncertainty in words. ``short``: label and value for narrow screens, of a number that is shown on any."""

    label: str
    value: str
    basis: str = ""
    level: Level = ""
    short: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of ``check``: level, subject, and a plain sentence with the numbers.

    ``row``: where it stands, as the name of a result table and the key of its row. ``rest``: number of further findings
    that are not listed, for which this one stands.
    """

    level: Level
    subject: str
    text: str
    row: tuple[str, tuple[Any, ...]] | None = None
    rest: int = 0


TREND_LENGTH = 120
"""Most numbers in a trend."""


@dataclass(frozen=True, slots=True)
class Trend:
    """How the number ``label`` of a view developed, oldest first (None: not known).

    A single value is that of now, where the inputs tell of no earlier one.
    """

    label: str
    values: tuple[float | None, ...]

    @classmethod
    def of(cls, label: str, values: pl.Series) -> Trend | None:
        """Make a trend of the last ``TREND_LENGTH`` numbers of ``values``; None without any number."""
        numbers = values.cast(pl.Float64).tail(TREND_LENGTH).fill_nan(None)
        return cls(label, tuple(numbers)) if numbers.drop_nulls().len() else None


class TooLarge(Exception):
    """Raised for a table that has more rows than are held in memory; the message says where they are."""


MadeLater = Callable[[], tuple[pl.DataFrame, Sequence[Problem]]]
"""Reads or makes a table, and says what is wrong with its files. Raises TooLarge."""


@dataclass(frozen=True)
class Result:
    """What a view computes from its inputs and parameters. Equal inputs and parameters give an equal result.

    ``summary`` holds JSON scalars under snake_case names; ``tables`` one frame per declared result table that applies
    (a table that does not apply to these parameters is absent, an empty one is present); ``notes`` the modes and
    assumptions in force, as sentences for the tab; ``detail`` a frozen value that the view's own screen draws beyond the
    tables. ``newest_ms``: modification time of the newest input. ``focus``: where the parameters choose
    one subject, table name to (column, value) of its rows; texts for humans leave the other rows out, data do not.
    ``outcome``: what the what-if of the parameters leads to, None without one. ``trend``: how the view's chief number
    developed. ``latest``: what came last, where inputs come one by one (``run 132``): events name it. ``later``: how to get
    the tables, by name, that are read or made only when they are asked for (``table``), with the problems of their files;
    equal results have equal ones.
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
        """Return the names of all tables that there are."""
        return (*self.tables, *self.later)

    def table(self, name: str) -> pl.DataFrame:
        """Return a table, which may be read or made now. Raises KeyError, TooLarge."""
        return self.tables[name] if name in self.tables else self.later[name]()[0]

    def with_tables(self, names: Iterable[str]) -> Result:
        """Return this result with tables ``names`` read or made now, and what is wrong with their files among its problems.
        Raises KeyError, TooLarge."""
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
        """Return table ``table`` (its ``rows``, if they are at hand) without those that are not in focus. Raises KeyError,
        TooLarge."""
        frame = self.table(table) if rows is None else rows
        if table not in self.focus:
            return frame
        column, value = self.focus[table]
        return frame.filter(pl.col(column) == value)

    def same_as(self, other: Result | None) -> bool:
        """Whether drawing ``other`` after this one would change nothing."""
        if other is None or (self.view, self.at_ms) != (other.view, other.at_ms):
            return False
        plain = ("newest_ms", "summary", "headline", "notes", "problems", "findings", "outcome", "trend")
        return (
            all(getattr(self, name) == getattr(other, name) for name in plain)
            and self.tables.keys() == other.tables.keys()
            and all(frame.equals(other.tables[name]) for name, frame in self.tables.items())
            and self.detail == other.detail
        )
