"""The same keys under other placement algorithms: rendezvous, Maglev, bounded loads, jump over sorted nodes.

Sources: Thaler and Ravishankar 1998 (highest random weight); Eisenbud et al. 2016 (Maglev, table of 65537); Mirrokni,
Thorup and Zadimoghaddam 2018 (bounded loads, here on a ring of 128 virtual nodes); Lamping and Veach 2014 (jump).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from engine.core.view import Context
from engine.ring_placement import tables
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.hashing import jump, xxh64, xxh64_each
from engine.ring_placement.pyroscope.keys import Groups, Keys, weigh
from engine.ring_placement.scenarios.failover import (
    member_mask,
    place_without,
    relayout_outcome,
    transient_outcome,
)
from engine.ring_placement.scenarios.scenario_state import KEEP, SegmentScenario
from engine.ring_placement.scenarios.sweep_totals import imbalance

MAGLEV_SIZE = 65537
"""Entries of Maglev's lookup table: a prime, as in the paper."""
VIRTUAL_NODES = 128
"""Points of each node on the ring of the bounded loads."""
BOUND = 1.25
"""Most load of a node under bounded loads, as a multiple of the mean."""
BOUNDED_GROUPS = 400_000
"""Groups up to which bounded loads are computed: that walk is slow."""
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
"""Multipliers of SplitMix64's finaliser."""


@dataclass(frozen=True, slots=True)
class AlgorithmOutcome:
    """What one algorithm does in a departure: load that changes node (bytes per second), how much of it needlessly, and
    max over mean and coefficient of variation of the loads afterwards."""

    algorithm: str
    moved_bytes: Any
    needless_moved_bytes: Any
    max_over_mean: float
    variation: float


def mix(values: np.ndarray) -> np.ndarray:
    """Finalise 64-bit numbers as SplitMix64 does: every input bit affects every output bit. uint64 to uint64."""
    values = (values ^ (values >> np.uint64(30))) * _MIX[0]
    values = (values ^ (values >> np.uint64(27))) * _MIX[1]
    mixed: np.ndarray = values ^ (values >> np.uint64(31))
    return mixed


def group_hashes(keys: Keys, groups: Groups) -> np.ndarray:
    """Hash each (dataset, offset) group (uint64)."""
    tenant = keys.tenant_hash[keys.tenant_of[groups.datasets]]
    return mix(tenant ^ mix(keys.name_hash[groups.datasets] + mix(groups.offsets.astype(np.uint64) + np.uint64(1))))


def rendezvous(hashes: np.ndarray, nodes: Sequence[str]) -> np.ndarray:
    """Choose for each hash the node with the highest weight (int64 index)."""
    node_hashes = xxh64_each(nodes)
    best = np.zeros(len(hashes), dtype=np.int64)
    top = np.zeros(len(hashes), dtype=np.uint64)
    for i, node_hash in enumerate(node_hashes):
        weight = mix(hashes ^ node_hash)
        better = weight >= top
        best[better], top[better] = i, weight[better]
    return best


def maglev_table(nodes: Sequence[str], size: int = MAGLEV_SIZE) -> np.ndarray:
    """Build Maglev's lookup table (int32 of ``size`` entries, a prime): nodes take turns at their own permutation."""
    count = len(nodes)
    table = [-1] * size
    at = [xxh64("offset" + n) % size for n in nodes]
    skips = [xxh64("skip" + n) % (size - 1) + 1 for n in nodes]
    filled = 0
    while filled < size:
        for i in range(count):
            entry = at[i]
            while table[entry] >= 0:
                entry += skips[i]
                if entry >= size:
                    entry -= size
            table[entry] = i
            at[i] = (entry + skips[i]) % size
            filled += 1
            if filled == size:
                break
    return np.array(table, dtype=np.int32)


