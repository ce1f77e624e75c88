"""Fields of documents: times in file names, JSON as Cruise Control writes it, numbers and ids."""

from __future__ import annotations

import datetime
import json
import re
from typing import Any

import msgspec

from engine.core.problems import Problem
from engine.core.reading import Reading, Source
from engine.core.text import clean, decode

_EPOCH = re.compile(r"(?<!\d)(1\d{12}|[1-9]\d{8,9})(?!\d)")
_STAMP = re.compile(r"(?<!\d)(20\d\d)-?(\d\d)-?(\d\d)[T_ -]?(\d\d)[:_-]?(\d\d)(?:[:_-]?(\d\d))?Z?(?!\d)")
_BRACKET = re.compile(r'[\[\]{}]|"(?:[^"\\]|\\.)*"?', re.DOTALL)
"""A bracket of JSON, or a whole string, so that brackets in it do not count."""
DEEPEST = 64
"""Deepest nesting of JSON that is read; the answers of the tools nest less than ten levels."""
MOST_REPLICAS = 100
"""Longest list of a partition's brokers that is read: arrays are as wide as the longest one."""
LATEST_MS = 253_402_300_799_999
"""Last moment that is taken for a time, epoch ms: the end of the year 9999."""
INT32 = 2**31
"""First number above the range of 32-bit ids."""


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


def load_json(text: str, path: str, problems: list[Problem]) -> Any:
    """Decode JSON; NaN and Infinity, which Cruise Control writes in some answers, become floats. Raises ValueError.

    What is nested more deeply than DEEPEST becomes null, with a problem of file ``path``: no answer has such values, and the
    records around them are good.
    """
    try:
        return _decode(text)
    except RecursionError:
        shallow, left_out = _without_depths(text)
        content = _decode(shallow)
        reason = f"values nested more than {DEEPEST} levels deep are left out"
        problems.append(Problem.at(path, "nested-too-deeply", reason, count=left_out))
        return content


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return json.loads(text)


def _without_depths(text: str) -> tuple[str, int]:
    """Return JSON with null for each value nested more than DEEPEST levels deep, and how many those are."""
    kept, begin, depth, left_out = [], 0, 0, 0
    for token in _BRACKET.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth == DEEPEST + 1:
                kept += [text[begin : token.start()], "null"]
                left_out += 1
        elif token[0] in "]}":
            depth -= 1
            if depth == DEEPEST:
                begin = token.end()
    # Brackets that do not match are for the decoder to refuse.
    return "".join([*kept, text[begin:] if depth <= DEEPEST else ""]), left_out


def not_json(source: Source, error: Exception, final: bool) -> Reading:
    """Return the reading of a document that does not parse (yet)."""
    return Reading(
        problems=[Problem.at(source.path, "bad-json", f"not valid JSON: {error}", line=_line(error))], complete=False
    )


def _line(error: Exception) -> int | None:
    return error.lineno if isinstance(error, json.JSONDecodeError) else None


def number(value: Any) -> float | None:
    """Return a JSON number or a text with thousands separators as a float; None if it is neither."""
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
    """Return a value of JSON for a message: a list or a map only by its kind, as it may be large and deep."""
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
    """Return a JSON list of broker ids without doubles; None if it is not one, or longer than MOST_REPLICAS."""
    if not isinstance(value, list) or len(value) > MOST_REPLICAS:
        return None
    ids = [integer(item) for item in value]
    if any(item is None for item in ids) or len(set(ids)) != len(ids):
        return None
    return [item for item in ids if item is not None]


def text_of(data: bytes) -> str:
    """Return the file as text with plain line ends."""
    return decode(data).replace("\r\n", "\n")
