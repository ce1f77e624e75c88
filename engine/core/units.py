"""Numbers as text and back, in one place for all front ends. Free of Polars, so that the screen can use it at once.

``text(kind, value, width)`` formats a value by its ``Column.kind``; ``amount(kind, text)`` reads what an operator types into a
filter (``10MB``, ``5m``, ``50%``); ``parse_size`` and ``duration_ns`` read options and configuration files. Exports do not
use this module: they write raw values.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.core.tables import Kind

NOTHING = "–"  # shown for a missing value

NUMERIC: frozenset[str] = frozenset(
    {"count", "number", "bytes", "bytes_per_s", "ms", "s", "time_ms", "percent", "ratio", "mb_s"}
)
"""Kinds whose values are numbers: aligned right, compared by size."""

RANKS: dict[str, int] = {
    "": 0, "none": 1, "ok": 1, "pass": 1, "low": 2, "info": 2, "moderate": 3, "warn": 3, "warning": 3, "severe": 4,
    "fail": 4, "critical": 5,
}  # fmt: skip
"""Severity words from harmless to worst; ``none`` and ``ok`` are equal."""

LEVEL_OF_RANK: tuple[str, ...] = ("", "ok", "low", "moderate", "severe", "critical")  # the engine's level words by rank


def finite(value: Any) -> float | None:
    """Convert to a float; None if the value is not a finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def rank(level: object) -> int:
    """Rank a severity word, 0 for unknown ones. Numbers 0-4 are the ranks that Hadoop tools use (0 is none)."""
    if isinstance(level, str):
        return RANKS.get(level.strip().lower(), 0)
    return int(level) + 1 if isinstance(level, (int, float)) and not isinstance(level, bool) and 0 <= level <= 4 else 0


def level_of(level: object) -> str:
    """Translate a severity word of any system to the engine's level (``ok`` … ``critical``, or empty)."""
    return LEVEL_OF_RANK[rank(level)]


def _special(value: float) -> str | None:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return None


def _trim(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def number(value: float, digits: int = 4) -> str:
    """Format a number in ``digits`` significant digits, without exponent between 1e-4 and 1e15."""
    if not isinstance(value, int) and (special := _special(float(value))):
        return special
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e15):
        whole = int(value)
        return f"{whole:,}" if abs(whole) < 10**15 else f"{float(whole):.3e}"
    size = abs(value)
    if size >= 1e15 or size < 1e-4:
        return f"{value:.{max(digits - 1, 1)}e}"
    text = f"{value:,.{max(digits - len(str(int(size))), 0)}f}" if size >= 1 else f"{value:.{digits}g}"
    if "e" in text:
        text = f"{value:.{digits + 4}f}"
    return _trim(text)


def count(value: float, width: int = 0) -> str:
    """Format a whole number with thousands separators, or in k, M, G, T where it would be wider than ``width``."""
    if isinstance(value, float):
        if special := _special(value):
            return special
        if not value.is_integer():
            return number(value)
    whole = int(value)
    text = f"{whole:,}"
    return (
        text if not width or len(text) <= width else _scaled(float(whole), 1000.0, ("", "k", "M", "G", "T", "P", "E"))
    )


def _scaled(value: float, step: float, units: Sequence[str]) -> str:
    size, index = abs(value), 0
    while size >= step - (0.5 if step > 999 else 0.0) and index < len(units) - 1:
        size /= step
        index += 1
    sign = "-" if value < 0 else ""
    if index == 0:
        shown = _trim(f"{size:.1f}")
    else:
        broken = step == 1024 and size != int(size)  # a column of sizes has a decimal then
        shown = f"{size:.0f}" if size >= 99.95 and not broken else f"{size:.1f}" if size >= 9.995 else f"{size:.2f}"
        if size >= 1e6:
            shown = f"{size:.2e}"
    return f"{sign}{shown}{units[index]}"


_BYTES = (" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB")


def plural(count: object, noun: str, ending: str = "s") -> str:
    """Return ``1 partition``, ``2,000 partitions``; ``ending``: what more than one has at its end."""
    number = f"{count:,}" if isinstance(count, int) else str(count)
    return f"{number} {noun}" if count == 1 else f"{number} {noun}{ending}"


