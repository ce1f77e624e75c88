"""Filters: what an operator types, as a condition on the rows of a frame. No Textual here.

Polars is imported when the first frame is filtered, never at start.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine import units

if TYPE_CHECKING:
    import polars as pl

    from engine.tables import Column, Table

WORDY: frozenset[str] = frozenset({"text", "id", "level", "json"})
"""Kinds in which a plain word of a filter is looked for."""


class FilterError(ValueError):
    """A filter that cannot be taken; the message says why in a sentence."""


_TERM = re.compile(
    r"""\s*(?P<neg>!(?=[^=~]))?(?:(?P<name>[A-Za-z_][\w.%-]*)(?P<op>>=|<=|!=|!~|=|~|>|<)(?P<value>"[^"]*"|\S*)"""
    r"""|(?P<word>"[^"]*"?|\S+))"""
)


@dataclass(frozen=True, slots=True)
class Term:
    """One condition of a filter: a plain ``word``, or ``column op value``; ``negated`` turns it round."""

    word: str = ""
    column: str = ""
    op: str = ""
    value: str = ""
    negated: bool = False


def parse_filter(text: str) -> tuple[Term, ...]:
    """The conditions of a filter, all of which must hold.

    ``etl`` (word in any text column), ``"two words"``, ``cpu>50``, ``size>=10MB``, ``state=RUNNING``, ``name~^etl``
    (regular expression), ``severity>=moderate``, ``!test`` and ``user!=root`` for the opposite.
    """
    terms = []
    for match in _TERM.finditer(text):
        if match["name"]:
            terms.append(Term("", match["name"], match["op"], match["value"].strip('"'), bool(match["neg"])))
        elif match["word"] and match["word"].strip('"'):
            terms.append(Term(match["word"].strip('"'), negated=bool(match["neg"])))
    return tuple(terms)


def _find_column(spec: Table, frame: pl.DataFrame, name: str) -> Column:
    wanted = name.lower().replace("-", "_")
    columns = [column for column in spec.columns if column.name in frame.columns]
    for column in columns:
        if column.name.lower() == wanted:
            return column
    for column in columns:
        if column.header.lower().replace(" ", "_") == wanted:
            return column
    starting = [column for column in columns if column.name.lower().startswith(wanted)]
    if len(starting) == 1:
        return starting[0]
    if starting:
        raise FilterError(f"{name!r} could be {', '.join(column.name for column in starting[:6])}")
    import difflib

    near = difflib.get_close_matches(wanted, [column.name for column in columns], 1)
    hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(c.name for c in columns[:12])}"
    raise FilterError(f"no column {name!r}{hint}")


def _text(column: Column, dtype: pl.DataType) -> pl.Expr:
    import polars as pl

    found = pl.col(column.name)
    return found if dtype == pl.String else found.cast(pl.String, strict=False)


def ranks(name: str, dtype: pl.DataType) -> pl.Expr:
    """Severities of the column ``name``, words or numbers, as numbers: the worse the larger."""
    import polars as pl

    if dtype.is_numeric():
        return pl.col(name).cast(pl.Float64)
    words = pl.col(name).cast(pl.String).str.to_lowercase()
    return words.replace_strict(units.RANKS, default=0, return_dtype=pl.Int64).cast(pl.Float64)


def _condition(spec: Table, frame: pl.DataFrame, term: Term, visible: Sequence[Column]) -> pl.Expr:
    import polars as pl

    if term.word:
        wanted = term.word.lower()
        parts = [
            _text(column, frame.schema[column.name]).str.to_lowercase().str.contains(wanted, literal=True)
            for column in visible
            if column.kind in WORDY and not frame.schema[column.name].is_nested()
        ]
        found = pl.any_horizontal([part.fill_null(False) for part in parts]) if parts else pl.lit(False)
    else:
        column = _find_column(spec, frame, term.column)
        found = _comparison(column, frame.schema[column.name], term).fill_null(False)
    return ~found if term.negated else found


def _comparison(column: Column, dtype: pl.DataType, term: Term) -> pl.Expr:
    import polars as pl

    op, value = term.op, term.value
    if dtype.is_nested():
        raise FilterError(f"{column.name} cannot be compared")
    if value == "":
        empty = pl.col(column.name).is_null() | (_text(column, dtype) == "")
        if op in ("=", "~"):
            return empty
        if op in ("!=", "!~"):
            return ~empty
        raise FilterError(f"{column.name}{op} wants a value")
    if op in ("~", "!~"):
        try:
            pl.Series([""]).str.contains(f"(?i){value}")
        except pl.exceptions.ComputeError:
            raise FilterError(f"{value!r} is not a regular expression") from None
        found = _text(column, dtype).str.contains(f"(?i){value}")
        return ~found.fill_null(False) if op == "!~" else found
    left: pl.Expr
    right: Any
    if column.kind == "level" and value.lower() in units.RANKS:
        left = ranks(column.name, dtype)
        right = float(units.rank(value)) - (1.0 if dtype.is_numeric() else 0.0)
    elif dtype == pl.Boolean:
        if value.lower() not in {"true", "false", "yes", "no", "on", "off", "1", "0"}:
            raise FilterError(f"{column.name} is yes or no")
        left, right = pl.col(column.name), value.lower() in {"true", "yes", "on", "1"}
    elif dtype.is_numeric():
        try:
            right = units.amount(column.kind, value)
        except ValueError as error:
            raise FilterError(f"{column.name}: {error}") from None
        if dtype.is_integer() and float(right).is_integer() and re.fullmatch(r"[-+]?\d+", value):
            right = int(value)  # exact beyond 2**53
            left = pl.col(column.name)
            if not -(2**63) <= right < 2**63:
                left, right = left.cast(pl.Float64), float(right)
        else:
            left = pl.col(column.name).cast(pl.Float64)
    else:
        left, right = _text(column, dtype).str.to_lowercase(), value.lower()
    compared: pl.Expr
    match op:
        case "=":
            compared = left == right
        case "!=":
            compared = ~(left == right).fill_null(False)
        case ">":
            compared = left > right
        case ">=":
            compared = left >= right
        case "<":
            compared = left < right
        case _:
            compared = left <= right
    return compared


def matching(spec: Table, frame: pl.DataFrame, text: str, visible: Sequence[Column]) -> pl.Series | None:
    """Which rows match a filter text (booleans), or None if it asks nothing. Raises FilterError.

    Plain words are looked for in the ``visible`` columns.
    """
    import polars as pl

    terms = parse_filter(text)
    if not terms:
        return None
    conditions = [_condition(spec, frame, term, visible) for term in terms]
    mask = frame.select(pl.all_horizontal(conditions).alias("match")).to_series()
    return mask if mask.len() == frame.height else pl.Series("match", [bool(mask[0])] * frame.height)
