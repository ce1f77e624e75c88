"""Windows: samples to one value per partition, metric and window, extrapolated as in Cruise Control.

A window's value is a sum over its samples, so a finished window needs its sums only, not its rounds. Sums are in single
precision and added up in order of time, as in Cruise Control. See "Windows", "Memory", "Extrapolation" and "Valid
partitions" in docs/models/broker-load.md. Source: ``RawMetricValues`` and ``MetricSampleAggregator``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from engine.broker_load.cruise_control import samples
from engine.broker_load.cruise_control.samples import CpuSplit, SkipRules
from engine.broker_load.model import history, measured, rounds
from engine.broker_load.model.rounds import BrokerRun, Round
from engine.broker_load.model.topology import Flags, Floats, Ints, Longs, Partitions, Topology
from engine.broker_load.parameters import CpuWeights
from engine.broker_load.tables.raw_metrics import SAMPLE

Singles = npt.NDArray[np.float32]
Cores = Callable[[Topology], Floats]  # returns the cores [B] of the brokers of a topology, NaN unknown

LATEST = "disk_usage"  # the metric of which the newest sample counts, not the mean
CPU = "cpu_usage"


class Trace(msgspec.Struct, frozen=True, eq=False):
    """What is kept of every window.

    For its N rounds: ``moments``, the number of partitions with a sample (``taken``), the ``runs`` of what brokers reported, and
    ``broker_samples`` with their number by round. For its ``partitions`` [P]: whether any round ``sampled`` them, and the
    skip ``rule`` of the newest round. ``rated``: ids of brokers that reported rates by topic, or that they are idle.
    """

    index: int
    moments: tuple[int, ...]
    taken: tuple[int, ...]
    runs: tuple[BrokerRun, ...]
    broker_samples: pl.DataFrame
    broker_counts: tuple[int, ...]
    partitions: Partitions
    sampled: Flags
    rule: SkipRules
    rated: frozenset[int]


def _rated(one: Round) -> list[int]:
    """Return the ids of brokers that reported a rate of a topic they lead, or that they are idle."""
    idle = (np.nan_to_num(one.reported[:2], nan=1.0) == 0).all(axis=0)
    idle[one.topology.groups[1][one.rates.any(axis=0)]] = True
    return list(one.topology.ids[idle].tolist())


class WindowSums(msgspec.Struct, frozen=True, eq=False):
    """Sums over the samples of one window: ``count`` [P] of its ``partitions``, and ``sizes`` [P, R] by topology, newest first.

    CPU sums are available for any weights.
    """

    partitions: Partitions
    count: Ints
    sizes: tuple[tuple[Topology, Floats], ...]
    _totals: Mapping[str, Singles]
    _splits: tuple[tuple[CpuSplit, Flags, Ints | None], ...]
    _cpu: dict[CpuWeights, Singles] = msgspec.field(default_factory=dict)

    def total(self, name: str, weights: CpuWeights) -> Singles:
        """Return the sum [P] of the metric; for the disk the sample that arrived last."""
        if name != CPU:
            return self._totals[name]
        if weights not in self._cpu:
            total = np.zeros(len(self.count), np.float32)
            for split, has, where in self._splits:
                _add(total, samples.of_group(split.cpu(weights), split.topology), has, where)
            self._cpu.clear()
            self._cpu[weights] = total
        return self._cpu[weights]

    @property
    def nbytes(self) -> int:
        """Bytes of memory, roughly."""
        arrays: list[npt.NDArray[Any]] = [self.count, *self._totals.values(), *self._cpu.values()]
        arrays += [size for _, size in self.sizes]
        arrays += [each for split, has, _ in self._splits for each in (split.took_in, split.took_out, has)]
        return sum(array.nbytes for array in arrays)


def trace(index: int, moments: Sequence[int], members: Sequence[Round], cores: Cores) -> Trace:
    """Return the trace of window ``index`` with rounds ``members`` at ``moments``."""
    partitions, places = _together(members)
    sampled, rule = np.zeros(partitions.size, np.bool_), np.zeros(partitions.size, np.int8)
    taken = []
    for one in members:
        mine, where = samples.skip_rules(one, cores(one.topology)), places[one.topology]
        taken.append(int(np.count_nonzero(mine == 0)))
        if where is None:
            sampled |= mine == 0
            rule = mine
        else:
            sampled[where[mine == 0]] = True
            rule[where] = mine
    by_topology = (list(run) for _, run in itertools.groupby(members, key=lambda one: id(one.topology)))
    frames = [samples.broker_samples(run, cores(run[0].topology)) for run in by_topology]
    rows = pl.concat(frames) if frames else pl.DataFrame()
    times = rows["time_ms"].to_numpy() if rows.height else np.empty(0, np.int64)
    counts = tuple(int(np.count_nonzero(times == one.time_ms)) for one in members)
    rated = frozenset[int]().union(*(_rated(one) for one in members))
    return Trace(
        index, tuple(moments), tuple(taken), rounds.runs(members), rows, counts, partitions, sampled, rule, rated
    )


def add_up(members: Sequence[Round], cores: Cores) -> WindowSums:
    """Add up the samples of the rounds ``members`` of one window, given in order of time."""
    partitions, places = _together(members)
    count = np.zeros(partitions.size, np.int32)
    totals = {name: np.zeros(partitions.size, np.float32) for name in SAMPLE if name not in (CPU, LATEST)}
    latest = np.zeros(partitions.size)
    splits: list[tuple[CpuSplit, Flags, Ints | None]] = []
    for one in members:
        own, where = cores(one.topology), places[one.topology]
        has = samples.skip_rules(one, own) == 0
        _add(count, has, has, where)
        for name, total in totals.items():
            _add(total, samples.value_of(one, name), has, where)
        newest = samples.value_of(one, LATEST)
        if where is None:
            np.copyto(latest, newest, where=has)
        else:
            latest[where[has]] = newest[has]
        if splits and np.array_equal(splits[-1][1], has):
            has = splits[-1][1]  # share the array: it is the same in nearly all rounds
        splits.append((samples.cpu_split(one, own), has, where))
    totals[LATEST] = latest.astype(np.float32)
    return WindowSums(partitions, count, measured.newest_sizes(members), totals, tuple(splits))


def _add(target: npt.NDArray[Any], values: npt.NDArray[Any], has: Flags, where: Ints | None) -> None:
    """Add ``values`` where ``has`` to ``target``, in the target's precision after each addition."""
    if where is None:
        np.add(target, values, out=target, where=has, casting="same_kind")
    else:
        # Partitions are distinct, so plain indexing adds each once.
        target[where[has]] = target[where[has]] + values[has]


