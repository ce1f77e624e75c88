"""JSON beyond what the decoders take: nested deeper than they recurse, or with integers of thousands of digits.

What lies too deep is checked, and left out of the value; huge integers are floats. So one odd value does not cost a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

KEPT = 200
"""Levels of nesting of one piece: no reader wants anything deeper, and every decoder can do as many."""

_TOKENS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""Strings (also one that does not end) and brackets."""


class TooDeep(ValueError):
    """Raised for JSON that is nested deeper than is accepted at all."""


_HUGE = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) < 400 else float(digits))


def _decode(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python refuses to read integers of more than 4300 digits
        return _HUGE.decode(text)


def loads(
    text: str, decode: Callable[[str], Any] = _decode, *, deepest: int | None = None, stream: bool = False
) -> Any:
    """Decode ``text`` with ``decode``, and in pieces where that ends in a RecursionError.

    Then objects and lists more than ``KEPT`` levels deep are empty in the value. ``deepest``: levels of nesting from which
    it is refused (None: any depth). ``stream``: what follows the first value is not looked at (nor by ``decode``). Raises
    TooDeep, and ValueError as ``decode`` does. Linear in the text's length.
    """
    try:
        return decode(text)
    except RecursionError:
        return _in_pieces(text, decode, deepest, stream)


def _in_pieces(text: str, decode: Callable[[str], Any], deepest: int | None, stream: bool) -> Any:
    """Decode from the inside out: each piece of ``KEPT`` levels is decoded, then stands empty in the one around it."""
    pieces: list[list[str]] = [[]]
    depth = at = 0
    for token in _TOKENS.finditer(text):
        mark = token[0]
        if mark in ("[", "{"):
            depth += 1
            if deepest is not None and depth > deepest:
                raise TooDeep(f"nested more than {deepest} levels deep")
            if depth % KEPT == 0:
                pieces[-1].append(text[at : token.start()])
                pieces.append([])
                at = token.start()
        elif mark in ("]", "}"):
            if depth % KEPT == 0 and len(pieces) > 1:
                pieces[-1].append(text[at : token.end()])
                piece = "".join(pieces.pop())
                decode(piece)
                pieces[-1].append("[]" if piece[0] == "[" else "{}")
                at = token.end()
            depth -= 1
            if stream and depth == 0:
                text = text[: token.end()]
                break
    if len(pieces) > 1:
        raise json.JSONDecodeError("ends inside a nested value", text, len(text))
    return decode("".join([*pieces[0], text[at:]]))
