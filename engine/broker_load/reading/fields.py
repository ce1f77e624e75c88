"""Fields of documents: times in file names, numbers and ids."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from engine.core.reading import Problem, Source, clean, decode
from engine.core.tables import Table

_EPOCH = re.compile(r"(?<!\d)(1\d{12}|[1-9]\d{8,9})(?!\d)")
_STAMP = re.compile(r"(?<!\d)(20\d\d)-?(\d\d)-?(\d\d)[T_ -]?(\d\d)[:_-]?(\d\d)(?:[:_-]?(\d\d))?Z?(?!\d)")
MOST_REPLICAS = 100  # longest list of a partition's brokers that is read: arrays are as wide as the longest one
LATEST_MS = 253_402_300_799_999  # last moment accepted as a time, epoch ms: the end of the year 9999
INT32 = 2**31  # first number above the range of 32-bit ids


def file_time(source: Source) -> int:
    """Return when the content was true: epoch seconds or milliseconds or an ISO-like UTC time in the file's name, else its
    modification time (epoch ms)."""
    return name_time(source.name) or source.mtime_ms


def name_time(name: str) -> int | None:
    """Return the time (epoch ms) in a file name, None without one."""
    match = _STAMP.search(name)
    if match:
        parts = [int(part or 0) for part in match.groups()]
        try:
            return int(datetime.datetime(*parts, tzinfo=datetime.UTC).timestamp() * 1000)  # type: ignore[misc,arg-type]
        except ValueError:
            return None
    match = _EPOCH.search(name)
    if not match:
        return None
    number = int(match[1])
    return number if len(match[1]) == 13 else number * 1000


def strip_time(stem: str) -> str:
    """Return a file name's stem without the time in it."""
    return _EPOCH.sub("", _STAMP.sub("", stem)).strip("._- ")


def number(value: Any) -> float | None:
    """Return a JSON number or a text with thousands separators as a float; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, str) and "_" not in value:
        try:
            return float(value.replace(",", ""))
        except ValueError:
            return None
    return None


def shown(value: Any) -> str:
    """Return a JSON value for a message; lists and maps, which may be large, only by their kind."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a map"
    return repr(value)[:200]


def integer(value: Any, low: int = 0) -> int | None:
    """Return a 32-bit whole number not below ``low``, from a JSON number or text; None otherwise."""
    parsed = number(value)
    if parsed is None or parsed != parsed or not low <= parsed < INT32 or parsed != int(parsed):
        return None
    return int(parsed)


def word(value: Any) -> str | None:
    """Return a text, cleaned; None for anything else."""
    return clean(value) if isinstance(value, str) else None


def id_list(value: Any) -> list[int] | None:
    """Return a JSON list of distinct broker ids; None for anything else, or if longer than MOST_REPLICAS."""
    if not isinstance(value, list) or len(value) > MOST_REPLICAS:
        return None
    ids = [integer(item) for item in value]
    if any(item is None for item in ids) or len(set(ids)) != len(ids):
        return None
    return [item for item in ids if item is not None]


def columns(table: Table, rows: Iterable[Sequence[Any]]) -> dict[str, list[Any]]:
    """Return ``rows``, each in the order of the columns of ``table``, as lists by column."""
    listed = list(rows)
    return {name: [row[place] for row in listed] for place, name in enumerate(table.schema)}


def problems_at(source: Source, kind: str, reason: str, rows: pl.DataFrame, count: int | None = None) -> list[Problem]:
    """Return a problem at the first ``line`` of ``rows``, which are counted unless ``count`` is given; none without rows."""
    return [
        Problem.at(source.path, kind, reason, line=line, count=rows.height if count is None else count)
        for line in rows["line"][:1].to_list()
    ]


def text_of(data: bytes) -> str:
    """Return the file as text with plain line ends."""
    return decode(data).replace("\r\n", "\n")
