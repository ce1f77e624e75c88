"""Read the table that VividCortex' regression takes (WLR CSV): one row per interval, one column per query class.

The rules are those of VividCortex' program (comma, RFC 4180 quotes, header first, every column but the target a class, Go's
number syntax, of two columns of one name the last counts). Where the program gives up on the whole file, the bad row is left
out and reported.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from typing import Any

import numpy as np
import polars as pl

from engine.core.reading import Log, Problem, Reading, Source, clean, decode, not_utf8
from engine.core.tables import Table
from engine.formats.delimited import BOM
from engine.query_profile.tables import MATRIX

_DECIMAL = re.compile(r"[+-]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?")
_HEX = re.compile(
    r"[+-]?0[xX]_?(?:[0-9a-fA-F][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?|\.[0-9a-fA-F][0-9a-fA-F_]*)[pP][+-]?\d+"
)
_LONE_UNDERSCORE = re.compile(r"(?<![0-9a-fA-FxX])_|_(?![0-9a-fA-F])")
_SKIPPED = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]*")
_CLASS = re.compile(r"[a-z]\.[0-9a-f]{1,20}")
_TIME = re.compile(r"(?:^|[^a-z])(?:time|date|captured|snapshot)(?:$|[^a-z])|(?:time|stamp)$")
"""Names of time columns: whole words, since a class may be called ``update`` or ``timeline``."""

DEFAULT_TARGET = "user_us"  # name of the column of y

MAX_HEADER = 1 << 24  # bytes within which a header must end

NOT_FINITE = (
    "a number that is not finite: the row is left out (rules=upstream takes it, and it poisons every sum it touches)"
)
NEGATIVE = "a negative number: counted in the row's sum, never fitted"
"""Reasons of problems. They name no column, so that reading in parts gives the same problems."""

MAX_COLUMNS = 100_000  # most columns of a table of query classes (a hostile header must not cost gigabytes)


def go_number(text: str) -> float | None:
    """Parse ``text`` like Go's ``strconv.ParseFloat``; None where that refuses (blanks, empty, overflow)."""
    lowered = text.lower()
    if lowered == "nan":
        return math.nan
    if lowered.lstrip("+-") in ("inf", "infinity") and len(lowered) - len(lowered.lstrip("+-")) <= 1:
        return -math.inf if lowered[0] == "-" else math.inf
    if not text.isascii() or ("_" in text and _LONE_UNDERSCORE.search(text)):
        return None
    parse = float.fromhex if _HEX.fullmatch(text) else float if _DECIMAL.fullmatch(text) else None
    try:
        number = math.nan if parse is None else parse(text.replace("_", ""))
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


