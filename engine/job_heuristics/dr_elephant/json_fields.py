"""JSON of unknown origin, decoded without what no reader could use."""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec

from engine.core.text import decode

MOST_DEPTH = 64
"""Deepest nesting that is read; real answers have fewer than ten levels."""
_MOST_DIGITS = 400
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\(?:.|\Z))*+(?:"|\Z)|[\[{]|[\]}]|-?[0-9][0-9.eE+-]*+', re.DOTALL)
"""Strings, brackets and numbers of JSON; takes linear time, also where a string has no end."""


def decode_json(data: bytes) -> tuple[Any, str]:
    """Decode JSON. Returns its value, and in words what had to be left out: what is nested too deeply, and numbers that no
    computer number holds, become null; bytes that are no UTF-8 a mark. Raises msgspec.DecodeError."""
    try:
        return msgspec.json.decode(data), ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        sound = _pruned(decode(data).encode())
        if sound == data:
            raise error if isinstance(error, msgspec.DecodeError) else msgspec.DecodeError(str(error)) from error
        return msgspec.json.decode(sound), "what is nested too deeply, no number that can be, or not UTF-8 is left out"


def _pruned(data: bytes) -> bytes:
    """Return JSON text with null for what ``decode_json`` leaves out."""
    pieces: list[bytes] = []
    depth = done = 0
    for match in _TOKEN.finditer(data):
        token = match.group()
        if token in (b"[", b"{"):
            depth += 1
            if depth == MOST_DEPTH + 1:
                pieces += [data[done : match.start()], b"null"]
                done = len(data)
        elif token in (b"]", b"}"):
            if depth == MOST_DEPTH + 1:
                done = match.end()
            depth -= 1
        elif depth <= MOST_DEPTH and not token.startswith(b'"') and not _is_number(token):
            pieces += [data[done : match.start()], b"null"]
            done = match.end()
    pieces.append(data[done:])
    return b"".join(pieces)


def _is_number(token: bytes) -> bool:
    try:
        return len(token) <= _MOST_DIGITS and math.isfinite(float(token))
    except ValueError:
        return True  # no number at all: the decoder says so


def objects(value: Any, key: str) -> list[dict[str, Any]]:
    """Return the list of objects below ``key``, whichever form the answer has: {key: [..]}, {key: {..}}, null."""
    if isinstance(value, dict):
        value = value.get(key)
    if isinstance(value, dict):
        value = [value]
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []
