"""Sweeps: the totals of many scenarios at once, exact, by a shortcut where one applies, else scenario by scenario."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from engine.ring_placement.pyroscope.placement import Placement
from engine.ring_placement.scenarios.departure_sweeps import departures, is_regular
from engine.ring_placement.scenarios.failover import remove_members, transient_outcome
from engine.ring_placement.scenarios.strategy import TOTALS
from engine.ring_placement.scenarios.sweep_totals import Step, Sweep, receiving_members
from engine.ring_placement.scenarios.transient_sweeps import every_node_transient, every_pair_transient


def one_by_one(
    placement: Placement, downs: Sequence[tuple[int, ...]], regime: str, capacity: np.ndarray | None, step: Step
) -> Sweep:
    """Compute any list of scenarios one by one.

    ``downs``: member indices that fail in each; ``regime``: ``transient`` or ``left``; ``capacity``: bytes per second per
    ring member, or None.
    """
    ring = placement.ring
    sweep = Sweep(ring.ids)
    receives = receiving_members(placement)
    index = {name: i for i, name in enumerate(ring.ids)}
    for number, down in enumerate(downs):
        step(number / max(1, len(downs)))
        failed = np.zeros(len(ring.members), dtype=bool)
        failed[list(down)] = True
        if regime == "transient":
            outcome = transient_outcome(placement, failed)
            after = outcome.after
        else:
            outcome, later = remove_members(placement, [ring.ids[i] for i in down])
            after = np.zeros(len(ring.members), dtype=outcome.after.dtype)
            for name, load in zip(later.ring.ids, later.loads, strict=True):
                after[index[name]] = load
        sweep.add_loads(down, after, receives & ~failed, capacity)
        for name in TOTALS:
            getattr(sweep, name).append(getattr(outcome, name))
    return sweep


def every_node(placement: Placement, regime: str, capacity: np.ndarray | None, step: Step) -> Sweep:
    """Let every single member of the ring fail in turn. Arguments as ``one_by_one``."""
    downs = [(i,) for i in range(len(placement.ring.members))]
    if regime == "transient" and _has_load(placement):
        return every_node_transient(placement, capacity)
    return _departures(placement, downs, regime, capacity, step)


def every_pair(placement: Placement, regime: str, capacity: np.ndarray | None, step: Step) -> Sweep:
    """Let every pair of members fail. Arguments as ``one_by_one``."""
    if regime == "transient" and _has_load(placement):
        return every_pair_transient(placement, capacity, step)
    return _departures(placement, list(combinations(range(len(placement.ring.members)), 2)), regime, capacity, step)


def _has_load(placement: Placement) -> bool:
    return placement.ring.total > 0 and len(placement.groups.datasets) > 0


def _departures(
    placement: Placement, downs: Sequence[tuple[int, ...]], regime: str, capacity: np.ndarray | None, step: Step
) -> Sweep:
    """Compute departures at once where the ring allows it and some member stays, else one by one."""
    some_stay = len(downs) > 0 and len(placement.ring.members) > len(downs[0])
    if some_stay and regime == "left" and _has_load(placement) and is_regular(placement):
        return departures(placement, downs, capacity, step)
    return one_by_one(placement, downs, regime, capacity, step)


def random_sets(n: int, k: int, draws: int, seed: int) -> Iterator[tuple[int, ...]]:
    """Draw ``draws`` random sets of ``k`` of ``n`` members (without repeats within a set), from a fixed ``seed``."""
    generator = np.random.Generator(np.random.PCG64(seed))
    for _ in range(draws):
        yield tuple(sorted(generator.choice(n, size=min(k, n), replace=False).tolist()))