class WlrCsv(Log):
    """``user_us`` and one column per query class, in whole microseconds; grows by whole lines."""

    id = "wlr-csv"
    title = "WLR CSV: one row per interval, one column per query class and user_us"
    tables: tuple[Table, ...] = (MATRIX,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise a comma-separated header without a time column that has ``user_us``, class-like names, or a resource in
        microseconds (``cpu_us``) above rows of numbers. Blank lines before it are skipped, as VividCortex' program does."""
        lines = head.removeprefix(BOM).lstrip(b"\r\n").split(b"\n")
        if b"," not in lines[0]:
            return False
        try:
            fields = next(csv.reader([decode(lines[0])]))
        except (csv.Error, StopIteration):
            return False
        names = [field.strip().lower() for field in fields]
        told = DEFAULT_TARGET in names
        if any(_TIME.search(field) for field in names) or (lines[0][:1] in (b"{", b"[", b"#") and not told):
            return False
        whole = names[:-1] if len(lines) == 1 else names  # the header may exceed the head
        if told or sum(_CLASS.fullmatch(field) is not None for field in whole) * 2 > len(whole):
            return True
        if not name.lower().endswith((".csv", ".txt", ".tsv")) or not any(field.endswith("_us") for field in names):
            return False
        rows = [line.split(b",") for line in lines[1:-1][:5] if line.strip()]
        return any(
            len(row) == len(names) and all(go_number(decode(field).strip()) is not None for field in row)
            for row in rows
        )

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read new complete lines as one block of the matrix: names, and the numbers row by row."""
        reading = Reading(state=state)
        end = len(data) if final else data.rfind(b"\n") + 1
        body = data[:end]
        if state is None:
            header_end = _header_end(body)
            if header_end is None:
                if not final or not body.strip():
                    return reading
                header_end = len(body)
            state = _header(source, body[:header_end], reading.problems)
            body = body[header_end:]
        ends = body.count(b"\n")
        named = self._rows(source, body, ends, state, reading) if state["names"] else False
        reading.state = {**state, "line": state["line"] + ends, "named": state["named"] or named}
        reading.consumed = end
        return reading

    def _rows(self, source: Source, body: bytes, ends: int, state: dict[str, Any], reading: Reading) -> bool:
        """Read the rows of ``body``, which has ``ends`` line ends. Returns whether it added rows or the first names."""
        width, keep = state["width"], state["keep"]
        values, lines = _numbers(source, body, ends, width, state["line"], reading.problems)
        if len(keep) != width:
            values = np.ascontiguousarray(values[:, keep])
        if not len(values) and state["named"]:
            return False
        with np.errstate(over="ignore", invalid="ignore"):
            clear = bool(np.isfinite(values.sum())) and float(values.min(initial=0.0)) >= 0
        if not clear:
            finite = np.isfinite(values)
            for kind, odd, reason in (
                ("not-finite", ~finite, NOT_FINITE),
                ("negative-value", finite & (values < 0), NEGATIVE),
            ):
                rows = np.flatnonzero(odd.any(axis=1))
                if len(rows):
                    reading.problems.append(
                        Problem.at(source.path, kind, reason, line=int(lines[rows[0]]), count=len(rows))
                    )
        reading.rows["matrix"] = pl.DataFrame(
            {
                "names": pl.Series("names", [state["names"]], dtype=pl.List(pl.String)),
                "values": pl.Series("values", values.reshape(-1)).implode(),
            },
            schema=MATRIX.schema,
        )
        return True


def _header_end(body: bytes) -> int | None:
    """Return the offset after the first non-empty line (quotes may span lines), None while it is incomplete. A header that does
    not end within ``MAX_HEADER`` bytes ends at its first line end."""
    skipped = _SKIPPED.match(body)
    begin = position = skipped.end() if skipped else 0
    quotes = 0
    while (end := body.find(b"\n", position, MAX_HEADER)) >= 0:
        quotes += body.count(b'"', position, end)
        if quotes % 2 == 0:
            return end + 1
        position = end + 1
    return body.find(b"\n", begin) + 1 or None if len(body) >= MAX_HEADER else None


def _header(source: Source, head: bytes, problems: list[Problem]) -> dict[str, Any]:
    """Parse the header into the state of a reading: unique names, width, columns to keep, and the next line."""
    next_line = head.count(b"\n") + 1
    if head.startswith(BOM):
        head = head.removeprefix(BOM)
        reason = (
            "the file begins with a byte order mark, which VividCortex' program takes for part of the first name; it is "
            "ignored"
        )
        problems.append(Problem.at(source.path, "byte-order-mark", reason, line=1))
    problems += not_utf8(source.path, head)
    text = decode(head).strip("\r\n").replace("\r\n", "\n")
    try:
        # csv would end the header at a lone CR, which the program takes as part of a name
        names = next(csv.reader([text.replace("\r", "·")], strict=True), [])
    except csv.Error as error:
        problems.append(Problem.at(source.path, "bad-header", f"the header is no CSV: {error}", line=1))
        names = []
    if len(names) > MAX_COLUMNS:
        problems.append(Problem.at(source.path, "bad-header", f"{len(names)} columns are more than this reads", line=1))
        names = []
    last = {name: i for i, name in enumerate(names)}
    for name, count in Counter(names).items():
        if count > 1:
            reason = f"column {name!r} appears {count} times: the last one counts, as in VividCortex' program"
            problems.append(Problem.at(source.path, "duplicate-column", reason, line=1))
    for name in last:
        if name != name.strip() and name.strip() == DEFAULT_TARGET:
            reason = f"column {name!r} is not {DEFAULT_TARGET!r} (blanks)"
            problems.append(Problem.at(source.path, "missing-target", reason, line=1))
    keep = sorted(last.values())
    return {
        "names": [clean(names[i]) for i in keep],
        "width": len(names),
        "keep": keep,
        "line": next_line,
        "named": False,
    }


def _polars(body: bytes, width: int) -> np.ndarray | None:
    """Parse the numbers of ``body`` (rows, width); None where a line has another number of fields."""
    schema = {f"c{i}": pl.Float64 for i in range(width)}
    try:
        frame = pl.read_csv(body, has_header=False, schema=schema, ignore_errors=True, quote_char=None)
    except (pl.exceptions.PolarsError, OverflowError):
        return None
    if frame.width != width:
        return None
    values = frame.to_numpy(order="c", allow_copy=True)
    return values if values.dtype == np.float64 and values.flags.c_contiguous else np.ascontiguousarray(values, float)


def _numbers(
    source: Source, body: bytes, ends: int, width: int, line: int, problems: list[Problem]
) -> tuple[np.ndarray, np.ndarray]:
    """Parse all good rows of ``body`` (rows, width) and return them with their line numbers. ``ends``: line ends in it;
    ``line``: number of its first."""
    if b"\r" in body:
        body = body.removesuffix(b"\r").replace(b"\r\n", b"\n")
    plain = body.rstrip(b"\n")
    if not plain:
        return np.empty((0, width)), np.empty(0, np.int64)
    if not any(odd in plain for odd in (b" ", b"\t", b'"', b"\r")):
        values = _polars(plain, width)
        # Polars gives NaN for null: any bad, missing or not finite field (a blank line is a row of them) sends the block
        # to the parser of single lines.
        if values is not None and len(values) == ends - body.count(b"\n", len(plain)) + 1 and np.isfinite(values).all():
            return values, np.arange(line, line + len(values), dtype=np.int64)
    return _by_line(source, plain, width, line, problems)


def _by_line(
    source: Source, body: bytes, width: int, line: int, problems: list[Problem]
) -> tuple[np.ndarray, np.ndarray]:
    """Parse line by line what Polars refuses as a whole; returns good rows and line numbers like ``_numbers``.

    A line is a row even if a quote is left open: no number contains a line end, so one damaged line is one bad row, however
    the file was cut into parts.
    """
    good: list[tuple[int, bytes]] = []
    odd: list[tuple[int, bytes]] = []
    for number, text in enumerate(body.split(b"\n"), line):
        plain = text.count(b",") == width - 1 and not any(byte in text for byte in (b" ", b"\t", b'"', b"\r"))
        if text:  # skip blank lines
            (good if plain else odd).append((number, text))
    values = _polars(b"\n".join(text for _, text in good), width) if good else None
    if values is None or len(values) != len(good):
        values = np.full((len(good), width), np.nan)
    clear = np.isfinite(values).all(axis=1)
    odd += [good[i] for i in np.flatnonzero(~clear)]
    parsed = [(number, _row(source, _fields(decode(text)), width, number, problems)) for number, text in sorted(odd)]
    read = [(number, row) for number, row in parsed if row is not None]
    values = np.vstack([values[clear], np.array([row for _, row in read], float).reshape(-1, width)])
    lines = np.array([good[i][0] for i in np.flatnonzero(clear)] + [number for number, _ in read], np.int64)
    order = np.argsort(lines, kind="stable")
    return np.ascontiguousarray(values[order]), lines[order]


def _fields(text: str) -> list[str]:
    """Split a line; malformed quotes stay in the fields, where they make bad numbers."""
    if '"' in text:
        try:
            return next(csv.reader([text], strict=True))
        except csv.Error:
            pass
    return text.split(",")


def _row(source: Source, fields: list[str], width: int, line: int, problems: list[Problem]) -> list[float] | None:
    """Parse the numbers of one row; None and a problem if it is not ``width`` numbers."""
    if len(fields) != width:
        reason = f"{len(fields)} fields where the header has {width}; the row is left out"
        problems.append(Problem.at(source.path, "ragged-row", reason, line=line))
        return None
    numbers = [number for field in fields if (number := go_number(field)) is not None]
    if len(numbers) == width:
        return numbers
    odd = next(field for field in fields if go_number(field) is None)
    what = "an empty cell" if odd == "" else f"{odd[:40]!r} is no number"
    problems.append(Problem.at(source.path, "bad-number", f"{what}; the row is left out", line=line))
    return None
