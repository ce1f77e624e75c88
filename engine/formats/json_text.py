"""Decode JSON documents of unknown origin: one decoder for all readers.

A good document is decoded by msgspec. One that msgspec refuses is looked at again, so that one odd value does not cost a file:
nesting beyond what decoders recurse is checked and left out, integers of any length, NaN and Infinity are numbers, and bytes
that are not UTF-8 become U+FFFD. Where the caller says which brackets hold a record, only the bad records are lost. All costs
are linear in the length of the document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from engine.core.reading import Problem, Reading, Source, not_utf8
from engine.formats.delimited import BOM

ERRORS = (msgspec.DecodeError, ValueError, RecursionError)
"""What decoders raise for text that is no JSON, or JSON that they cannot decode."""
MOST_DEPTH = 200
"""Levels of nesting that are kept of a document that is nested too deeply to be decoded: no reader wants anything deeper."""

# Possessive, and an open string reaches to the end: no text is looked at twice.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z|\\\Z)|[{}\[\]]', re.DOTALL)
_CLOSES = {ord("{"): b"}", ord("["): b"]"}
_LENIENT = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) < 400 else float(digits))


class TooDeep(ValueError):
    """Raised for JSON that is nested deeper than the caller accepts."""


class Document(msgspec.Struct, frozen=True):
    """A decoded document: its ``value``; ``problems`` with it; ``bad``: number of records that are null in it because they do
    not decode; ``cut``: its end is missing, and was closed behind the last complete record."""

    value: Any
    problems: tuple[Problem, ...] = ()
    bad: int = 0
    cut: bool = False


def decode(source: Source, data: bytes, *, records: Iterable[int] = (), ends_cut: bool = False) -> Document | Reading:
    """Decode a document, or return the reading that says it does not parse (yet), as ``parse`` does."""
    try:
        return parse(source.path, data, records=records, ends_cut=ends_cut)
    except ERRORS as error:
        line = getattr(error, "lineno", None)
        return Reading(
            problems=[Problem.at(source.path, "bad-json", f"not JSON (yet): {reason(error)}", line=line)],
            complete=False,
        )


def parse(path: str, data: bytes, *, records: Iterable[int] = (), ends_cut: bool = False) -> Document:
    """Decode a document of the file ``path``, with or without a byte order mark.

    ``records``: how many brackets are open around a record, by shape of the document, the largest first; records that do not
    decode become null, each with a problem. ``ends_cut``: a document without its end is taken up to its last complete record.
    Raises ``ERRORS``.
    """
    data = data.removeprefix(BOM)
    try:
        return Document(msgspec.json.decode(data))
    except ERRORS as error:
        failure: Exception = error
    if not records:
        damage = not_utf8(path, data)
        value, left_out = in_pieces(data)
        if left_out:
            text = f"values nested more than {MOST_DEPTH} levels deep are left out"
            damage = (*damage, Problem.at(path, "nested-too-deeply", text, count=left_out))
        return Document(value, damage)
    for depth in records:
        whole = closed(data, depth) if ends_cut else data
        parts, problems, last = [], [], 0
        for begin, end in spans(whole, depth):
            try:
                msgspec.json.decode(whole[begin:end])
            except ERRORS as error:
                problems.append(Problem.at(path, "bad-record", f"{reason(error)}; the record is left out", byte=begin))
                parts += [whole[last:begin], b"null"]
                last = end
        sound = b"".join([*parts, whole[last:]])
        try:
            return Document(msgspec.json.decode(sound), tuple(problems), len(problems), whole is not data)
        except ERRORS:
            continue
    raise failure


def lines(path: str, data: bytes, problems: list[Problem]) -> list[dict[str, Any]] | None:
    """Decode JSON lines; None if ``data`` are one document. Lines that are no object are left out, each with a problem."""
    rows = data.strip().split(b"\n")
    if len(rows) < 2 or not all(row.strip()[:1] + row.strip()[-1:] == b"{}" for row in rows[:2]):
        return None
    objects = []
    for number, row in enumerate(rows, 1):
        try:
            objects += [msgspec.json.decode(row, type=dict[str, Any])] if row.strip() else []
        except ERRORS as error:
            problems.append(Problem.at(path, "bad-record", f"{reason(error)}; the line is left out", line=number))
    return objects


def reason(error: Exception) -> str:
    """Word why decoding failed."""
    if isinstance(error, UnicodeDecodeError):
        return "text that is not UTF-8"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def lenient(data: bytes) -> Any:
    """Decode JSON as Python does: NaN and Infinity are floats, bytes that are not UTF-8 become U+FFFD. Raises ``ERRORS``."""
    return _LENIENT.decode(data.decode("utf-8", "replace"))


def in_pieces(data: bytes, decoder: Callable[[bytes], Any] = lenient, *, deepest: int | None = None) -> tuple[Any, int]:
    """Decode JSON with ``decoder``, from the inside out where it is nested too deeply for that.

    Returns the value, in which objects and lists more than ``MOST_DEPTH`` levels deep are empty, and how many those are.
    ``deepest``: levels of nesting beyond which it is refused. Raises TooDeep, and ``ERRORS`` as ``decoder`` does.
    """
    try:
        return decoder(data), 0
    except RecursionError:
        pass
    pieces: list[list[bytes]] = [[]]
    depth = at = left_out = 0
    for place, bracket in _brackets(data):
        if bracket in _CLOSES:
            depth += 1
            if deepest is not None and depth > deepest:
                raise TooDeep(f"nested more than {deepest} levels deep")
            if depth % MOST_DEPTH == 0:
                pieces[-1].append(data[at:place])
                pieces.append([])
                at = place
        else:
            if depth % MOST_DEPTH == 0 and len(pieces) > 1:
                pieces[-1].append(data[at : place + 1])
                piece = b"".join(pieces.pop())
                decoder(piece)  # raises for what is no JSON
                pieces[-1].append(piece[:1] + _CLOSES[piece[0]])
                left_out += len(pieces) == 1
                at = place + 1
            depth -= 1
    if len(pieces) > 1:
        text = data.decode("utf-8", "replace")
        raise json.JSONDecodeError("ends inside a nested value", text, len(text))
    return decoder(b"".join([*pieces[0], data[at:]])), left_out


def _brackets(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield place and byte of each bracket outside of strings."""
    for token in _TOKEN.finditer(data):
        place = token.start()
        if data[place] != 0x22:
            yield place, data[place]


def spans(data: bytes, depth: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each object or list with ``depth`` open brackets around it."""
    level, begin = 0, 0
    for place, bracket in _brackets(data):
        if bracket in _CLOSES:
            if level == depth:
                begin = place
            level += 1
        else:
            level -= 1
            if level == depth:
                yield begin, place + 1


def closed(data: bytes, depth: int) -> bytes:
    """Return a document without its end up to its last complete record, with the open brackets closed. ``data`` itself, if it
    has an end or no complete record."""
    closers: list[bytes] = []
    end, around = -1, b""
    for place, bracket in _brackets(data):
        if bracket in _CLOSES:
            closers.append(_CLOSES[bracket])
        elif closers:
            closers.pop()
            if len(closers) == depth:
                end, around = place + 1, b"".join(reversed(closers))
    return data[:end] + around if closers and end >= 0 else data