def named(names: Sequence[object], most: int, count: int | None = None) -> str:
    """Return ``a, b and 3 more``: the first ``most`` of ``names``, of which there are ``count`` (by default as many as given)."""
    more = (len(names) if count is None else count) - most
    return ", ".join(map(str, names[:most])) + (f" and {more:,} more" if more > 0 else "")


def size(value: float) -> str:
    """Format bytes in binary units: ``1.50 GiB``."""
    return _special(float(value)) or _scaled(float(value), 1024.0, _BYTES)


def duration(ms: float) -> str:
    """Format milliseconds in the two largest units: ``350 ms``, ``12.3 s``, ``4m 05s``, ``1h 02m``, ``3d 04h``."""
    if special := _special(float(ms)):
        return special
    sign, ms = ("-" if ms < 0 else ""), abs(float(ms))
    if ms < 0.001 and ms > 0:
        return f"{sign}{_trim(f'{ms * 1e6:.1f}')} ns"
    if ms < 1 and ms > 0:
        return f"{sign}{_trim(f'{ms * 1e3:.1f}')} µs"
    if ms < 999.5:
        return f"{sign}{_trim(f'{ms:.1f}') if ms < 10 else f'{ms:.0f}'} ms"
    seconds = ms / 1000
    if seconds < 59.95:
        return f"{sign}{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{sign}{whole // 60}m {whole % 60:02d}s"
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return f"{sign}{minutes // 60}h {minutes % 60:02d}m"
    hours = round(seconds / 3600)
    if hours < 24 * 1000:
        return f"{sign}{hours // 24}d {hours % 24:02d}h"
    return f"{sign}{hours // 24:,}d"


def moment(ms: float, width: int = 19, zone: dt.tzinfo | None = None) -> str:
    """Format epoch milliseconds as local date and time (or in ``zone``), shortened to ``width``: 19, 14 (month first) or 8."""
    if special := _special(float(ms)):
        return special
    try:
        when = dt.datetime.fromtimestamp(ms / 1000, tz=dt.UTC)
        when = when.astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return number(ms)
    shapes = ((19, "%Y-%m-%d %H:%M:%S"), (14, "%m-%d %H:%M:%S"), (11, "%m-%d %H:%M"), (0, "%H:%M:%S"))
    return when.strftime(next(shape for least, shape in shapes if width >= least))


def iso(ms: int) -> str:
    """Format epoch milliseconds as ISO 8601 in UTC with milliseconds.

    Raises ValueError, OverflowError or OSError outside the years 1 to 9999.
    """
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def percent(value: float) -> str:
    """Format 0-100 as ``45.3%``."""
    if special := _special(float(value)):
        return special
    size_, value = abs(value), value + 0.0  # -0.0 has no sign
    if size_ and size_ < 0.05:
        return f"{value:.1g}%" if size_ >= 1e-4 else ("<0.01%" if value > 0 else ">-0.01%")
    return f"{value:.1f}%" if size_ < 999.95 else f"{value:,.0f}%"


def share(value: float) -> str:
    """Format a part of a whole, 0 to 1, as ``45.3%``; a small one is never rounded to zero: ``0.064%``, ``3.1e-06``."""
    if value <= 0:
        return "0%"
    return f"{value:.1%}" if value >= 0.001 else f"{value:.3%}" if value >= 1e-5 else f"{value:.1e}"


def ratio(value: float) -> str:
    """Format a factor as ``1.25×``."""
    if special := _special(float(value)):
        return special + "×"
    size_ = abs(value)
    if size_ >= 1e6:
        return f"{value:.1e}×"
    return f"{value:,.0f}×" if size_ >= 100 else f"{value:.2f}×" if size_ >= 0.1 or size_ == 0 else f"{value:.2g}×"