def bounded(hashes: np.ndarray, weight: np.ndarray, nodes: Sequence[str], bound: float = BOUND) -> np.ndarray:
    """Place keys by consistent hashing with bounded loads: no node takes more than ``bound`` times the mean.

    A key whose node is full goes on along the ring. Keys are placed in hash order, so the outcome is defined. A key too
    large for any node's bound stays with its own node. Returns node indices (int64).
    """
    count = len(nodes)
    points = mix(
        np.repeat(xxh64_each(nodes), VIRTUAL_NODES) + np.tile(np.arange(VIRTUAL_NODES, dtype=np.uint64), count)
    )
    order = np.argsort(points, kind="stable")
    ring = np.repeat(np.arange(count), VIRTUAL_NODES)[order]
    start = np.searchsorted(points[order], hashes) % len(ring)
    chosen = ring[start].astype(np.int64)
    limit = bound * float(weight.sum()) / count
    if (weigh(chosen, weight, count).astype(np.float64) <= limit).all():
        return chosen
    # Only keys of nodes that overflow have to be walked one by one, but those in the order of their hashes.
    successors: dict[int, list[int]] = {}
    owners, sizes, starts = ring.tolist(), weight.tolist(), start.tolist()
    left = [limit] * count
    out = chosen.tolist()
    for key in np.argsort(hashes, kind="stable").tolist():
        size = sizes[key]
        node = out[key]
        if left[node] < size:
            at = starts[key]
            if at not in successors:
                successors[at] = list(dict.fromkeys(owners[at:] + owners[:at]))
            node = next((n for n in successors[at] if left[n] >= size), node)
            out[key] = node
        left[node] -= size
    return np.array(out, dtype=np.int64)


def compare_algorithms(
    keys: Keys, groups: Groups, before: Sequence[str], after: Sequence[str]
) -> list[AlgorithmOutcome]:
    """Place ``groups`` by every algorithm on the nodes ``before`` and then on ``after`` (IDs).

    Bounded loads are left out above ``BOUNDED_GROUPS`` groups.
    """
    hashes, weight = group_hashes(keys, groups), groups.weight
    old, new = list(before), list(after)
    if not old or not new or not len(hashes):
        return []
    gone = set(old) - set(new)
    results = []

    def add(name: str, first: np.ndarray, second: np.ndarray) -> None:
        was = np.array(old, dtype=object)[first]
        now = np.array(new, dtype=object)[second]
        moved = weight[was != now].sum().item()
        needed = weight[np.isin(first, [i for i, n in enumerate(old) if n in gone])].sum().item() if gone else 0
        if not gone and len(new) > len(old):
            added = [i for i, n in enumerate(new) if n not in set(old)]
            needed = weight[np.isin(second, added)].sum().item()
        ratio, variation = imbalance(weigh(second, weight, len(new)))
        results.append(AlgorithmOutcome(name, moved, max(0, moved - needed), ratio, variation))

    add("rendezvous (HRW)", rendezvous(hashes, old), rendezvous(hashes, new))
    slots = (hashes % np.uint64(MAGLEV_SIZE)).astype(np.int64)
    add("Maglev (65537)", maglev_table(old)[slots].astype(np.int64), maglev_table(new)[slots].astype(np.int64))
    if len(hashes) <= BOUNDED_GROUPS:
        add(f"bounded loads ({BOUND:g} x mean)", bounded(hashes, weight, old), bounded(hashes, weight, new))
    add("jump over sorted nodes", jump(hashes, len(old)), jump(hashes, len(new)))
    return results


def comparison_table(s: SegmentScenario, p: RingParameters, context: Context) -> pl.DataFrame:
    """Build table ``comparison``: the same keys by other algorithms."""
    planned, down = s.planned, frozenset(s.down)
    before_ring = s.before.ring if s.added or p.scale is not None else planned.ring
    old = [i for i, active in zip(before_ring.ids, before_ring.active, strict=True) if active]
    new = [i for i, active in zip(planned.ring.ids, planned.ring.active, strict=True) if active and i not in down]

    def make() -> pl.DataFrame:
        context.check()
        later = place_without(planned, down) if down else planned
        own = relayout_outcome(s.before, later, down)
        ratio, variation = imbalance(own.after[[name not in down for name in own.nodes]])
        rows = [("Pyroscope (as configured)", own.moved_bytes, own.needless_moved_bytes, ratio, variation)]
        if down:
            failed = member_mask(planned.ring, down)
            now = transient_outcome(planned, failed)
            rows.append(("Pyroscope, first minute (A)", now.moved_bytes, 0, *imbalance(now.after[~failed])))
        context.check()
        rows += [
            (other.algorithm, other.moved_bytes, other.needless_moved_bytes, other.max_over_mean, other.variation)
            for other in compare_algorithms(planned.keys, planned.groups, old, new)
        ]
        total = planned.groups.total
        frame: dict[str, Any] = {
            "algorithm": [row[0] for row in rows],
            "moved_bytes": [round(row[1]) for row in rows],
            "moved_share": [float(row[1]) / total if total else 0.0 for row in rows],
            "needless_moved_bytes": [round(row[2]) for row in rows],
            "max_over_mean": [row[3] for row in rows],
            "coefficient_of_variation": [row[4] for row in rows],
        }
        return tables.COMPARISON.sorted(tables.COMPARISON.frame(frame))

    return context.memo.value("comparison", (s.planned_key, tuple(old), tuple(new)), make, keep=KEEP)
