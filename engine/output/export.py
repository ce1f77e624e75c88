"""One table as text that other programs read: CSV, Markdown, JSON rows. The dashboard's export and ``report`` share it."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl
from polars import selectors

from engine.core import units
from engine.core.reading import clean, harmless, harmless_json
from engine.core.tables import Table

_BATCH = 10_000  # rows turned into Python objects at a time: bounds memory and how long the interpreter lock is held


def rows(frame: pl.DataFrame, table: Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``frame`` as JSON-ready objects: column name to value, in the order of the frame's columns.

    NaN and infinities become null, texts of ``json`` columns are decoded, nested lists and structs stay.
    """
    names = frame.columns
    for columns in _columns(frame, {c.name for c in table.columns if c.kind == "json"}):
        for row in zip(*columns, strict=True):
            yield dict(zip(names, row, strict=True))


_FINITE = pl.when(selectors.float().is_finite()).then(selectors.float())


def _columns(frame: pl.DataFrame, documents: set[str]) -> Iterator[list[list[Any]]]:
    """Yield the columns of ``frame`` as lists of JSON-ready values, ``_BATCH`` rows at a time."""
    nested = {name for name, dtype in frame.schema.items() if dtype.is_nested() and _has_floats(dtype)}
    for start in range(0, frame.height, _BATCH):
        batch = frame.slice(start, _BATCH).with_columns(_FINITE)
        columns: list[list[Any]] = []
        for name in frame.columns:
            values = batch.get_column(name).to_list()
            if name in documents:
                values = [None if text is None else _document(text) for text in values]
            elif name in nested:
                values = [finite(value) for value in values]
            columns.append(values)
        yield columns


def _has_floats(dtype: Any) -> bool:
    """Whether values of a data type hold floats at any depth."""
    inner = [field.dtype for field in getattr(dtype, "fields", ())] or [getattr(dtype, "inner", None)]
    return any(part is not None and (part.is_float() or _has_floats(part)) for part in inner)


def _document(text: str) -> Any:
    """Return the value of a JSON text; a text that is not JSON, as a foreign file may hold, as it is."""
    try:
        return finite(json.loads(text))
    except (ValueError, RecursionError):
        return text


