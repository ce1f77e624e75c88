"""Filters and orders: what an operator types, turned into a condition on the rows of a frame. No Textual here.

This module loads Polars, so it is imported when the first frame is sorted or filtered, never at start.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from engine.core import units
from tui.widgets.table.layout import WORD_KINDS, FilterError

if TYPE_CHECKING:
    from engine.core.tables import Column, Table

COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
"""Operators of a comparison, but ``!=``, for which an empty cell differs from any value."""

BOOLEANS: Mapping[str, bool] = {
    "true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip
"""Words for the values of a yes-or-no column."""


_TERM = re.compile(
    r"""\s*(?P<neg>!(?=[^=~]))?(?:(?P<name>[^\W\d][\w.%/-]*)(?P<op>>=|<=|!=|!~|=|~|>|<)(?P<value>"[^"]*"|\S*)"""
    r"""|(?P<word>"[^"]*"?|\S+))"""
)


class Term(msgspec.Struct, frozen=True):
    """One condition of a filter: a plain ``word``, or ``column op value``; ``negated`` for the opposite."""

    word: str = ""
    column: str = ""
    op: str = ""
    value: str = ""
    negated: bool = False


_OPERATOR = r"(?:>=|<=|!=|!~|=|~|>|<)"
_SPACED = re.compile(rf"(?<=\w|%)\s+({_OPERATOR})\s*")
_BEFORE_OPERATOR = rf"(?:\s*%)?(?={_OPERATOR})"
_BETWEEN = r'[^\w"<>=!~]+'
_QUOTED = re.compile(r'("[^"]*"?)')


def _joined(text: str, columns: Sequence[Column]) -> str:
    """Return a filter without the blanks around its operators (``cpu > 50``) and with ``_`` in place of those in the titles of
    ``columns``, whole or their beginning (``run time>1h``)."""
    parts = _QUOTED.split(text)
    for number in range(0, len(parts), 2):
        part = _SPACED.sub(r"\1", parts[number])
        for column in columns:
            words = _title(column).split("_")
            for count in range(len(words), 0, -1):
                typed = "_".join(words[:count])
                part = re.sub(r"(?i)(?<!\w)" + re.escape(typed).replace("_", _BETWEEN) + _BEFORE_OPERATOR, typed, part)
        parts[number] = part
    return "".join(parts)


def parse_filter(text: str) -> tuple[Term, ...]:
    """Parse a filter into its conditions, all of which must hold.

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


def _typed(title: str) -> str:
    """Return a title as it is typed in a filter: small letters, ``_`` for all that is neither letter nor digit."""
    return re.sub(r"[\W_]+", "_", title.lower()).strip("_")


def _find_columns(spec: Table, frame: pl.DataFrame, name: str, visible: Sequence[Column]) -> list[Column]:
    """Return the columns that ``name`` may mean: one, or those whose title has it as first word. Raises FilterError.

    The titles on screen count first, whole or by their beginning (``cpu`` means ``cpu %``, ``led`` means ``led in``), then
    the names and titles of all columns.
    """
    wanted = _typed(name)
    columns = [column for column in spec.columns if column.name in frame.columns]
    for group, texts in ((visible, (_title,)), (columns, (_name, _title))):
        for text in texts:
            for column in group:
                if text(column) == wanted:
                    return [column]
        starting = [column for column in group if any(text(column).startswith(wanted) for text in texts)]
        words = [column for column in starting if _title(column).split("_")[0] == wanted]
        if len(starting) == 1 or words:
            return words or starting
        if starting:
            raise FilterError(f"{name!r} could be {', '.join(_title(column) for column in starting[:6])}")
    import difflib

    near = difflib.get_close_matches(wanted, [text(column) for text in (_title, _name) for column in columns], 1)
    hint = (
        f"; did you mean {near[0]}?"
        if near
        else f"; there are {', '.join(_title(c) for c in (visible or columns)[:12])}"
    )
    raise FilterError(f"no column {name!r}{hint}")


def _title(column: Column) -> str:
    return _typed(column.header) or _typed(column.name)


def _name(column: Column) -> str:
    return _typed(column.name)


def _is_list_of_texts(dtype: pl.DataType) -> bool:
    return dtype == pl.List(pl.String)


def _text(column: Column, dtype: pl.DataType) -> pl.Expr:
    """Return a column as text, a list of texts as it is drawn."""
    values = pl.col(column.name)
    if _is_list_of_texts(dtype):
        return values.list.join(", ")
    return values if dtype == pl.String else values.cast(pl.String, strict=False)


def ranks(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return the severities of the column ``name``, words or numbers, as numbers: the worse the larger."""
    if dtype.is_numeric():
        return pl.col(name).cast(pl.Float64)
    words = pl.col(name).cast(pl.String).str.to_lowercase()
    return words.replace_strict(units.RANKS, default=0, return_dtype=pl.Int64).cast(pl.Float64)


def _condition(spec: Table, frame: pl.DataFrame, term: Term, visible: Sequence[Column]) -> pl.Expr:
    """Return one condition; words are searched in the ``visible`` columns. Raises FilterError."""
    if term.word:
        wanted = term.word.lower()
        parts = [
            _holds_word(_text(column, frame.schema[column.name]), wanted)
            for column in visible
            if column.kind in WORD_KINDS
            and (not frame.schema[column.name].is_nested() or _is_list_of_texts(frame.schema[column.name]))
        ]
        matches = pl.any_horizontal([part.fill_null(False) for part in parts]) if parts else pl.lit(False)
    else:
        matches = _first_comparison(_find_columns(spec, frame, term.column, visible), frame, term).fill_null(False)
    return ~matches if term.negated else matches