def _together(members: Sequence[Round]) -> tuple[Partitions, dict[Topology, Ints | None]]:
    """Return all partitions of ``members``, and for each topology the places of its partitions among them (None: the same)."""
    every = list(dict.fromkeys(one.topology for one in members))
    if not every:
        return Partitions((), np.empty(0, np.int32), np.empty(0, np.int32)), {}
    whole = every[-1].alone
    if any(history.partition_map(one, whole) is not None for one in every):
        keys = [pl.DataFrame({"topic": one.topic_names, "partition": one.partition}) for one in every]
        known = pl.concat(keys).unique().sort("topic", "partition")
        names = known["topic"].unique().sort()
        codes = known["topic"].cast(pl.Enum(names)).to_physical().cast(pl.Int32)
        whole = Partitions(tuple(names.to_list()), codes.to_numpy(), known["partition"].to_numpy())
    return whole, {one: history.partition_map(one, whole) for one in every}


States = npt.NDArray[np.int8]

EXTRAPOLATIONS = ("NONE", "AVG_AVAILABLE", "AVG_ADJACENT", "FORCED_INSUFFICIENT", "NO_VALID_EXTRAPOLATION")
"""Cruise Control's names (enum ``Extrapolation``); the position is the code used in arrays."""

NONE, AVAILABLE, ADJACENT, FORCED, INVALID = range(5)


class Finished(msgspec.Struct, frozen=True, eq=False):
    """N finished samples in arrival order: partition index [N], time [N] epoch ms, nine values [9, N]."""

    partition: Ints
    time_ms: Longs
    values: Floats