def gb_hours(value: float) -> str:
    """Format megabyte-seconds of memory as a number of GB hours, for columns that name the unit: ``3.42``, ``<0.01``."""
    if special := _special(float(value)):
        return special
    hours = value / (1024 * 3600) + 0.0  # -0.0 has no sign
    tiny = "<0.01" if value > 0 else ">-0.01"
    return tiny if 0 < abs(hours) < 0.005 else f"{hours:,.2f}" if abs(hours) < 1e6 else f"{hours:.2e}"


def mb_seconds(value: float) -> str:
    """Format megabyte-seconds of memory as GB hours, as cluster bills count them: ``3.42 GB·h``; tiny ones as ``820 MB·s``."""
    return f"{number(value, 3)} MB·s" if 0 < abs(value) < 0.005 * 1024 * 3600 else f"{gb_hours(value)} GB·h"


def text(kind: Kind, value: Any, width: int = 0, zone: dt.tzinfo | None = None) -> str:
    """Format ``value`` for a column of ``kind``; ``width`` in cells lets long numbers and times shorten (0: full).

    A missing value is ``–``. A value that does not suit its kind is converted with ``str``; nothing is raised.
    """
    if value is None:
        return NOTHING
    if isinstance(value, bool) and kind not in ("level", "json"):
        return "yes" if value else "no"
    if kind in ("text", "id"):
        return value if isinstance(value, str) else str(value)
    if kind == "level":
        return str(value).upper() if isinstance(value, str) else level_of(value).upper()
    if kind == "flag":
        return ("yes" if value else "no") if isinstance(value, (bool, int)) else str(value)
    if kind == "json":
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if kind == "spark":
        try:
            values = [float(v) for v in value if v is not None and math.isfinite(v)]
        except TypeError:
            return str(value)
        return f"{number(min(values), 3)}…{number(max(values), 3)}" if values else NOTHING
    if not isinstance(value, (int, float)):
        return str(value)
    try:
        return _number_text(kind, value, width, zone)
    except OverflowError:  # an integer beyond a double
        return f"{value:,}"


def aligned(kind: Kind, value: Any, peak: float) -> str | None:
    """Format ``value`` of a column whose largest magnitude is ``peak`` so that points stand below each other: in one unit, with
    one number of decimals. A small value is not rounded to 0: ``<0.1``. Return None if the kind or the value has no such form.
    """
    if (
        isinstance(value, bool)
        or not isinstance(value, float | int)
        or not math.isfinite(value)
        or not 1e-4 < peak < 1e12
    ):
        return None
    unit, top = "", peak
    if kind in ("bytes", "bytes_per_s"):
        step = min(int(math.log(max(peak * 1.024, 1.0), 1024)), len(_BYTES) - 1)
        top, value = peak / 1024**step, value / 1024**step
        unit = _BYTES[step] + ("/s" if kind == "bytes_per_s" else "")
        decimals = 0 if not step else 2 if top < 10 else 1
    elif kind == "percent" and 0.05 <= peak < 999.95:
        unit, decimals = "%", 1
    elif kind == "number" and isinstance(value, float):
        decimals = min(max(3 - math.floor(math.log10(top)), 0), 6)
    else:
        return None
    least = 10.0**-decimals
    if 0 < abs(value) < least / 2:
        return f"{'<' if value > 0 else '>-'}{least:.{decimals}f}{unit}"
    return f"{value + 0.0:,.{decimals}f}{unit}"


_FORMATS: dict[str, Callable[[float], str]] = {
    "bytes": size,
    "bytes_per_s": lambda value: size(value) + "/s",
    "ms": duration,
    "s": lambda value: duration(value * 1000),
    "percent": percent,
    "ratio": ratio,
    "mb_s": mb_seconds,
}


def _number_text(kind: str, value: float, width: int, zone: dt.tzinfo | None) -> str:
    if kind == "count":
        return count(value, width)
    if kind == "time_ms":
        return moment(value, width or 19, zone)
    if kind in _FORMATS:
        return _FORMATS[kind](value)
    shown = number(value)
    if width and len(shown) > width:
        if 0 < abs(value) < 1:
            # Fewer digits, but never zero: -0.000666 is not -0.
            shorter = (number(value, digits) for digits in (3, 2, 1))
            return next((text for text in (*shorter, f"{value:.0e}") if len(text) <= width), shown)
        shown = _scaled(float(value), 1000.0, ("", "k", "M", "G", "T", "P", "E"))
    return shown


