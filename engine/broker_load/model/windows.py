"""Windows: samples to one value per partition, metric and window, extrapolated as in Cruise Control.

See "Windows", "Extrapolation" and "Valid partitions" in docs/models/broker-load.md. Source: ``RawMetricValues`` and
``MetricSampleAggregator``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.broker_load.model.samples import Samples
from engine.broker_load.model.topology import Flags, Floats, Ints, Longs
from engine.broker_load.tables.raw_metrics import SAMPLE

Singles = npt.NDArray[np.float32]

EXTRAPOLATIONS = ("NONE", "AVG_AVAILABLE", "AVG_ADJACENT", "FORCED_INSUFFICIENT", "NO_VALID_EXTRAPOLATION")
"""Cruise Control's names (enum ``Extrapolation``); the position is the code used in arrays."""

NONE, AVAILABLE, ADJACENT, FORCED, INVALID = range(5)
LATEST = "disk_usage"
"""The metric of which the newest sample counts, not the mean."""
CPU = "cpu_usage"
TINY = float(np.float32(1.401298464324817e-45))
"""Java's Float.MIN_VALUE: what Cruise Control's maximum of an all-zero series starts from."""


@dataclass(frozen=True, eq=False)
class Finished:
    """N finished samples in arrival order: partition index [N], time [N] epoch ms, nine values [9, N]."""

    partition: Ints
    time_ms: Longs
    values: Floats


@dataclass(frozen=True, eq=False)
class Window:
    """One window: its ``index``, the samples of each round in it in order of time with the map of their partitions to those
    of the final topology (None: the same), and the finished samples in it.

    Values are computed when they are asked for. Those that do not depend on the CPU weights are kept in ``shared``, which
    windows of the same rounds with other weights have in common.
    """

    index: int
    size: int
    rounds: Sequence[tuple[Samples, Ints | None]]
    finished: Finished | None = None
    shared: dict[str, Any] = field(default_factory=dict)
    _cpu: dict[str, Singles] = field(default_factory=dict)

    @property
    def count(self) -> Ints:
        """[P] number of samples."""
        if "count" not in self.shared:
            count = np.zeros(self.size, np.int32)
            for samples, where in self.rounds:
                _add(count, samples.rule == 0, where)
            if self.finished is not None:
                count += np.bincount(self.finished.partition, minlength=self.size).astype(np.int32)
            self.shared["count"] = count
        counts: Ints = self.shared["count"]
        return counts

    def value(self, name: str) -> Singles:
        """Return the mean [P] of the metric over the samples (0 without any); for the disk the sample that arrived last."""
        values: dict[str, Singles] = self._cpu if name == CPU else self.shared
        if name not in values:
            values[name] = self._latest() if name == LATEST else self._mean(name)
        return values[name]

    def _mean(self, name: str) -> Singles:
        total = np.zeros(self.size)
        for samples, where in self.rounds:
            _add(total, np.where(samples.rule == 0, samples.value(name), 0.0), where)
        if self.finished is not None:
            values = self.finished.values[SAMPLE.index(name)]
            total += np.bincount(self.finished.partition, weights=values, minlength=self.size)
        return (total / np.maximum(self.count, 1)).astype(np.float32)

    def _latest(self) -> Singles:
        value = np.zeros(self.size)
        for samples, where in self.rounds:
            mine, has = samples.value(LATEST), samples.rule == 0
            if where is None:
                np.copyto(value, mine, where=has)
            else:
                has = has & (where >= 0)
                value[where[has]] = mine[has]
        if self.finished is not None:
            # Later assignments win, so the sample that arrived last stays.
            value[self.finished.partition] = self.finished.values[SAMPLE.index(LATEST)]
        return value.astype(np.float32)


def _add(target: npt.NDArray[Any], values: npt.NDArray[Any], where: Ints | None) -> None:
    if where is None:
        target += values
    else:
        keep = where >= 0
        target[where[keep]] += values[keep]  # partitions are distinct, so plain indexing adds each once


