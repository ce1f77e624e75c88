"""What brokers measured over the windows: CPU, replication rates and the size of each replica."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.broker_load.model import history
from engine.broker_load.model.rounds import Round, broker_cpu
from engine.broker_load.model.topology import Flags, Floats, Ints, Topology
from engine.broker_load.tables import raw_metrics


@dataclass(frozen=True, eq=False)
class Measured:
    """Per broker [B], mean over the rounds used: CPU in % of a core (NaN unknown), replication in and out in KB/s as
    the broker reports them (NaN unknown); and [P, R] the size of each replica in MB (NaN unknown)."""

    cpu: Floats
    replication_in: Floats
    replication_out: Floats
    sizes: Floats | None


def measure(rounds: Sequence[Round], maps: Sequence[Ints | None], final: Topology, cores: Floats) -> Measured:
    """Average what brokers measured over ``rounds``; replica sizes are those of the newest round that has them.

    ``maps``: index of each round's partitions in ``final``, None for the same; ``cores`` [B], NaN unknown.
    """
    total = final.brokers
    parts = {name: (np.zeros(total), np.zeros(total, np.int32)) for name in ("cpu", "in", "out")}
    for topology, run in runs(rounds):
        own = history.broker_cores(topology, final, cores)
        where = final.index_of(topology.ids)
        with np.errstate(invalid="ignore", over="ignore"):
            cpu = _cpus(run, own) * own * 100.0
        _pour(*parts["cpu"], where, cpu)
        _pour(*parts["in"], where, np.array([one.reported[raw_metrics.REPL_IN] for one in run]))
        _pour(*parts["out"], where, np.array([one.reported[raw_metrics.REPL_OUT] for one in run]))
    means = {name: _means(sums, counts) for name, (sums, counts) in parts.items()}
    sizes: Floats | None = None
    for one, place in zip(reversed(rounds), reversed(maps), strict=True):
        mine = one.size if one.topology is final else _match_sizes(one, place, final)
        sizes = mine if sizes is None else np.where(np.isnan(sizes), mine, sizes)
        if not np.isnan(sizes[final.held]).any():
            break
    return Measured(means["cpu"], means["in"], means["out"], sizes)


def cpu_trend(
    rounds: Sequence[Round], windows: Sequence[int], window_ms: int, final: Topology, cores: Floats
) -> list[list[float]]:
    """Return the measured CPU in % of each broker [B] by window (indices ``windows``, oldest first), without gaps."""
    sums, counts = np.zeros((len(windows), final.brokers)), np.zeros((len(windows), final.brokers))
    row_of = {index: row for row, index in enumerate(windows)}
    for window, members in itertools.groupby(rounds, key=lambda one: one.time_ms // window_ms + 1):
        for topology, run in runs(list(members)):
            cpu = _cpus(run, history.broker_cores(topology, final, cores))
            row = row_of[window]
            percent = np.where(np.isfinite(cpu), cpu * 100.0, np.nan)
            _pour(sums[row], counts[row], final.index_of(topology.ids), percent)
    means = _means(sums, counts)
    return [[value for value in means[:, b].tolist() if value == value] for b in range(final.brokers)]


def runs(rounds: Sequence[Round]) -> list[tuple[Topology, list[Round]]]:
    """Return consecutive rounds of one topology, with it."""
    parts = [list(members) for _, members in itertools.groupby(rounds, key=lambda one: id(one.topology))]
    return [(part[0].topology, part) for part in parts]


def _cpus(rounds: Sequence[Round], cores: Floats) -> Floats:
    """CPU fraction [N, B] of N rounds of one topology; NaN where there is none."""
    both = [broker_cpu(one, cores) for one in rounds]
    return np.array([np.where(has, cpu, np.nan) for cpu, has in both])


def _pour(sums: Floats, counts: npt.NDArray[np.integer] | Floats, where: npt.NDArray[np.int32], values: Floats) -> None:
    """Add the rows of ``values`` [N, B] to ``sums`` at ``where`` [B] and count them; NaN and a place of -1 are left out.

    One row after the other, so that the sums are those of a loop to the last bit.
    """
    keep = where >= 0
    at, values = where[keep], values[:, keep]
    measured: Flags = ~np.isnan(values)
    rows = np.concatenate([sums[at][None], np.where(measured, values, 0.0)])
    with np.errstate(invalid="ignore", over="ignore"):
        sums[at] = np.add.accumulate(rows, axis=0)[-1]
    counts[at] += measured.sum(axis=0)


def _means(sums: Floats, counts: npt.NDArray[np.integer] | Floats) -> Floats:
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _match_sizes(one: Round, where: Ints | None, final: Topology) -> Floats:
    """Return replica sizes [P, R] of a round in the positions of the final topology."""
    out = np.full(final.replicas.shape, np.nan)
    old = one.topology
    index = np.arange(old.size, dtype=np.int32) if where is None else where
    rows = np.flatnonzero(index >= 0)
    target = index[rows]
    theirs = old.ids_of(old.replicas[rows])
    mine = final.ids_of(final.replicas[target])
    for column in range(mine.shape[1]):
        for other in range(theirs.shape[1]):
            same = (mine[:, column] == theirs[:, other]) & (mine[:, column] >= 0)
            out[target[same], column] = one.size[rows[same], other]
    return out