def age(seconds: float) -> str:
    """Format an age coarsely, so that a status line rarely changes: ``now``, ``5 s``, ``40 s``, ``3 min``. ``ahead`` only if it
    is later than now by more than clocks of different machines usually differ."""
    if seconds < 2:
        return "ahead" if seconds < -60 else "now"
    whole = int(seconds)
    steps = (
        (10, 1, 1, "s"),
        (60, 10, 1, "s"),
        (3600, 60, 60, "min"),
        (48 * 3600, 3600, 3600, "h"),
        (math.inf, 86400, 86400, "d"),
    )
    return next(f"{whole // step * step // unit} {name}" for limit, step, unit, name in steps if seconds < limit)


_AMOUNT = re.compile(r"\s*([-+]?(?:\d[\d,_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([^\d\s]*)\s*\Z")
_SI = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_BINARY = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}
_TIME_MS = {
    "ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "sec": 1e3, "m": 6e4, "min": 6e4, "h": 3.6e6, "d": 8.64e7,
}  # fmt: skip


_PART_OF_DATE = re.compile(r"(\d{4})(?:-(\d\d)|(\d\d)(\d\d))?")


def whole_date(typed: str) -> str:
    """Complete a year (``2024``), a month (``2024-05``) or a basic date (``20240501``) to the ISO date on which it begins.

    Returns any other text unchanged. Without this, such a date would be read as a number of seconds.
    """
    match = _PART_OF_DATE.fullmatch(typed.strip())
    if match is None:
        return typed
    year, month, basic_month, day = match.groups()
    whole = f"{year}-{month or basic_month or '01'}-{day or '01'}"
    try:
        dt.date.fromisoformat(whole)
    except ValueError:
        return typed
    return whole


def amount(kind: Kind, typed: str, unit: str = "") -> float:
    """Read what an operator typed for a value of ``kind``. Returns it in the column's own unit.

    Bytes take ``10MB`` and ``10MiB`` (both binary, as shown), durations ``90s``, ``5m``, ``1h30m`` (no unit: the
    column's own), memory over time ``1.5GBh`` (no unit: GB hours, as shown), percent ``50`` or ``50%``, ratios ``1.5x`` or
    ``150%``, counts ``10k``, times an ISO date (or its year or month) or epoch milliseconds. A plain number whose column
    declares a ``unit`` of time or size (``us``, ``KB/s``) takes others of its family. Raises ValueError with a sentence.
    """
    lowered = typed.strip().lower()
    if kind == "time_ms":
        typed = whole_date(typed)
        lowered = typed.strip().lower()
        if not lowered.lstrip("-").isdecimal():
            try:
                return dt.datetime.fromisoformat(typed.strip()).timestamp() * 1000
            except ValueError:
                raise ValueError(f"{typed!r} is not a date such as 2026-01-31 or 2026-01-31T12:00") from None
    if kind in ("ms", "s"):
        parts = re.findall(r"(?<![\d.])([\d.]++)\s*+([a-zµ]+)", lowered)
        if len(parts) > 1 and all(unit in _TIME_MS for _, unit in parts):
            total = sum(float(part) * _TIME_MS[unit] for part, unit in parts)
            return total if kind == "ms" else total / 1000
    match = _AMOUNT.match(typed)
    if not match:
        if lowered in ("inf", "-inf", "nan"):
            return float(lowered)
        raise ValueError(f"{typed!r} is not a number")
    factor = _unit_factor(kind, match[2].lower(), unit.lower())
    if factor is None:
        raise ValueError(f"{match[2]!r} is not a unit of this column")
    value = float(match[1].replace(",", "").replace("_", "")) * factor
    return value / 1000 if kind == "s" and match[2] else value


