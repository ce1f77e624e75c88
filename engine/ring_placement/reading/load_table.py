"""The plain load table ``tenant,dataset,bytes_per_s[,fingerprint]``, as CSV or Parquet."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any

import polars as pl

from engine.formats import parquet
from engine.problems import Problem
from engine.reading import Reading, Source
from engine.ring_placement import tables
from engine.ring_placement.pyroscope.hashing import xxh64
from engine.ring_placement.reading.document import SANE_RATE, Document, unreadable
from engine.text import clean

REQUIRED = ("tenant", "dataset", "bytes_per_s")
"""Columns that a load table must have."""
COLUMNS = (*REQUIRED, "fingerprint")
"""Columns that are read."""


class LoadTable(Document):
    """A plain table ``tenant,dataset,bytes_per_s[,fingerprint]``, CSV or Parquet."""

    id = "load-table"
    title = "CSV or Parquet table tenant,dataset,bytes_per_s[,fingerprint]"
    tables = (tables.LOADS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether its first line names the required columns, or it is a Parquet file that is not a block."""
        if head.startswith(b"PAR1"):
            return not name.endswith("block.bin")
        return is_header(head.split(b"\n", 1)[0])

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row per line."""
        if data.startswith(b"PAR1"):
            if not data.endswith(b"PAR1") and not source.path.endswith((".parquet", ".pq")):
                return Reading()  # a block under another name
            return read_parquet(source, data)
        return read_csv(source, data, final)


def _column_names(line: bytes) -> list[str]:
    text = line.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").strip("\r\n")
    return [part.strip().strip('"').strip().lower() for part in text.split(",")]


def is_header(line: bytes) -> bool:
    """Whether ``line`` names the required columns."""
    return len(line) < 4096 and set(REQUIRED) <= set(_column_names(line))


def read_csv(source: Source, data: bytes, final: bool) -> Reading:
    """Read CSV bytes. A last line without its line end is used only if ``final`` (nothing will follow), with a problem."""
    problems: list[Problem] = []
    data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    if not data.endswith(b"\n"):
        last = data.rfind(b"\n") + 1
        if not final:
            data = data[:last]
        elif last == 0:
            problems.append(Problem.at(source.path, "no-rows", "the table has a header and nothing else", line=1))
            return Reading({"loads": {}}, problems)
        else:
            reason = "the last line has no line end: used, but it may be cut"
            problems.append(Problem.at(source.path, "cut-file", reason, line=data.count(b"\n") + 1))
    header = _column_names(data.split(b"\n", 1)[0])
    if not set(REQUIRED) <= set(header):
        return Reading(problems=problems, complete=False)
    # Only what is wanted is made: short lines below a long header would become rows of thousands of nulls.
    wanted = {name: header.index(name) for name in COLUMNS if name in header}
    try:
        frame = pl.read_csv(
            data,
            has_header=False,
            skip_rows=1,
            schema={f"column_{i}": pl.String for i in range(len(header))},
            columns=sorted(wanted.values()),
            encoding="utf8-lossy",
            raise_if_empty=False,
        )
        frame = frame.select(pl.col(f"column_{at}").alias(name) for name, at in wanted.items())
    except pl.exceptions.PolarsError:
        # A line with too many fields, or quotes that do not close: find out which.
        frame, bad_lines = _read_by_line(data, len(header), wanted)
        if bad_lines:
            reason = "a line has more fields than the header or an open quote and is left out"
            problems.append(Problem.at(source.path, "bad-line", reason, line=bad_lines[0], count=len(bad_lines)))
    frame = _load_columns(frame, 2)
    blank = pl.all_horizontal(pl.col(c).is_null() | (pl.col(c) == "") for c in COLUMNS)
    return _typed(source, frame.filter(~blank), problems)


def _load_columns(frame: pl.DataFrame, first: int) -> pl.DataFrame:
    """Select ``COLUMNS`` (null where the table lacks one) behind ``line``, the number of each row from ``first`` on."""
    missing = [pl.lit(None, pl.String).alias(name) for name in COLUMNS if name not in frame.columns]
    return frame.with_columns(missing).select(COLUMNS).with_row_index("line", offset=first)


def _read_by_line(data: bytes, width: int, wanted: Mapping[str, int]) -> tuple[pl.DataFrame, list[int]]:
    """Read the ``wanted`` columns (name to place) of CSV line by line, nulls where a line is too short.

    Returns the rows, and the 1-based numbers of the lines that could not be read (their rows are all null).
    """
    columns: dict[str, list[str | None]] = {name: [] for name in wanted}
    wrong = []
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n")[1:], 2):
        parts: list[str] = []
        try:
            if line:
                parts = next(csv.reader([line], strict=True))
        except (csv.Error, StopIteration):
            wrong.append(number)
        if len(parts) > width:
            wrong.append(number)
            parts = []
        for name, at in wanted.items():
            columns[name].append(parts[at] if at < len(parts) else None)
    return pl.DataFrame(columns, schema=dict.fromkeys(wanted, pl.String)), wrong


def read_parquet(source: Source, data: bytes) -> Reading:
    """Read Parquet bytes; a Parquet file without the required columns gives no rows."""
    try:
        frame = parquet.read(
            data,
            lambda names: set(REQUIRED) <= {name.strip().lower() for name in names},
            keep=lambda name: name.strip().lower() in COLUMNS,
        )
    except parquet.Damaged as error:
        return unreadable(source, "bad-parquet", str(error))
    if frame is None:
        return Reading()
    frame = frame.rename({c: c.strip().lower() for c in frame.columns if c.strip().lower() not in frame.columns})
    if not set(REQUIRED) <= set(frame.columns):
        return Reading()
    frame = _load_columns(frame, 1)
    if frame["fingerprint"].dtype.is_integer():
        # Signed columns hold the same 64 bits.
        column = pl.col("fingerprint")
        wide = column.cast(pl.UInt64, strict=False)
        if frame["fingerprint"].dtype == pl.Int64:
            wide = column.reinterpret(signed=False)
        frame = frame.with_columns(wide.alias("fingerprint"))
    elif frame["fingerprint"].dtype != pl.String:
        frame = frame.with_columns(pl.col("fingerprint").cast(pl.String, strict=False))
    try:
        frame = frame.with_columns(pl.col("tenant", "dataset").cast(pl.String))
    except pl.exceptions.PolarsError as error:
        return Reading(problems=[Problem.at(source.path, "bad-parquet", f"tenant and dataset must be texts: {error}")])
    return _typed(source, frame, [], byte_lines=False)


def _typed(source: Source, frame: pl.DataFrame, problems: list[Problem], byte_lines: bool = True) -> Reading:
    """Convert texts to numbers. Rows without a sane rate are left out, wrong fingerprints dropped, each with a problem.

    ``byte_lines``: whether the column ``line`` counts lines of a text (Parquet has rows only).
    """

    def complain(rows: pl.DataFrame, kind: str, reason: str) -> None:
        if rows.height:
            line = int(rows["line"][0]) if byte_lines else None
            where = "" if byte_lines else f" (first in row {rows['line'][0]})"
            problems.append(Problem.at(source.path, kind, reason + where, line=line, count=rows.height))

    rate = pl.col("bytes_per_s")
    if frame["bytes_per_s"].dtype == pl.String:
        rate = rate.str.strip_chars()
    frame = frame.with_columns(rate.cast(pl.Float64, strict=False).alias("rate"))
    missing = pl.col("tenant").is_null() & pl.col("dataset").is_null() & pl.col("rate").is_null()
    complain(frame.filter(missing), "bad-line", "a line lacks its fields")
    frame = frame.filter(~missing)
    wrong = pl.col("rate").is_null() | ~pl.col("rate").is_finite()
    complain(frame.filter(wrong), "bad-rate", "bytes_per_s is not a finite number: the row is left out")
    negative = ~wrong & (pl.col("rate") < 0)
    complain(frame.filter(negative), "negative-rate", "bytes_per_s is negative: the row is left out")
    huge = ~wrong & (pl.col("rate") > float(SANE_RATE))
    complain(frame.filter(huge), "bad-rate", "bytes_per_s is beyond 2^53: the row is left out")
    frame = frame.filter(~wrong & ~negative & ~huge)
    if frame["fingerprint"].dtype == pl.String:
        digits = pl.col("fingerprint").str.strip_chars().str.to_lowercase().str.strip_prefix("0x")
        frame = frame.with_columns(digits.alias("digits"))
        present = pl.col("digits").is_not_null() & (pl.col("digits") != "")
        right = present & pl.col("digits").str.contains(r"^[0-9a-f]{1,16}$")
        complain(
            frame.filter(present & ~right),
            "bad-fingerprint",
            "a fingerprint is not up to 16 hex digits: that load is spread over its dataset's shards",
        )
        padded = pl.col("digits").str.zfill(16)
        high = padded.str.slice(0, 8).str.to_integer(base=16, strict=False).cast(pl.UInt64)
        low = padded.str.slice(8, 8).str.to_integer(base=16, strict=False).cast(pl.UInt64)
        value = high * pl.lit(1 << 32, pl.UInt64) + low
        frame = frame.with_columns(pl.when(right).then(value).alias("fingerprint")).drop("digits")
    columns = [
        *_cleaned(frame["tenant"].fill_null(""), "tenant"),
        *_cleaned(frame["dataset"].fill_null(""), "dataset"),
    ]
    out = pl.DataFrame([*columns, frame["rate"].alias("bytes_per_s"), frame["fingerprint"].cast(pl.UInt64)])
    return Reading({"loads": tables.LOADS.frame(out)}, problems)


def _cleaned(texts: pl.Series, name: str) -> list[pl.Series]:
    """Clean ``texts`` for a terminal. Returns them, and the XXH64 (uint64) of each text that had to be changed, null for
    the others: placement hashes the bytes as written."""
    odd = texts.str.contains(r"[^ -~]") | (texts.str.len_bytes() > 4096)
    hashes = pl.Series(f"{name}_hash", [None], dtype=pl.UInt64).new_from_index(0, len(texts))
    shown = texts
    if odd.any():
        strange = texts.filter(odd).unique().to_list()
        changed = {text: clean(text) for text in strange if clean(text) != text}
        if changed:
            shown = texts.replace(changed)
            hashed = {text: xxh64(text) for text in changed}
            hashes = texts.replace_strict(hashed, default=None, return_dtype=pl.UInt64)
    return [shown.alias(name), hashes.alias(f"{name}_hash")]
