"""Broker history: what brokers measured per sampling interval, the observations for the regression of CPU weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from engine.broker_load.model import history
from engine.broker_load.model.rounds import BrokerRun, broker_cpu
from engine.broker_load.model.topology import Flags, Floats, Topology


@dataclass(frozen=True, eq=False)
class Observations:
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
        return Observations(
            self.cpu[which], self.bytes_in[which], self.bytes_out[which], self.follower_in[which], self.relative[which]
        )

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
    """Return one observation per broker and round of ``past`` that measured CPU and traffic; ``cores`` [B of ``final``], NaN
    unknown."""
    typical = typical_cores(cores)
    parts = [np.empty((5, 0))]
    for run in past:
        own = history.broker_cores(run.ids, final, cores)
        cpu, has = broker_cpu(run, own)
        fetched = np.nan_to_num(run.replication_in, nan=0.0, posinf=np.inf, neginf=-np.inf)
        relative = np.broadcast_to(own / typical, cpu.shape)
        rows = np.stack([cpu * 100.0, run.bytes_in, run.bytes_out, fetched, relative])
        parts.append(rows[:, has & np.isfinite(rows).all(axis=0)])
    rows = np.concatenate(parts, axis=1)
    return Observations(rows[0], rows[1], rows[2], rows[3], rows[4])


def typical_cores(cores: Floats) -> float:
    """Return the median of the known core counts [B], 1 without any."""
    known = cores[~np.isnan(cores)]
    return float(np.median(known)) or 1.0 if len(known) else 1.0
