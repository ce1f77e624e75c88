"""Decode JSON documents that hold many records, of which single ones may be bad or the last one may be missing.

A decoder gives up on a whole document for one number that is too large, one text that is not UTF-8 or one value that is nested
too deeply. Here only the record that holds it is lost. All costs grow with the document's length only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for text that is no JSON, or JSON that cannot be decoded."""

# Possessive, and an open string reaches to the end: no text is looked at twice.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z|\\\Z)|[{}\[\]]', re.DOTALL)
_OPENS = {ord("{"): b"}", ord("["): b"]"}


@dataclass(frozen=True)
class Document:
    """A decoded document: ``value``; ``bad``: byte and reason of each record that is null in it; ``cut``: the end is missing,
    and was closed after the last complete record."""

    value: Any
    bad: tuple[tuple[int, str], ...] = ()
    cut: bool = False


def decode(data: bytes, depths: Iterable[int], *, cut: bool = False) -> Document:
    """Decode a document; if that fails, once more with null for each bad record.

    ``depths``: how many brackets are open around a record, by shape of the document, the largest first; ``cut``: whether a
    document without its end is taken up to its last complete record. Raises ``ERRORS``.
    """
    try:
        return Document(msgspec.json.decode(data))
    except ERRORS as error:
        failure: Exception = error
    for depth in depths:
        parts, bad, last = [], [], 0
        whole = closed(data, depth) if cut else data
        for begin, end in records(whole, depth):
            try:
                msgspec.json.decode(whole[begin:end])
            except ERRORS as error:
                bad.append((begin, reason(error)))
                parts += [whole[last:begin], b"null"]
                last = end
        try:
            value = msgspec.json.decode(b"".join([*parts, whole[last:]]))
        except ERRORS:
            continue
        return Document(value, tuple(bad), whole is not data)
    raise failure


def reason(error: Exception) -> str:
    """Word why decoding failed."""
    if isinstance(error, UnicodeDecodeError):
        return "text that is not UTF-8"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _brackets(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield place and byte of each bracket outside of strings."""
    for token in _TOKEN.finditer(data):
        place = token.start()
        if data[place] != 0x22:
            yield place, data[place]


def records(data: bytes, depth: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each object or list with ``depth`` open brackets around it."""
    level, begin = 0, 0
    for place, bracket in _brackets(data):
        if bracket in _OPENS:
            if level == depth:
                begin = place
            level += 1
        else:
            level -= 1
            if level == depth:
                yield begin, place + 1


def closed(data: bytes, depth: int) -> bytes:
    """Return a document without its end up to its last complete record, with what is open there closed; one that has an end,
    or no complete record, as it is."""
    closers: list[bytes] = []
    end, around = -1, b""
    for place, bracket in _brackets(data):
        if bracket in _OPENS:
            closers.append(_OPENS[bracket])
        elif closers:
            closers.pop()
            if len(closers) == depth:
                end, around = place + 1, b"".join(reversed(closers))
    return data[:end] + around if closers and end >= 0 else data
