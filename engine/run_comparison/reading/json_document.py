"""Read JSON documents, and check that their values have the shape of a tool's output."""

from __future__ import annotations

import math
import re
from typing import Any

from engine.formats import json_text
from engine.formats.delimited import BOM
from engine.run_comparison.reading.go_json import looks_cut
from engine.run_comparison.reading.series import Collected


class BadShape(ValueError):
    """A document, or a part of it, that does not have its tool's shape; the message says what is wrong."""


def load_document(out: Collected, data: bytes, *, skipped: str = "") -> tuple[Any, bool]:
    """Return the parsed document and whether there is one; else a problem is noted, its reason followed by ``skipped``."""
    if data.startswith(BOM):
        out.problem("byte-order-mark", "the file begins with a byte order mark")
    try:
        document = json_text.parse(out.source.path, data)
    except ValueError as error:
        text = data.removeprefix(BOM).decode("utf-8", errors="replace")
        out.problem("cut-file" if looks_cut(text, error) else "refused-file", f"not JSON: {error}{skipped}")
        return None, False
    out.problems += document.problems
    return document.value, True


_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION_MS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6}


def duration_ms(text: Any) -> float:
    """Convert a Go duration (``1m5.2s``) or a number of nanoseconds to ms. Raises BadShape."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return (as_number(text, "duration") or 0.0) * 1e-6
    if text == "0":
        return 0.0
    total, at = 0.0, 0
    body = text.removeprefix("-") if isinstance(text, str) else ""
    while part := _DURATION.match(body, at):
        total += float(part[1]) * _DURATION_MS[part[2]]
        at = part.end()
    if not body or at != len(body):
        raise BadShape(f"{text!r:.80} is not a duration")
    return -total if text != body else total


def float_or_none(value: Any) -> float | None:
    """Convert to a float; None for what is no finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def as_object(value: Any, what: str = "") -> dict[str, Any]:
    """Return ``value`` if it is an object. Raises BadShape that names it, if given, as ``what``."""
    if not isinstance(value, dict):
        raise BadShape(f"{what} is not an object" if what else "it is not a JSON object where one belongs")
    return value


def as_list(value: Any, what: str = "") -> list[Any]:
    """Return ``value`` if it is a list. Raises BadShape that names it, if given, as ``what``."""
    if not isinstance(value, list):
        raise BadShape(f"{what} is not a list" if what else "it is not a list where one belongs")
    return value


def as_text(value: Any) -> str:
    """Return a name or label as text; empty for objects, lists and null."""
    return str(value) if isinstance(value, (str, int, float)) else ""


def as_number(value: Any, name: str) -> float | None:
    """Return a finite number, or None for null. Raises BadShape that names it."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadShape(f"{name} is not a number")
    try:
        number = float(value)
    except OverflowError:
        raise BadShape(f"{name} is beyond the range of a double") from None
    if not math.isfinite(number):
        raise BadShape(f"{name} is not a finite number")
    return number