def _holds_word(texts: pl.Expr, wanted: str) -> pl.Expr:
    """Return the condition that texts contain a word of small letters, in letters of any case."""
    if wanted.isascii():  # the same, without a copy of all texts in small letters
        return texts.str.contains_any([wanted], ascii_case_insensitive=True)
    return texts.str.to_lowercase().str.contains(wanted, literal=True)


def _first_comparison(columns: Sequence[Column], frame: pl.DataFrame, term: Term) -> pl.Expr:
    """Return the comparison with the first of ``columns`` that can be compared with the value. Raises FilterError."""
    for column in columns[:-1]:
        try:
            return _comparison(column, frame, term)
        except FilterError:
            continue
    return _comparison(columns[-1], frame, term)


def _comparison(column: Column, frame: pl.DataFrame, term: Term) -> pl.Expr:
    """Return the condition ``column op value``. Raises FilterError."""
    dtype = frame.schema[column.name]
    if dtype.is_nested() and not _is_list_of_texts(dtype):
        raise FilterError(f"{column.name} cannot be compared")
    if term.value == "":
        if term.op not in ("=", "~", "!=", "!~"):
            raise FilterError(f"{column.name}{term.op} wants a value")
        empty = pl.col(column.name).is_null() | (_text(column, dtype) == "")
        return ~empty if term.op.startswith("!") else empty
    if term.op in ("~", "!~"):
        try:
            pl.Series([""]).str.contains(f"(?i){term.value}")
        except pl.exceptions.ComputeError:
            raise FilterError(f"{term.value!r} is not a regular expression") from None
        matches = _text(column, dtype).str.contains(f"(?i){term.value}")
        return ~matches.fill_null(False) if term.op == "!~" else matches
    if _is_list_of_texts(dtype) and term.op in ("=", "!="):
        texts = pl.col(column.name).list.eval(pl.element().str.to_lowercase())
        found = texts.list.contains(term.value.lower()).fill_null(False)
        return found if term.op == "=" else ~found
    left, right = _operands(column, frame.get_column(column.name), term.value)
    if term.op == "!=":
        equal: pl.Expr = left == right
        return ~equal.fill_null(False)
    return COMPARISONS[term.op](left, right)


def _operands(column: Column, values: pl.Series, value: str) -> tuple[pl.Expr, Any]:
    """Return both sides of a comparison, in the unit and type that suit the column. Raises FilterError.

    A time of day means that of the newest day in the column.
    """
    dtype = values.dtype
    if column.kind == "level" and value.lower() in units.RANKS:
        return ranks(column.name, dtype), float(units.rank(value)) - (1.0 if dtype.is_numeric() else 0.0)
    if dtype == pl.Boolean:
        if value.lower() not in BOOLEANS:
            raise FilterError(f"{column.name} is yes or no")
        return pl.col(column.name), BOOLEANS[value.lower()]
    if not dtype.is_numeric():
        return _text(column, dtype).str.to_lowercase(), value.lower()
    newest = values.max() if column.kind == "time_ms" and ":" in value else None
    moment = units.time_of_day(value, newest) if isinstance(newest, (int, float)) else None
    if moment is not None:
        return pl.col(column.name).cast(pl.Float64), moment
    try:
        number = units.amount(column.kind, value, column.unit)
    except ValueError as error:
        raise FilterError(f"{column.name}: {error}") from None
    if dtype.is_integer() and column.kind != "mb_s" and re.fullmatch(r"[-+]?\d+", value):
        number = int(value)  # exact beyond 2**53
        if -(2**63) <= number < 2**63:
            return pl.col(column.name), number
    return pl.col(column.name).cast(pl.Float64), float(number)


def sort_key(column: Column, dtype: pl.DataType) -> pl.Expr:
    """Return what a column is sorted by: severities by rank, texts without case, lists by last value or length."""
    values = pl.col(column.name)
    if column.kind == "level":
        return ranks(column.name, dtype)
    if isinstance(dtype, (pl.List, pl.Array)):
        inner = values.list if isinstance(dtype, pl.List) else values.arr
        return inner.last() if dtype.inner is not None and dtype.inner.is_numeric() else inner.len()
    if dtype.is_float():
        return values.fill_nan(None)
    if dtype in (pl.String, pl.Categorical):
        return values.cast(pl.String).str.to_lowercase()
    if dtype.is_nested():
        return values.struct.json_encode()
    return values


def matching(spec: Table, frame: pl.DataFrame, text: str, visible: Sequence[Column]) -> pl.Series | None:
    """Return which rows match a filter text (booleans), or None if it has no condition. Raises FilterError.

    Plain words are searched in the ``visible`` columns.
    """
    terms = parse_filter(_joined(text, [*visible, *spec.columns]))
    if not terms:
        return None
    conditions = [_condition(spec, frame, term, visible) for term in terms]
    mask = frame.select(pl.all_horizontal(conditions).alias("match")).to_series()
    return mask if mask.len() == frame.height else pl.Series("match", [bool(mask[0])] * frame.height)
