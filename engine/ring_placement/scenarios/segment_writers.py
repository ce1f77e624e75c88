"""Pyroscope's segment writers as a strategy: one storing node per key, and candidates behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.keys import Keys
from engine.ring_placement.pyroscope.placement import Placement, place
from engine.ring_placement.pyroscope.ring import Member, Ring
from engine.ring_placement.pyroscope.subrings import TRIES
from engine.ring_placement.scenarios.failover import count_touched, fail_members, place_without, relayout_outcome
from engine.ring_placement.scenarios.strategy import Check, Outcome
from engine.ring_placement.scenarios.sweep import every_node, every_pair, one_by_one
from engine.ring_placement.scenarios.sweep_totals import Step, Sweep


@dataclass(frozen=True, eq=False)
class SegmentWriters:
    """The strategy (see ``strategy.Strategy``). ``texts``: tenant, dataset and limits_from of each dataset of ``keys``."""

    keys: Keys
    texts: pl.DataFrame
    kind: str = "segment-writer"

    def place(self, members: Sequence[Member], p: RingParameters, like: Placement | None, check: Check) -> Placement:
        """Lay out the shards of ``members`` and place the keys, with the limits of the parameters."""
        keys = self.keys
        if p.tenant_shards is not None or p.dataset_shards is not None:
            keys = keys.with_limits(p.tenant_shards, p.dataset_shards)
        return place(Ring.of(members), keys, TRIES, like)

    def fail(self, placement: Placement, failed: np.ndarray, regime: str) -> tuple[Outcome, Placement]:
        """Compute regime A; writers whose heartbeat is too old are gone, so that there is no other."""
        return fail_members(placement, failed)

    def without(self, placement: Placement, gone: frozenset[str], check: Check) -> Placement:
        """Place the keys on the ring without the members ``gone``."""
        return place_without(placement, gone)

    def compare(self, before: Placement, after: Placement, gone: frozenset[str] = frozenset()) -> Outcome:
        """Compute the effect of another layout."""
        return relayout_outcome(before, after, gone)

    def touched(self, placement: Placement, down: np.ndarray) -> tuple[int, int, int]:
        """Count datasets, datasets wholly on ``down``, and tenants."""
        return count_touched(placement, down)

    def sweep(
        self,
        placement: Placement,
        kind: str,
        downs: Sequence[tuple[int, ...]],
        regime: str,
        limits: np.ndarray | None,
        step: Step,
    ) -> Sweep:
        """Sweep failing sets. One node LEAVING sends its keys where its crash would, without the failed try."""
        if kind in ("nodes", "leaving"):
            return every_node(placement, regime, limits, step)
        if kind == "pairs":
            return every_pair(placement, regime, limits, step)
        return one_by_one(placement, downs, regime, limits, step)
