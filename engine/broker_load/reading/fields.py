"""What the readers share: file times, JSON that upstream writes, checks of ids."""

from __future__ import annotations

import datetime
import json
import re
from typing import Any

import msgspec

from engine.problems import Problem
from engine.reading import Reading, Source
from engine.text import decode

_EPOCH = re.compile(r"(?<!\d)(1\d{12}|[1-9]\d{8,9})(?!\d)")
_STAMP = re.compile(r"(?<!\d)(20\d\d)-?(\d\d)-?(\d\d)[T_ -]?(\d\d)[:_-]?(\d\d)(?:[:_-]?(\d\d))?Z?(?!\d)")
INT32 = 2**31


def file_time(source: Source) -> int:
    """When the content was true: epoch seconds or milliseconds or an ISO-like UTC time in the file's name, else its
    modification time (epoch ms)."""
    return name_time(source.name) or source.mtime_ms


def name_time(name: str) -> int | None:
    """Epoch ms found in a file name, None without one."""
    found = _STAMP.search(name)
    if found:
        parts = [int(part or 0) for part in found.groups()]
        try:
            return int(datetime.datetime(*parts, tzinfo=datetime.UTC).timestamp() * 1000)  # type: ignore[misc,arg-type]
        except ValueError:
            return None
    found = _EPOCH.search(name)
    if not found:
        return None
    number = int(found[1])
    return number if len(found[1]) == 13 else number * 1000


def strip_time(stem: str) -> str:
    """A file name's stem without the time in it."""
    return _EPOCH.sub("", _STAMP.sub("", stem)).strip("._- ")


def load_json(text: str) -> Any:
    """Decode JSON; NaN and Infinity, which upstream writes in some answers, become floats. Raises ValueError."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        try:
            return json.loads(text)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


def not_json(source: Source, error: Exception, final: bool) -> Reading:
    """The reading of a document that does not parse (yet)."""
    return Reading(
        problems=[Problem.at(source.path, "bad-json", f"not valid JSON: {error}", line=_line(error))], complete=False
    )


def _line(error: Exception) -> int | None:
    return error.lineno if isinstance(error, json.JSONDecodeError) else None


def number(value: Any) -> float | None:
    """A JSON number or a text with thousands separators as a float; None if it is neither."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, str):
        try:
            return float(value.replace(",", "").strip())
        except ValueError:
            return None
    return None


def integer(value: Any, low: int = 0) -> int | None:
    """A 32-bit whole number not below ``low``, from a JSON number or text; None otherwise."""
    found = number(value)
    if found is None or found != found or not low <= found < INT32 or found != int(found):
        return None
    return int(found)


def id_list(value: Any) -> list[int] | None:
    """A JSON list of broker ids without doubles; None if it is not one."""
    if not isinstance(value, list) or len(value) > 10_000:
        return None
    ids = [integer(item) for item in value]
    if any(item is None for item in ids) or len(set(ids)) != len(ids):
        return None
    return [item for item in ids if item is not None]


def text_of(data: bytes) -> str:
    """The file as text with plain line ends."""
    return decode(data).replace("\r\n", "\n")
