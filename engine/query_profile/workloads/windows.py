"""Choose the intervals to look at."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import numpy as np

from engine.formats.timestamps import instant_ms
from engine.query_profile.workloads.workload import Workload

_ROWS = re.compile(r"\s*(\d*)\s*(?:\.\.|:|-)\s*(\d*)\s*")


def in_words(work: Workload, mask: np.ndarray) -> str:
    """Return which intervals ``mask`` (T,) has: their numbers, and from when until when where times are known."""
    at = np.flatnonzero(mask)
    if not len(at):
        return "no interval"
    rows = f"{at[0] + 1}..{at[-1] + 1}"
    start, end = int(work.start_ms[at[0]]), int(work.end_ms[at[-1]])
    if start < 0 or end < 0:
        return f"intervals {rows}"
    begin, until = (datetime.fromtimestamp(moment / 1000, UTC) for moment in (start, end))
    same_day = begin.date() == until.date()
    return f"intervals {rows}, {begin:%Y-%m-%d %H:%M:%S} to {until:{'%H:%M:%S' if same_day else '%Y-%m-%d %H:%M:%S'}}"


class BadWindow(ValueError):
    """A window that cannot be parsed; the message shows valid ones."""


def window(work: Workload, text: str) -> np.ndarray:
    """Return the mask (T,) of the intervals in ``text``: ``10..120`` (rows from 1, both ends included, either may be missing)
    or two times joined by ``..`` (``2026-11-20T23:40..2026-11-20T23:50``). Empty: all. Raises BadWindow."""
    count = len(work.y)
    if not text.strip():
        return np.ones(count, bool)
    rows = _ROWS.fullmatch(text)
    if rows:
        low, high = rows.groups()
        index = np.arange(1, count + 1)
        return (index >= int(low or 1)) & (index <= int(high or count))
    first, dots, last = text.partition("..")
    start, end = instant_ms(first) if first else 0, instant_ms(last) if last else 1 << 62
    if not dots or start is None or end is None:
        raise BadWindow(f"{text!r} is neither rows (10..120) nor two times (2026-11-20T23:40..2026-11-20T23:50)")
    return (work.start_ms >= start) & (work.end_ms <= end)
