"""The profile: which intervals are looked at, how classes are grouped, ranked and filtered, and two windows compared."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from engine.formats.timestamps import instant_ms
from engine.query_profile.reading.fingerprint import verb
from engine.query_profile.workloads.workload import ClassInfo, Workload

_ROWS = re.compile(r"\s*(\d*)\s*(?:\.\.|:|-)\s*(\d*)\s*")
OTHERS = "Others"


class BadWindow(ValueError):
    """A window that cannot be read; the message says what would do."""


def window(work: Workload, text: str) -> np.ndarray:
    """Mask (T,) of the intervals in ``text``: ``10..120`` (rows, 1-based, both ends in, either may be missing) or two
    times joined by ``..`` (``2026-11-20T23:40..2026-11-20T23:50``). Empty: all."""
    count = len(work.y)
    if not text.strip():
        return np.ones(count, bool)
    found = _ROWS.fullmatch(text)
    if found:
        low, high = found.groups()
        index = np.arange(1, count + 1)
        return (index >= int(low or 1)) & (index <= int(high or count))
    first, dots, last = text.partition("..")
    start, end = instant_ms(first) if first else 0, instant_ms(last) if last else 1 << 62
    if not dots or start is None or end is None:
        raise BadWindow(f"{text!r} is neither rows (10..120) nor two times (2026-11-20T23:40..2026-11-20T23:50)")
    return (work.start_ms >= start) & (work.end_ms <= end)


def group(work: Workload, by: str) -> tuple[np.ndarray, list[str]]:
    """Group of each class (J,) and the groups' names in order of first appearance. ``by``: class, verb, user, database."""
    if by == "class":
        return np.arange(len(work.classes)), [info.name for info in work.classes]
    names: dict[str, int] = {}
    place = np.empty(len(work.classes), np.int64)
    for i, info in enumerate(work.classes):
        place[i] = names.setdefault(_member(info, by) or "(none)", len(names))
    return place, list(names)


def _member(info: ClassInfo, by: str) -> str:
    if by == "verb":
        return verb(info.query) if info.query else info.name.partition(".")[0]
    return info.user if by == "user" else info.database


def matches(info: ClassInfo, wanted: str) -> bool:
    """Whether a class meets a text filter: every word somewhere in its name, query, user or database."""
    heap = " ".join((info.name, info.query, info.user, info.database)).lower()
    return all(word in heap for word in wanted.lower().split())


def sparks(table: np.ndarray, points: int) -> np.ndarray:
    """(J, points) sums of (T, J) over equal stretches of the common time axis."""
    rows = len(table)
    if not rows:
        return np.zeros((table.shape[1], 0))
    edges = np.linspace(0, rows, min(points, rows) + 1).astype(int)
    return np.add.reduceat(table, edges[:-1], axis=0).T


@dataclass(frozen=True)
class Side:
    """One window of a comparison, per second (or per interval): times, calls, latency and CPU per class (J,)."""

    x: np.ndarray
    calls: np.ndarray
    latency: np.ndarray
    y: np.ndarray


def side(work: Workload, pick: np.ndarray, y_by_class: np.ndarray | None) -> Side:
    """Sums of the picked intervals; ``y_by_class`` (T, J) the attribution, or None."""
    seconds = work.seconds[pick]
    length = float(seconds.sum()) if len(seconds) and np.isfinite(seconds).all() else float(max(pick.sum(), 1))
    x = work.x[pick].sum(axis=0)
    none = np.full(len(x), np.nan)
    calls = work.calls[pick].sum(axis=0) if work.calls is not None else none
    with np.errstate(divide="ignore", invalid="ignore"):
        latency = np.where(calls > 0, x / calls, np.nan)
    y = y_by_class[pick].sum(axis=0) / length if y_by_class is not None else none
    return Side(x / length, calls / length, latency, y)
