"""The workload of one server: what each query class did in each interval, and what the host used meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.query_profile.wlr.regression import HUGE


@dataclass(frozen=True)
class ClassInfo:
    """Identity and text of one query class. ``nested``: ran inside a function, not at top level."""

    name: str
    queryid: str = ""
    query: str = ""
    user: str = ""
    database: str = ""
    nested: bool = False


@dataclass(frozen=True)
class Workload:
    """The work of one server: T intervals by J classes.

    ``label``: name on screen; ``kind``: format. ``metrics``: (T, J) per name, at least ``time_us``; ``y``: (T,) resource
    use of the interval in microseconds (NaN where unknown); ``start_ms``/``end_ms``: (T,) epoch milliseconds, or -1;
    ``reasons``: per interval why it is doubtful (empty: it is not). ``y_name`` and ``y_source`` name the resource and where
    it comes from; ``cores`` of the host, NaN if unknown; ``is_table``: a WLR CSV, whose doubtful rows VividCortex' program
    would take as they are. ``resources``: names of the host's series that can be y; ``returns``: how often a snapshot
    continues an earlier one than its predecessor, where the snapshots of several servers seem to be mixed; ``counted``: share of
    the elapsed time whose CPU the server itself counted by class.
    """

    label: str
    kind: str
    classes: tuple[ClassInfo, ...]
    metrics: dict[str, np.ndarray]
    y: np.ndarray
    start_ms: np.ndarray
    end_ms: np.ndarray
    reasons: tuple[str, ...]
    y_name: str = ""
    y_source: str = ""
    cores: float = float("nan")
    is_table: bool = False
    notes: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    returns: int = 0
    counted: float = 0.0

    @property
    def seconds(self) -> np.ndarray:
        """Lengths (T,) of the intervals, NaN where unknown."""
        known = (self.start_ms >= 0) & (self.end_ms >= 0)
        return np.where(known, (self.end_ms - self.start_ms) / 1000, np.nan)

    @property
    def x(self) -> np.ndarray:
        """Elapsed time (T, J), microseconds."""
        return self.metrics["time_us"]

    @property
    def calls(self) -> np.ndarray | None:
        """Executions (T, J), or None where the source has none."""
        return self.metrics.get("calls")

    @property
    def used(self) -> np.ndarray:
        """Mask (T,) of the intervals without a doubt and with a y that can be one: those that fits use."""
        clear = np.array([not reason for reason in self.reasons], bool)
        return np.asarray(clear & (np.abs(self.y) < HUGE))

    def rows(self, pick: np.ndarray) -> Workload:
        """Return only the intervals that ``pick`` (indices or mask) selects."""
        index = np.flatnonzero(pick) if pick.dtype == bool else pick
        return replace(
            self,
            metrics={name: values[index] for name, values in self.metrics.items()},
            y=self.y[index],
            start_ms=self.start_ms[index],
            end_ms=self.end_ms[index],
            reasons=tuple(self.reasons[i] for i in index),
        )

    def with_y(self, y: np.ndarray, name: str, source: str) -> Workload:
        """Return the same work with another resource."""
        return replace(self, y=y, y_name=name, y_source=source)


def unique_names(names: list[str], more: Sequence[tuple[str, ...]]) -> list[str]:
    """Make ``names`` unique: equal ones get those parts of ``more`` that differ, in parentheses, else a number."""
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        groups.setdefault(name, []).append(i)
    out = list(names)
    for name, members in groups.items():
        if len(members) < 2:
            continue
        parts = [p for p in range(len(more[0])) if len({more[i][p] for i in members}) > 1]
        for position, i in enumerate(members):
            suffix = ", ".join(more[i][p] for p in parts if more[i][p]) or str(position + 1)
            out[i] = f"{name} ({suffix})"
        if len({out[i] for i in members}) < len(members):
            for position, i in enumerate(members):
                out[i] = f"{out[i]} #{position + 1}"
    return out
