"""Windows: samples to one value per partition, metric and window, extrapolated as in Cruise Control.

See "Windows", "Extrapolation" and "Valid partitions" in docs/models/broker-load.md. Source: ``RawMetricValues`` and
``MetricSampleAggregator``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.broker_load.cruise_control.window_sums import LATEST, Singles, WindowSums
from engine.broker_load.model.topology import Flags, Floats, Ints, Longs
from engine.broker_load.parameters import CpuWeights
from engine.broker_load.tables.raw_metrics import SAMPLE

States = npt.NDArray[np.int8]

EXTRAPOLATIONS = ("NONE", "AVG_AVAILABLE", "AVG_ADJACENT", "FORCED_INSUFFICIENT", "NO_VALID_EXTRAPOLATION")
"""Cruise Control's names (enum ``Extrapolation``); the position is the code used in arrays."""

NONE, AVAILABLE, ADJACENT, FORCED, INVALID = range(5)


@dataclass(frozen=True, eq=False)
class Finished:
    """N finished samples in arrival order: partition index [N], time [N] epoch ms, nine values [9, N]."""

    partition: Ints
    time_ms: Longs
    values: Floats


@dataclass(frozen=True, eq=False)
class Window:
    """One window: its ``index``, the sums over its rounds with the place [P] of each partition in them (None: the same; -1:
    absent), and the finished samples in it. Values are computed when they are asked for."""

    index: int
    size: int
    sums: WindowSums | None
    where: Ints | None
    weights: CpuWeights
    finished: Finished | None = None
    _known: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    @property
    def count(self) -> Ints:
        """[P] number of samples."""
        if "count" not in self._known:
            count = np.zeros(self.size, np.int32) if self.sums is None else self._placed(self.sums.count)
            if self.finished is not None:
                count = count + np.bincount(self.finished.partition, minlength=self.size).astype(np.int32)
            self._known["count"] = count
        return self._known["count"]

    def total(self, name: str) -> Singles:
        """Return the sum [P] of the metric over the samples, in single precision; for the disk the sample that arrived last."""
        if name not in self._known:
            sums = self.sums
            total = np.zeros(self.size, np.float32) if sums is None else self._placed(sums.total(name, self.weights))
            self._known[name] = total if self.finished is None else self._with_finished(total.copy(), name)
        return self._known[name]

    def value(self, name: str) -> Singles:
        """Return the mean [P] of the metric over the samples (0 without any); for the disk the sample that arrived last."""
        total = self.total(name)
        if name == LATEST or self.most <= 1:
            return total
        mean: Singles = np.divide(total, np.maximum(self.count, 1), dtype=np.float32)
        return mean

    @cached_property
    def most(self) -> int:
        """Most samples of a partition."""
        return int(self.count.max(initial=0))

    def _placed(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return ``values`` of the rounds' partitions by partition [P], 0 where the rounds have none."""
        return values if self.where is None else np.where(self.where >= 0, values[self.where], values.dtype.type(0))

    def _with_finished(self, total: Singles, name: str) -> Singles:
        assert self.finished is not None
        values = self.finished.values[SAMPLE.index(name)]
        if name == LATEST:
            total[self.finished.partition] = values  # later assignments win, so the sample that arrived last stays
        else:
            total += np.bincount(self.finished.partition, weights=values, minlength=self.size)
        return total


@dataclass(frozen=True, eq=False)
class Aggregate:
    """The windows that are used, newest first, with the extrapolation code of every partition in each.

    ``states``: per window [P] codes of EXTRAPOLATIONS, or None where all are NONE. ``valid`` [P]: no window invalid
    and not too many extrapolated. ``enough``: Cruise Control would find enough valid windows. ``offered``: all windows it
    chose from, newest first and without a gap in time.
    """

    windows: tuple[Window, ...]
    states: tuple[States | None, ...]
    valid: Flags
    enough: bool
    offered: tuple[Window, ...]
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
        return [self.value(place, name) for place in range(len(self.windows))]

    def value(self, place: int, name: str) -> Singles:
        """Return the value [P] of a metric in the window at ``place`` after extrapolation; 0 where nothing extrapolates."""
        here, states = self.windows[place], self.states[place]
        value = here.value(name)
        if states is None:
            return value
        between = states == ADJACENT
        if not between.any():
            return value
        at = self.offered[0].index - here.index
        older, newer = self.offered[at + 1], self.offered[at - 1]
        own = here.count[between]
        total = older.total(name)[between] + here.total(name)[between] + newer.total(name)[between]
        number = np.where(own > 0, 3, 2) if name == LATEST else older.count[between] + own + newer.count[between]
        value = value.copy()
        value[between] = total / number
        return value

    def mean(self, name: str) -> Floats:
        """Return the mean [P] over the windows, gaps counting as 0."""
        total = np.zeros(self.size)
        for value in self.series(name):
            total += value
        return total / max(len(self.windows), 1)

    def latest(self, name: str) -> Floats:
        """Return the value [P] in the newest window, 0 without any."""
        return self.value(0, name).astype(np.float64) if self.windows else np.zeros(self.size)


def choose(indices: Sequence[int], at_ms: int | None, window_ms: int, wanted: int) -> list[int]:
    """Return the indices of the windows to look at, newest first, given the ``indices`` of those that hold samples.

    At ``at_ms`` these are the ``wanted`` windows before the one that the moment is in; without it, those before the newest
    one with samples, which is still open. Where they hold no sample at all it is the newest ones that do. Windows without
    any sample belong to the range, as Cruise Control counts windows by time.
    """
    if not indices:
        return []
    newest, oldest = max(indices), min(indices)
    last = newest - 1 if at_ms is None else at_ms // window_ms
    if last < oldest or last - wanted >= newest:
        last = newest
    return list(range(last, max(oldest, last - max(wanted, 1) + 1) - 1, -1))


def aggregate(
    offered: Sequence[Window], before: Window | None, window_ms: int, minimum: int, allowed: int, topic: Ints,
    stand_in: bool = False,
) -> Aggregate:  # fmt: skip
    """Extrapolate the ``offered`` windows (newest first) and use each, from the newest on, that leaves enough partitions
    valid; one that does not is skipped.

    ``before``: the window before all of them, where Cruise Control has held it once; ``minimum`` samples a full window
    needs; ``allowed`` extrapolated windows per partition; ``topic`` [P] for the rule that at least one whole topic must stay
    valid; ``stand_in``: the windows are not those that Cruise Control would look at.
    """
    size = len(topic)
    states = [_states(offered, place, minimum) for place in range(len(offered))]
    remembered = _remembered(offered, before, minimum)
    valid, stretched = np.ones(size, np.bool_), np.zeros(size, np.int32)
    members = np.bincount(topic)
    used = []
    for place, found in enumerate(states):
        now_valid, now_stretched = valid, stretched
        if found is not None:
            # The value of a window is invalid, yet the partition counts as valid, where it was once extrapolated.
            kept = remembered if place == len(offered) - 1 else np.zeros(size, np.bool_)
            now_stretched = stretched + (((found > NONE) & (found < INVALID)) | kept)
            now_valid = valid & ((found != INVALID) | kept) & (now_stretched <= allowed)
        if (np.bincount(topic[now_valid], minlength=len(members)) == members).any():
            valid, stretched = now_valid, now_stretched
            used.append(place)
    enough = bool(used) and not stand_in
    if not used:
        # Cruise Control would refuse; the newest window with samples is shown anyway, with a note.
        newest = next((place for place, window in enumerate(offered) if window.most), 0)
        used, valid = [newest][: len(offered)], np.zeros(size, np.bool_)
        for found in states[newest : newest + 1]:
            valid = np.ones(size, np.bool_) if found is None else (found != INVALID) & ((found == NONE) | (allowed > 0))
    return Aggregate(
        tuple(offered[place] for place in used),
        tuple(states[place] for place in used),
        valid,
        enough,
        tuple(offered),
        window_ms,
    )


def _states(offered: Sequence[Window], place: int, minimum: int) -> States | None:
    """Return the extrapolation codes [P] of the window at ``place``, None where all are NONE."""
    count = offered[place].count
    if count.min(initial=minimum) >= minimum:
        return None
    state = np.where(count < minimum, AVAILABLE, NONE).astype(np.int8)
    low = count < max(1, minimum // 2)
    state[low] = np.where(count[low] > 0, FORCED, INVALID)
    if 0 < place < len(offered) - 1:
        state[low & (offered[place - 1].count >= minimum) & (offered[place + 1].count >= minimum)] = ADJACENT
    return state


def _remembered(offered: Sequence[Window], before: Window | None, minimum: int) -> Flags:
    """Return which partitions [P] count as valid in the oldest window though it has no sample of them: while the window
    ``before`` was held, both neighbours were full. Cruise Control finds that out when the next window with samples begins."""
    if before is None or len(offered) < 3 or not any(window.most for window in offered[:-2]):
        return np.zeros(offered[0].size if offered else 0, np.bool_)
    return np.asarray((offered[-1].count == 0) & (before.count >= minimum) & (offered[-2].count >= minimum), np.bool_)