@dataclass(frozen=True, eq=False)
class Aggregate:
    """The windows used, newest first, with the extrapolation code of every partition in each.

    ``states``: per window [P] codes of EXTRAPOLATIONS, or None where all are NONE. ``valid`` [P]: no window invalid
    and not too many extrapolated. ``enough``: Cruise Control would find enough valid windows. ``offered``: windows there
    were before any was given up.
    """

    windows: tuple[Window, ...]
    states: tuple[npt.NDArray[np.int8] | None, ...]
    valid: Flags
    minimum: int
    enough: bool
    offered: int
    window_ms: int

    @property
    def size(self) -> int:
        """Number of partitions P."""
        return len(self.valid)

    def ends_ms(self) -> list[int]:
        """Return the end of each window, newest first, epoch ms."""
        return [window.index * self.window_ms for window in self.windows]

    def series(self, name: str) -> list[Singles]:
        """Return per window the value [P] of a metric after extrapolation."""
        return [self._value(place, name) for place in range(len(self.windows))]

    def _value(self, place: int, name: str) -> Singles:
        value = self.windows[place].value(name)
        states = self.states[place]
        if states is None:
            return value
        gone, between = states == INVALID, states == ADJACENT
        if not gone.any() and not between.any():
            return value
        value = value.copy()
        value[gone] = 0
        if between.any():
            here, older, newer = self.windows[place], self.windows[place + 1], self.windows[place - 1]
            trio = [(w.value(name)[between].astype(np.float64), w.count[between]) for w in (older, here, newer)]
            if name == LATEST:
                some = trio[1][1] > 0
                total = trio[0][0] + trio[2][0] + np.where(some, trio[1][0], 0.0)
                value[between] = total / np.where(some, 3, 2)
            else:
                pooled = sum(v * n for v, n in trio)
                value[between] = pooled / sum(n for _, n in trio)
        return value

    def mean(self, name: str) -> Floats:
        """Return the mean [P] over the windows, gaps counting as 0."""
        total = np.zeros(self.size)
        for value in self.series(name):
            total += value
        return total / max(len(self.windows), 1)

    def maximum(self, name: str) -> Floats:
        """Return the maximum [P] over the windows, as in Cruise Control never below the smallest positive float."""
        best = np.full(self.size, np.float32(TINY))
        for value in self.series(name):
            np.maximum(best, value, out=best)
        return best.astype(np.float64)

    def latest(self, name: str) -> Floats:
        """Return the value [P] in the newest window, 0 without any."""
        return self._value(0, name).astype(np.float64) if self.windows else np.zeros(self.size)


def choose(indices: Sequence[int], at_ms: int | None, window_ms: int, wanted: int) -> list[int]:
    """Return the indices of the windows to use, newest first, of those that hold samples.

    The newest is open and left out, unless it is the only one or ``at_ms`` is at or past its end. Windows in between
    without any sample belong to the range, as Cruise Control counts windows by time.
    """
    if not indices:
        return []
    newest, oldest = max(indices), min(indices)
    closed = at_ms is not None and at_ms >= newest * window_ms
    if newest != oldest and not closed:
        newest -= 1
    return list(range(newest, max(oldest, newest - max(wanted, 1) + 1) - 1, -1))


def aggregate(
    windows: Sequence[Window], window_ms: int, minimum: int, allowed: int, topic: Ints, ratio: float = 0.0
) -> Aggregate:
    """Extrapolate ``windows`` (newest first) and use them, newest first, while enough partitions stay valid.

    ``minimum`` samples a full window needs; ``allowed`` extrapolated windows per partition; ``topic`` [P] for the rule
    that at least one whole topic must stay valid; ``ratio`` of valid partitions asked for.
    """
    size = len(topic)
    half = max(1, minimum // 2)
    counts = [window.count for window in windows]
    full = [bool(count.min(initial=minimum) >= minimum) for count in counts]
    states: list[npt.NDArray[np.int8] | None] = []
    for place, count in enumerate(counts):
        if full[place]:
            states.append(None)
            continue
        state = np.full(size, NONE, np.int8)
        state[count < minimum] = AVAILABLE
        low = count < half
        state[low] = np.where(count[low] > 0, FORCED, INVALID)
        if 0 < place < len(windows) - 1:
            around = low & (counts[place - 1] >= minimum) & (counts[place + 1] >= minimum)
            state[around] = ADJACENT
        states.append(state)
    bad = np.zeros(size, np.bool_)
    stretched = np.zeros(size, np.int32)
    used, enough = 0, False
    topics = int(topic.max(initial=-1)) + 1
    members = np.bincount(topic, minlength=topics)
    for found in states:
        if found is None:
            now_bad, now_stretched = bad, stretched
        else:
            now_bad, now_stretched = bad | (found == INVALID), stretched + ((found > NONE) & (found < INVALID))
        valid = ~now_bad & (now_stretched <= allowed)
        whole = np.bincount(topic[valid], minlength=topics)
        if not (valid.sum() >= ratio * size and (whole[members > 0] == members[members > 0]).any()):
            break
        bad, stretched, used, enough = now_bad, now_stretched, used + 1, True
    if not used:
        # Cruise Control would refuse; the newest window is shown anyway, with a note.
        used = min(1, len(windows))
        for found in states[:used]:
            if found is not None:
                bad, stretched = found == INVALID, ((found > NONE) & (found < INVALID)).astype(np.int32)
    edge = states[:used]
    if used and used < len(windows) and (last := edge[-1]) is not None and (last == ADJACENT).any():
        # The oldest kept window lost its neighbour: extrapolate again without the windows given up.
        return aggregate(windows[:used], window_ms, minimum, allowed, topic, ratio)
    return Aggregate(
        tuple(windows[:used]),
        tuple(edge),
        ~bad & (stretched <= allowed) if used else np.zeros(size, np.bool_),
        minimum,
        enough,
        len(windows),
        window_ms,
    )