def time_of_day(typed: str, day_ms: float) -> float | None:
    """Return the epoch milliseconds of ``07:00`` or ``07:00:30``, local time, on the day of ``day_ms``; None for other texts."""
    match = _TIME_OF_DAY.fullmatch(typed.strip())
    if match is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.groups())
    try:
        day = dt.datetime.fromtimestamp(day_ms / 1000)
        return day.replace(hour=hour, minute=minute, second=second, microsecond=0).timestamp() * 1000
    except (OverflowError, ValueError, OSError):
        return None


_TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?")


def _bytes_of(unit: str) -> float | None:
    """Return the bytes of a unit of size or rate, in binary units as shown; None for any other word."""
    power = _BINARY.get(unit.removesuffix("/s").removesuffix("b").removesuffix("i"))
    return None if power is None else 1024.0**power


def _unit_factor(kind: Kind, unit: str, own: str) -> float | None:
    """Return the factor for a number typed with ``unit`` in a column of ``kind``; None for an unknown unit.

    ``own``: the unit that a column of plain numbers declares.
    """
    if kind in ("bytes", "bytes_per_s"):
        return _bytes_of(unit)
    if kind in ("ms", "s"):
        return _TIME_MS.get(unit) if unit else 1.0
    if kind == "mb_s":
        return {"": 1024.0 * 3600, "gb·h": 1024.0 * 3600, "gbh": 1024.0 * 3600, "mb·s": 1.0, "mbs": 1.0}.get(unit)
    if kind == "ratio" and unit == "%":
        return 0.01
    if kind == "number" and unit and unit != own:
        if own in _TIME_MS and unit in _TIME_MS:
            return _TIME_MS[unit] / _TIME_MS[own]
        if own.removesuffix("/s").endswith("b") and unit.removesuffix("/s").endswith("b"):
            mine, theirs = _bytes_of(own), _bytes_of(unit)
            return theirs / mine if mine and theirs else None
    return 1.0 if unit in ("%", "×", "x", own) else _SI.get(unit)


_SIZE = re.compile(r"^\s*([0-9.]+(?:[eE][+-]?\d+)?)\s*+([kKmMgGtT]i?)?[bB]?(?:/s)?\s*$")
_SIZE_FACTORS = {"": 1} | {
    f"{unit}{i}": (1024 if i else 1000) ** (n + 1) for i in ("", "i") for n, unit in enumerate("kmgt")
}


def parse_size(typed: str) -> int:
    """Read a size of bytes (or bytes per second) with its exact unit: ``8000000``, ``8e6``, ``8MB`` (decimal), ``8MiB/s``.

    Raises ValueError with a sentence.
    """
    match = _SIZE.match(typed)
    if match is None:
        raise ValueError(f"{typed!r} is not a size such as 8000000, 8MB or 64MiB")
    value = float(match[1]) * _SIZE_FACTORS[(match[2] or "").lower()]
    if not math.isfinite(value) or value >= 2**62:
        raise ValueError(f"{typed!r} is too large")
    return round(value)


_DURATION_NS = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9,
    "d": 86400 * 10**9, "w": 7 * 86400 * 10**9, "y": 365 * 86400 * 10**9,
}  # fmt: skip
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|μs|ms|s|m|h|d|w|y)")


def duration_ns(value: Any) -> int:
    """Read a duration as Go or Prometheus write it (``17m``, ``1m30s``, ``2d``), or a plain number of nanoseconds.

    Raises ValueError with a clause that says why.
    """
    if isinstance(value, bool):
        raise ValueError("is not a duration")
    if isinstance(value, (int, float)):
        if not 0 <= value < 2**63:
            raise ValueError("is out of range")
        return int(value)
    typed = str(value).strip()
    if typed == "0":
        return 0
    total = at = 0
    while at < len(typed) and (part := _DURATION_PART.match(typed, at)):
        total += round(min(float(part.group(1)), 1e30) * _DURATION_NS[part.group(2)])
        at = part.end()
    if not typed or at < len(typed):
        raise ValueError(f"{typed!r:.80} is not a duration such as 17m or 1h30m")
    if total >= 2**63:
        raise ValueError("is out of range")
    return total
