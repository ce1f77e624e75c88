"""Capacities and cores per broker, from ``capacity.json`` or, where there is none, from scrapes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from engine.broker_load.model.topology import Flags, Floats, Topology

DEFAULT = -1
"""Broker id of the default entry in ``capacity.json``."""


@dataclass(frozen=True, eq=False)
class Capacities:
    """Per broker [B]: ``cores`` (NaN unknown), ``cpu`` (% of a core: 100 × cores), ``disk`` MB, ``nw_in``, ``nw_out``
    KB/s (NaN unknown); ``estimated``: taken from the default entry or assumed; ``log_dirs``: JBOD JSON by index.
    ``file``: a capacity file was read. Dead brokers keep their values here; the cluster model sets them to -1."""

    cores: Floats
    cpu: Floats
    disk: Floats
    nw_in: Floats
    nw_out: Floats
    estimated: Flags
    log_dirs: tuple[str | None, ...]
    file: bool


def resolve(
    rows: pl.DataFrame, topology: Topology, allow_estimation: bool, node_cpus: dict[int, int] | None = None
) -> Capacities:
    """Return the capacities of ``topology``'s brokers from input table ``capacity``.

    The default entry (-1) serves the others only where ``allow_estimation``. Without any capacity file the machine's
    CPU count (``node_cpus`` by broker index, from node_exporter) or one core is assumed and capacities stay unknown.
    """
    total = topology.brokers
    nan = np.full(total, np.nan)
    cores, cpu, disk, nw_in, nw_out = nan.copy(), nan.copy(), nan.copy(), nan.copy(), nan.copy()
    estimated = np.zeros(total, np.bool_)
    log_dirs: list[str | None] = [None] * total
    if not rows.height:
        for index in range(total):
            cores[index] = (node_cpus or {}).get(index, 1)
        estimated[:] = True
        return Capacities(cores, cores * 100.0, disk, nw_in, nw_out, estimated, tuple(log_dirs), False)
    # The last file given wins for a broker described twice.
    entries = {row["broker"]: row for row in rows.iter_rows(named=True)}
    for index, broker in enumerate(topology.ids.tolist()):
        entry = entries.get(broker)
        if entry is None and allow_estimation:
            entry = entries.get(DEFAULT)
            estimated[index] = entry is not None
        if entry is None:
            continue
        cores[index] = entry["cores"]
        cpu[index] = entry["cpu"] * entry["cores"]
        disk[index], nw_in[index], nw_out[index] = entry["disk_mb"], entry["nw_in_kbs"], entry["nw_out_kbs"]
        log_dirs[index] = entry["log_dirs"]
    return Capacities(cores, cpu, disk, nw_in, nw_out, estimated, tuple(log_dirs), True)
