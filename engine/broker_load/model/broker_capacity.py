"""Capacities and cores per broker, from ``capacity.json``, else from scrapes."""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl

from engine.broker_load.model.topology import Flags, Floats, Topology

DEFAULT = -1  # broker id of the default entry in ``capacity.json``


class Capacities(msgspec.Struct, frozen=True, eq=False):
    """Per broker [B]: ``cores`` (NaN unknown; 1 where they are ``assumed``), ``cpu`` (% of a core: 100 × cores), ``disk`` MB,
    ``nw_in``, ``nw_out`` KB/s (NaN unknown); ``estimated``: taken from the default entry or guessed; ``log_dirs``: JBOD JSON
    by index. ``file``: a capacity file was read. Dead brokers keep their values here, which are never estimated."""

    cores: Floats
    cpu: Floats
    disk: Floats
    nw_in: Floats
    nw_out: Floats
    estimated: Flags
    assumed: Flags
    log_dirs: tuple[str | None, ...]
    file: bool

    @property
    def missing(self) -> str:
        """What gives the capacities that are unknown, in words."""
        if self.file and np.isnan(self.cpu).any() and not np.isnan(self.disk).any():
            return "the cores are unknown: name num.cores in capacity.json"
        if self.file:
            return "capacity.json has no entry for some brokers and no default entry (-1)"
        return "no usable capacity.json: give one with num.cores, DISK, NW_IN and NW_OUT"


def resolve(
    rows: pl.DataFrame, topology: Topology, allow_estimation: bool, node_cpus: dict[int, int] | None = None
) -> Capacities:
    """Return the capacities of ``topology``'s brokers from input table ``capacity``.

    The default entry (-1) serves the others only where ``allow_estimation``. Without any capacity file the machine's
    CPU count (``node_cpus`` by broker index, from node_exporter) or one core is assumed and capacities stay unknown.
    """
    ids = topology.ids.tolist()
    if not rows.height:
        named = np.array([(node_cpus or {}).get(index, np.nan) for index in range(len(ids))], np.float64)
        cores = np.nan_to_num(named, nan=1.0)
        unknown = np.full(len(ids), np.nan)
        guessed = topology.alive.copy()
        return Capacities(
            cores, cores * 100.0, unknown, unknown, unknown, guessed, np.isnan(named), (None,) * len(ids), False
        )
    # The last file given wins for a broker described twice.
    entries = {row["broker"]: row for row in rows.iter_rows(named=True)}
    default = entries.get(DEFAULT) if allow_estimation else None
    estimated = [
        living and default is not None and broker not in entries
        for broker, living in zip(ids, topology.alive.tolist(), strict=True)
    ]
    chosen = [entries.get(broker, default) or {} for broker in ids]

    def column(name: str) -> Floats:
        return np.array([entry.get(name, np.nan) for entry in chosen], np.float64)

    # A CPU figure alone names no cores; Cruise Control then counts one.
    assumed = np.isnan(column("cores")) & ~np.isnan(column("cpu"))
    cores = np.where(assumed, 1.0, column("cores"))
    return Capacities(
        cores=cores,
        cpu=column("cpu") * cores,
        assumed=assumed,
        disk=column("disk_mb"),
        nw_in=column("nw_in_kbs"),
        nw_out=column("nw_out_kbs"),
        estimated=np.array(estimated, np.bool_),
        log_dirs=tuple(entry.get("log_dirs") for entry in chosen),
        file=True,
    )
