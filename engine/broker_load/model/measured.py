"""What brokers measured: CPU, replication rates and replica sizes over the windows, and the observations for the regression."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from engine.broker_load.model import history
from engine.broker_load.model.rounds import BrokerRun, Round, broker_cpu
from engine.broker_load.model.topology import Flags, Floats, Topology


class Measured(msgspec.Struct, frozen=True, eq=False):
    """Means over the rounds used, NaN unknown: CPU [B] in % of a core, replication in and out [B] in KB/s as reported; and
    the size [P, R] of each replica in MB."""

    cpu: Floats
    replication_in: Floats
    replication_out: Floats
    sizes: Floats | None


def measure(
    past: Sequence[BrokerRun], sizes: Sequence[tuple[Topology, Floats]], final: Topology, cores: Floats
) -> Measured:
    """Average what brokers measured in the runs ``past``; replica sizes are the newest ones of each replica.

    ``sizes`` [P, R] by topology, newest first; ``cores`` [B], NaN unknown.
    """
    sums, counts = np.zeros((2, 3, final.brokers))
    for run in past:
        own = history.broker_cores(run.ids, final, cores)
        with np.errstate(invalid="ignore", over="ignore"):
            cpu = _cpus(run, own) * own * 100.0
        for row, values in enumerate((cpu, run.replication_in, run.replication_out)):
            _pour(sums[row], counts[row], final.index_of(run.ids), values)
    found: Floats | None = None
    for topology, theirs in sizes:
        mine = theirs if topology is final else _match_sizes(topology, theirs, final)
        found = mine if found is None else np.where(np.isnan(found), mine, found)
        if not np.isnan(found[final.held]).any():
            break
    cpu, came_in, went_out = _means(sums, counts)
    return Measured(cpu, came_in, went_out, found)


def newest_sizes(rounds: Sequence[Round]) -> tuple[tuple[Topology, Floats], ...]:
    """Return the newest size [P, R] of each replica in ``rounds``, NaN unknown, by topology, newest first."""
    made = []
    for _, members in itertools.groupby(reversed(rounds), key=lambda one: id(one.topology)):
        newest, *older = members
        sizes = newest.size.copy()
        for one in older:
            absent = np.isnan(sizes)
            if not absent.any():
                break
            sizes[absent] = one.size[absent]
        made.append((newest.topology, sizes))
    return tuple(made)


def cpu_trend(windows: Sequence[Sequence[BrokerRun]], final: Topology, cores: Floats) -> list[list[float]]:
    """Return the measured CPU in % of each broker [B] by window, oldest first; windows without a reading are left out."""
    sums, counts = np.zeros((2, len(windows), final.brokers))
    for row, past in enumerate(windows):
        for run in past:
            cpu = _cpus(run, history.broker_cores(run.ids, final, cores))
            _pour(sums[row], counts[row], final.index_of(run.ids), np.where(np.isfinite(cpu), cpu * 100.0, np.nan))
    means = _means(sums, counts)
    return [[value for value in means[:, b].tolist() if value == value] for b in range(final.brokers)]


def _cpus(run: BrokerRun, cores: Floats) -> Floats:
    """Return the CPU fraction [N, B] of N rounds, NaN unknown."""
    cpu, has = broker_cpu(run, cores)
    return np.where(has, cpu, np.nan)


def _pour(sums: Floats, counts: npt.NDArray[np.integer] | Floats, where: npt.NDArray[np.int32], values: Floats) -> None:
    """Add the rows of ``values`` [N, B] to ``sums`` at ``where`` [B] and count them; NaN and places of -1 are left out.

    Rows are added one after the other: the sums equal those of a loop to the last bit.
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


def _match_sizes(old: Topology, sizes: Floats, final: Topology) -> Floats:
    """Return replica ``sizes`` [P, R] of the topology ``old`` in the positions of the final one."""
    out = np.full(final.replicas.shape, np.nan)
    where = history.partition_map(old, final)
    index = np.arange(old.size, dtype=np.int32) if where is None else where
    rows = np.flatnonzero(index >= 0)
    theirs, mine = old.ids_of(old.replicas[rows]), final.ids_of(final.replicas[index[rows]])
    for other in range(theirs.shape[1]):
        here, column = np.nonzero((mine == theirs[:, other, None]) & (mine >= 0))
        out[index[rows[here]], column] = sizes[rows[here], other]
    return out


class Observations(msgspec.Struct, frozen=True, eq=False):
    """N broker observations in order: CPU in percent and leader bytes in, leader bytes out, follower bytes in (KB/s).

    ``relative`` [N]: cores of the broker over those of the typical one, so that machines of different size obey one law.
    """

    cpu: Floats
    bytes_in: Floats
    bytes_out: Floats
    follower_in: Floats
    relative: Floats

    @property
    def size(self) -> int:
        """Number of observations N."""
        return len(self.cpu)

    def take(self, which: npt.NDArray[np.int64] | Flags) -> Observations:
        """Return the observations at the places or flags ``which``."""
        return Observations(*(getattr(self, part)[which] for part in self.__struct_fields__))

    def design(self) -> Floats:
        """Return the regressors [N, 3]."""
        return np.stack([self.bytes_in, self.bytes_out, self.follower_in], axis=1)

    def typical_cpu(self) -> Floats:
        """Return the CPU [N] in percent of the typical broker."""
        return self.cpu * self.relative


def read(rows: pl.DataFrame, at_ms: int | None) -> Observations:
    """Return the rows of input table ``observations`` up to ``at_ms``."""
    if at_ms is not None:
        rows = rows.filter(pl.col("time_ms").is_null() | (pl.col("time_ms") <= at_ms))
    cpu, into, out, fetched = (rows[name].to_numpy() for name in ("cpu", "bytes_in", "bytes_out", "follower_in"))
    return Observations(cpu, into, out, fetched, np.ones(rows.height))


def observe(past: Iterable[BrokerRun], final: Topology, cores: Floats) -> Observations:
    """Return one observation per broker and round of ``past`` with CPU and traffic. ``cores`` [B of ``final``], NaN unknown."""
    typical = typical_cores(cores)
    parts = [np.empty((5, 0))]
    for run in past:
        own = history.broker_cores(run.ids, final, cores)
        cpu, has = broker_cpu(run, own)
        fetched = np.nan_to_num(run.replication_in, nan=0.0, posinf=np.inf, neginf=-np.inf)
        rows = np.stack([cpu * 100.0, run.bytes_in, run.bytes_out, fetched, np.broadcast_to(own / typical, cpu.shape)])
        parts.append(rows[:, has & np.isfinite(rows).all(axis=0)])
    rows = np.concatenate(parts, axis=1)
    return Observations(rows[0], rows[1], rows[2], rows[3], rows[4])


def typical_cores(cores: Floats) -> float:
    """Return the median of the known core counts [B], 1 without any."""
    known = cores[~np.isnan(cores)]
    return float(np.median(known)) or 1.0 if len(known) else 1.0
