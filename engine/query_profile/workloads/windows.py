"""Choose the intervals to look at, and sum a window for a comparison with another one."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from engine.formats.timestamps import instant_ms
from engine.query_profile.workloads.workload import Workload

_ROWS = re.compile(r"\s*(\d*)\s*(?:\.\.|:|-)\s*(\d*)\s*")


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


@dataclass(frozen=True)
class Side:
    """One window of a comparison, per second (or per interval): times, calls, latency and CPU per class (J,)."""

    x: np.ndarray
    calls: np.ndarray
    latency: np.ndarray
    y: np.ndarray


def side(work: Workload, pick: np.ndarray, y_by_class: np.ndarray | None) -> Side:
    """Sum the intervals ``pick`` (mask (T,)) by class; ``y_by_class`` (T, J): their CPU, or None."""
    seconds = work.seconds[pick]
    length = float(seconds.sum()) if len(seconds) and np.isfinite(seconds).all() else float(max(pick.sum(), 1))
    unknown = np.full(len(work.classes), np.nan)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x = work.x[pick].sum(axis=0)
        calls = work.calls[pick].sum(axis=0) if work.calls is not None else unknown
        latency = np.where(calls > 0, x / calls, np.nan)
    y = y_by_class[pick].sum(axis=0) / length if y_by_class is not None else unknown
    return Side(x / length, calls / length, latency, y)
