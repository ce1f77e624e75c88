"""Window sums: what stays of the rounds of a window once they are let go.

A window's value is a sum over its samples: so nothing that is shown needs the samples of a finished window. The sums are in
single precision and added up in order of time, as in Cruise Control. See "Windows" and "Memory" in docs/models/broker-load.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from engine.broker_load.cruise_control import samples
from engine.broker_load.cruise_control.samples import CpuSplit, SkipRules
from engine.broker_load.model import history, measured, rounds
from engine.broker_load.model.rounds import BrokerRun, Round
from engine.broker_load.model.topology import Flags, Floats, Ints, Partitions, Topology
from engine.broker_load.parameters import CpuWeights
from engine.broker_load.tables.raw_metrics import SAMPLE

Singles = npt.NDArray[np.float32]
Cores = Callable[[Topology], Floats]
"""Returns the cores [B] of the brokers of a topology, NaN unknown."""

LATEST = "disk_usage"
"""The metric of which the newest sample counts, not the mean."""
CPU = "cpu_usage"


@dataclass(frozen=True, eq=False)
class Trace:
    """What every window leaves: of its N rounds their ``moments``, how many partitions have a sample (``taken``), the ``runs``
    of what brokers reported and the ``broker_samples`` with their number by round; of its ``partitions`` whether one is
    ``sampled``, and the ``rule`` of the newest round."""

    index: int
    moments: tuple[int, ...]
    taken: tuple[int, ...]
    runs: tuple[BrokerRun, ...]
    broker_samples: pl.DataFrame
    broker_counts: tuple[int, ...]
    partitions: Partitions
    sampled: Flags
    rule: SkipRules


@dataclass(frozen=True, eq=False)
class WindowSums:
    """The samples of one window added up, for its ``partitions``: their ``count`` [P], and ``sizes`` [P, R] by topology, newest
    first. The CPU can be added up for any weights."""

    partitions: Partitions
    count: Ints
    sizes: tuple[tuple[Topology, Floats], ...]
    _totals: Mapping[str, Singles]
    _splits: tuple[tuple[CpuSplit, Flags, Ints | None], ...]
    _cpu: dict[CpuWeights, Singles] = field(default_factory=dict)

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
    """Return what the window ``index`` leaves, of its rounds ``members`` at ``moments``."""
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
    return Trace(index, tuple(moments), tuple(taken), rounds.runs(members), rows, counts, partitions, sampled, rule)


def add_up(members: Sequence[Round], cores: Cores) -> WindowSums:
    """Return the sums over the samples of the rounds ``members`` of one window, which are in order of time."""
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
            has = splits[-1][1]  # the same in nearly all rounds
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
    """Return all partitions of ``members``, and by topology the place of each of its partitions among them (None: the same)."""
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
