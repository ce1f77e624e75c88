"""Parse timestamps of dumps, logs and file names to epoch milliseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_STAMP = re.compile(
    r"(\d{4})[-/]?(\d\d)[-/]?(\d\d)"
    r"(?:[T _](\d\d)[:_-]?(\d\d)(?:[:_-]?(\d\d)(?:[.,](\d{1,9}))?)?)?"
    r"\s*(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?"
)
_IN_NAME = re.compile(
    r"(?<!\d)(\d{4}-?\d\d-?\d\d[T _-]?\d\d[:_-]?\d\d[:_-]?\d\d(?:[.,]\d{1,9})?(?:Z|\+\d\d:?\d\d)?"
    r"|\d{19}|\d{16}|\d{13}|\d{10}(?:\.\d{2,9})?)(?!\d)"
)
_DATE_STYLES = (
    re.compile(r"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{4}) (?P<clock>[\d:.]+)\s*(?P<zone>\S*)"),
    re.compile(r"[A-Z]\w\w (?P<name>[A-Z]\w\w) +(?P<day>\d\d?) (?P<clock>[\d:.]+) (?P<year>\d{4})\s*(?P<zone>\S*)"),
    re.compile(r"[A-Z]\w\w (?P<day>\d\d?) (?P<name>[A-Z]\w\w) (?P<clock>[\d:.]+) (?P<year>\d{4})\s*(?P<zone>\S*)"),
)
"""PostgreSQL's DateStyles "German" and "Postgres"; the month of "SQL" (11/13/2026) cannot be told from the day."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATE = re.compile(r"(?<!\d)\d{4}-?\d\d-?\d\d(?!\d)")
_LAST_NUMBER = re.compile(r"\d+(?=\D*$)")
_EPOCH = re.compile(r"\d{9,10}(?:\.\d+)?|\d{12,13}(?:\.\d+)?")
_OLD_MYSQL = re.compile(r"(\d\d)(\d\d)(\d\d)\s+(\d{1,2}):(\d\d):(\d\d)(?:\.(\d+))?")


def instant_ms(text: str) -> int | None:
    """Parse a timestamp to epoch milliseconds; None if it is not one.

    Takes ISO 8601 in its usual variants (``2026-11-20 23:38:03.3+00``, ``20261120T233803.381Z``), epoch seconds and epoch
    milliseconds, and PostgreSQL's styles ``20.11.2026 23:38:03.3 UTC`` and ``Fri Nov 20 23:38:03.3 2026 UTC``. A time
    without a zone is UTC; one with the name of another zone is none.
    """
    text = text.strip()
    if _EPOCH.fullmatch(text):
        number = float(text)
        return round(number if number >= 1e11 else number * 1000)
    stamp = _STAMP.fullmatch(text)
    if stamp is None:
        return _other_style_ms(text)
    *parts, fraction, zone = stamp.groups()
    offset = timedelta()
    if zone and zone not in ("Z", "UTC", "GMT"):
        digits = zone[1:].replace(":", "")
        offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0)) * (1 if zone[0] == "+" else -1)
    return _epoch_ms([int(part or 0) for part in parts], fraction, offset)


def _other_style_ms(text: str) -> int | None:
    """Parse PostgreSQL's other styles of dates to epoch milliseconds; None for anything else."""
    found = next((match for style in _DATE_STYLES if (match := style.fullmatch(text))), None)
    if found is None:
        return None
    parts = found.groupdict()
    month = _MONTHS.index(parts["name"]) + 1 if parts.get("name") in _MONTHS else int(parts.get("month") or 0)
    return instant_ms(f"{parts['year']}-{month:02}-{int(parts['day']):02} {parts['clock']}{parts['zone']}")


_RFC_3339 = re.compile(
    r"^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9})\d*)?\s*(Z|UTC|[+-]\d{2}:?\d{2}(?: \w+)?)?$"
)


def epoch_ns(text: str) -> int:
    """Parse RFC 3339, or the default text form of Go's ``time.Time``, to epoch nanoseconds (years 1 to 9999).

    Raises ValueError.
    """
    match = _RFC_3339.match(text.strip().split(" m=")[0])
    if match is None:
        raise ValueError(f"{text[:60]!r} is no time")
    date, clock, fraction, zone = match.groups()
    offset = "+00:00" if zone in (None, "Z", "UTC") else zone.split()[0]
    since = datetime.fromisoformat(f"{date}T{clock}{offset}") - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * 10**9 + int((fraction or "0").ljust(9, "0"))


def old_mysql_ms(text: str) -> int | None:
    """Parse a slow log's old ``YYMMDD HH:MM:SS`` (server's local time, read as if UTC) into epoch milliseconds, or None."""
    stamp = _OLD_MYSQL.match(text.strip())
    if stamp is None:
        return None
    year, *parts, fraction = stamp.groups()
    return _epoch_ms([2000 + int(year), *map(int, parts)], fraction, timedelta())


def _epoch_ms(parts: list[int], fraction: str | None, offset: timedelta) -> int | None:
    """Convert year to second (a leap second counts as the one before), less ``offset``, to epoch milliseconds, or None."""
    year, month, day, hour, minute, second = parts
    try:
        moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC) - offset
    except (ValueError, OverflowError):
        return None
    fraction = (fraction or "")[:9]
    return int(moment.timestamp()) * 1000 + (round(int(fraction) / 10 ** len(fraction) * 1000) if fraction else 0)


def name_instant_ms(name: str) -> int | None:
    """Return the timestamp in a file's name (``pgss-20261120T233803.381Z.csv``), or None."""
    for match in _IN_NAME.finditer(name):
        text = match.group(1)
        if text.replace(".", "").isdecimal() and len(text.partition(".")[0]) in (10, 13, 16, 19):
            return instant_ms(text[:13] if text.isdecimal() else text)
        clock, plus, zone = text.partition("+")
        digits = re.sub(r"[^0-9.Z]", "", clock.replace(",", "."))
        moment = instant_ms(f"{digits[:8]}T{digits[8:]}{plus}{zone}")
        if moment is not None:
            return moment
    return None


def name_run(stem: str) -> str:
    """Remove the date and the last number from ``stem``: files that continue one another share the rest."""
    return _LAST_NUMBER.sub("#", _DATE.sub("#", stem))


def name_stem(name: str) -> str:
    """Remove timestamp and ending from ``name``: files of one series share the rest."""
    return _IN_NAME.sub("", name).rsplit(".", 1)[0].strip("-_. ")


def utc_text(at_ms: int) -> str:
    """Format epoch milliseconds as ISO text to the second, UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