class Window(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One window: its ``index``, the sums over its rounds, the place [P] of each partition in them (None: the same; -1: absent),
    and the finished samples in it. Values are computed on demand."""

    index: int
    size: int
    sums: WindowSums | None
    where: Ints | None
    weights: CpuWeights
    finished: Finished | None = None

    @cached_property
    def count(self) -> Ints:
        """[P] number of samples."""
        count = np.zeros(self.size, np.int32) if self.sums is None else self._placed(self.sums.count)
        if self.finished is None:
            return count
        return count + np.bincount(self.finished.partition, minlength=self.size).astype(np.int32)

    def total(self, name: str) -> Singles:
        """Return the sum [P] of the metric over the samples, in single precision; for the disk the sample that arrived last."""
        sums, more = self.sums, self.finished
        total = np.zeros(self.size, np.float32) if sums is None else self._placed(sums.total(name, self.weights))
        if more is None:
            return total
        total, values = total.copy(), more.values[SAMPLE.index(name)]
        if name == LATEST:
            total[more.partition] = values  # later assignments win, so the sample that arrived last stays
        else:
            total += np.bincount(more.partition, weights=values, minlength=self.size)
        return total

    def value(self, name: str) -> Singles:
        """Return the mean [P] of the metric over the samples (0 without any); for the disk the sample that arrived last."""
        total = self.total(name)
        if name == LATEST or self.most <= 1:
            return total
        return np.divide(total, np.maximum(self.count, 1), dtype=np.float32)

    @cached_property
    def most(self) -> int:
        """Most samples of a partition."""
        return int(self.count.max(initial=0))

    def _placed(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return ``values`` of the rounds' partitions by partition [P], 0 where the rounds have none."""
        return values if self.where is None else np.where(self.where >= 0, values[self.where], values.dtype.type(0))


class Aggregate(msgspec.Struct, frozen=True, eq=False):
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
        return sum(self.series(name), np.zeros(self.size)) / max(len(self.windows), 1)

    def latest(self, name: str) -> Floats:
        """Return the value [P] in the newest window, 0 without any."""
        return self.value(0, name).astype(np.float64) if self.windows else np.zeros(self.size)


def choose(indices: Sequence[int], at_ms: int | None, window_ms: int, wanted: int) -> list[int]:
    """Return the indices of the windows to look at, newest first, given the ``indices`` of those that hold samples.

    With ``at_ms``: the ``wanted`` windows before the one that contains it; else those before the newest one with samples,
    which is still open. If these hold no sample, the newest windows with samples. Windows without samples count, as Cruise
    Control counts windows by time.
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
    """Extrapolate the ``offered`` windows (newest first) and use those that leave at least one whole topic valid.

    ``before``: the window before them, if Cruise Control once held it; ``minimum``: samples of a full window; ``allowed``:
    extrapolated windows per partition; ``topic`` [P]; ``stand_in``: Cruise Control would look at other windows.
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
            # A partition once extrapolated in this window still counts as valid, though the value is invalid.
            kept = remembered if place == len(offered) - 1 else np.zeros(size, np.bool_)
            now_stretched = stretched + (((found > NONE) & (found < INVALID)) | kept)
            now_valid = valid & ((found != INVALID) | kept) & (now_stretched <= allowed)
        if (np.bincount(topic[now_valid], minlength=len(members)) == members).any():
            valid, stretched = now_valid, now_stretched
            used.append(place)
    enough = bool(used) and not stand_in
    if not used:
        # Cruise Control would refuse: show the newest window with samples, with a note.
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
    """Return which partitions [P] count as valid in the oldest window without a sample in it.

    Both neighbours were full while the window ``before`` was held; Cruise Control notices that when the next window with
    samples begins.
    """
    if before is None or len(offered) < 3 or not any(window.most for window in offered[:-2]):
        return np.zeros(offered[0].size if offered else 0, np.bool_)
    return np.asarray((offered[-1].count == 0) & (before.count >= minimum) & (offered[-2].count >= minimum), np.bool_)