def finite(value: Any) -> Any:
    """Replace NaN and infinities in ``value``, at any depth, by None: JSON has neither."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [finite(part) for part in value]
    if isinstance(value, dict):
        return {key: finite(part) for key, part in value.items()}
    return value


def to_csv(frame: pl.DataFrame, table: Table) -> str:
    """Format CSV with a header line. Nested values and documents are JSON in one field; null is empty.

    A text that a spreadsheet would run as a formula has ``'`` in front, so that it is shown: names come from files that
    anybody may have written. Numbers stay numbers, and JSON has every text as it is.
    """
    documents = {c.name for c in table.columns if c.kind == "json"}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(frame.columns)
    plain = [dtype.is_numeric() for dtype in frame.dtypes]
    for columns in _columns(frame, documents):
        for at, name in enumerate(frame.columns):
            if not plain[at] or name in documents:  # the writer knows numbers and null
                columns[at] = [_field(value) for value in columns[at]]
        writer.writerows(zip(*columns, strict=True))
    return harmless(out.getvalue())


_is_formula = re.compile(r"[=+\-@\uff1d\uff0b\uff0d\uff20][\s\S]").match
"""Whether a text begins as what Excel, LibreOffice and Sheets run, also in full width. Tabs and line ends are no part of any
name."""
_is_number = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?").fullmatch


def _field(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, str) and _is_formula(value) and not _is_number(value):
        return f"'{value}"
    return value


def to_markdown(frame: pl.DataFrame, table: Table) -> str:
    """Format a Markdown table; numbers are right-aligned, ``|`` is escaped, times are ISO 8601 in UTC."""
    numeric = [frame.schema[name].is_numeric() for name in frame.columns]
    lines = [
        "| " + " | ".join(frame.columns) + " |",
        "|" + "|".join("---:" if right else "---" for right in numeric) + "|",
    ]
    lines.extend(
        "| " + " | ".join(value.replace("|", "\\|") for value in values) + " |" for values in _words(frame, table)
    )
    return harmless("\n".join(lines) + "\n")


def to_text(frame: pl.DataFrame, table: Table, width: int = 0) -> str:
    """Format aligned columns for readers: units in the header, times in ISO 8601.

    ``width`` (characters of a line, 0: any): long texts are cut to it with ``…``, then the least important columns are left
    out; a last line names them. Without it every row is in full.
    """
    units_by_name = {c.name: "" if c.kind == "time_ms" else c.unit for c in table.columns}
    header = [f"{name} ({unit})" if (unit := units_by_name.get(name)) else name for name in frame.columns]
    body = list(_words(frame, table))
    right = [dtype.is_numeric() for dtype in frame.dtypes]
    widths = [max([len(title), *(len(line[i]) for line in body)]) for i, title in enumerate(header)]
    shown = list(range(len(header)))
    if width:
        widths, shown = _fitting(frame.columns, table, widths, width)

    def line(cells: Sequence[str]) -> str:
        texts = ((cells[i] if len(cells[i]) <= widths[i] else cells[i][: widths[i] - 1] + "…", i) for i in shown)
        return "  ".join(text.rjust(widths[i]) if right[i] else text.ljust(widths[i]) for text, i in texts).rstrip()

    lines = [line(header), line(["-" * wide for wide in widths]), *(line(cells) for cells in body)]
    hidden = [name for i, name in enumerate(frame.columns) if i not in shown]
    if hidden:
        lines.append(
            f"({units.plural(len(hidden), 'more column')}, in other formats and on wider terminals: {', '.join(hidden)})"
        )
    return harmless("\n".join(lines) + "\n")


_CUT = 32  # fewest characters that a text keeps where a line is too long


def _fitting(names: Sequence[str], table: Table, widths: Sequence[int], width: int) -> tuple[list[int], list[int]]:
    """Return the widths of columns, long texts cut, and which columns fit into ``width`` in all: the important ones."""
    declared = {column.name: column for column in table.columns}
    texts = [declared[name].kind in ("text", "id", "json", "spark") if name in declared else True for name in names]
    widths = list(widths)
    while sum(widths) + 2 * (len(widths) - 1) > width:
        longest = max(
            (i for i in range(len(widths)) if texts[i] and widths[i] > _CUT), key=widths.__getitem__, default=None
        )
        if longest is None:
            break
        widths[longest] = max(widths[longest] - (sum(widths) + 2 * (len(widths) - 1) - width), _CUT)

    def importance(i: int) -> tuple[bool, int, int]:
        column = declared.get(names[i])
        return (column.hidden, column.priority, i) if column is not None else (True, 0, i)

    shown: list[int] = []
    for i in sorted(range(len(names)), key=importance):
        if shown and sum(widths[j] + 2 for j in shown) + widths[i] > width:
            break
        shown.append(i)
    return [min(wide, width) for wide in widths], sorted(shown)


def _words(frame: pl.DataFrame, table: Table) -> Iterator[list[str]]:
    """Yield the rows of ``frame`` as texts for readers."""
    times = {c.name for c in table.columns if c.kind == "time_ms"}
    for row in rows(frame, table):
        yield [_moment(value) if name in times else _plain(value) for name, value in row.items()]


def _moment(value: Any) -> str:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return _plain(value)
    try:
        return units.iso(round(value))
    except (ValueError, OverflowError, OSError):
        return _plain(value)


def _plain(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{key}={_plain(part)}" for key, part in value.items())
    if isinstance(value, list):
        return " ".join(_plain(part) for part in value)
    return clean(str(value))


def to_json(frame: pl.DataFrame, table: Table) -> str:
    """Format a JSON list of row objects."""
    return harmless_json(json.dumps(list(rows(frame, table)), ensure_ascii=False, indent=1) + "\n")


def to_ndjson(frame: pl.DataFrame, table: Table) -> str:
    """Format one row object on each line."""
    return harmless_json(
        "".join(
            f"{line}\n"
            for line in (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows(frame, table))
        )
    )


FORMATS = {"csv": to_csv, "ndjson": to_ndjson, "markdown": to_markdown, "json": to_json, "text": to_text}
"""Formats of one table by name."""
