"""Join the CPU that pg_stat_kcache counted with the statements it was counted for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from engine.query_profile.workloads.deltas import NAMES, Snapshot

NEAR_MS = 2000
"""Distance within which snapshots of both extensions are of one moment."""

_CPU = NAMES.index("cpu_us")


def with_cpu(run: Sequence[Snapshot], counted: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the snapshots ``run`` with the CPU of the ``counted`` ones taken at the same moments.

    Classes are the same by all their ids; where the ids of users or databases are not known, by the query's own id, if one
    class alone has it.
    """
    times = np.array([one.at_ms or 0 for one in counted], np.int64)
    out = []
    for snapshot in run:
        if snapshot.at_ms is None or not len(times):
            out.append(snapshot)
            continue
        nearest = int(np.argmin(np.abs(times - snapshot.at_ms)))
        near = abs(int(times[nearest]) - snapshot.at_ms) <= NEAR_MS
        out.append(_joined(snapshot, counted[nearest]) if near else snapshot)
    return out


def fingerprint(one: Snapshot) -> int:
    """Return a number that changes with the CPU of a snapshot's classes."""
    return hash(one.values[:, _CPU].tobytes())


def _joined(one: Snapshot, counted: Snapshot) -> Snapshot:
    cpu = counted.values[:, _CPU]
    by_class = dict(zip(counted.classes.tolist(), cpu.tolist(), strict=True))
    found = np.array([by_class.get(key, np.nan) for key in one.classes.tolist()])
    missing = np.isnan(found)
    if missing.any():
        by_id: dict[str, float] = {}
        for queryid, value in zip(counted.texts["queryid"].to_list(), cpu.tolist(), strict=True):
            by_id[queryid] = by_id.get(queryid, 0.0) + value
        ids = one.texts["queryid"].to_list()
        times = {queryid: ids.count(queryid) for queryid in set(ids)} if len(ids) < 10_000 else {}
        for row in np.flatnonzero(missing).tolist():
            if times.get(ids[row]) == 1:
                found[row] = by_id.get(ids[row], np.nan)
    values = one.values.copy()
    values[:, _CPU] = np.where(np.isnan(found), values[:, _CPU], found)
    return replace(one, values=values)
