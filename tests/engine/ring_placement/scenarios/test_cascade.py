"""Cascades end, and only grow the failing set."""

from __future__ import annotations

import numpy as np
import polars as pl

from engine.ring_placement.pyroscope.placement import place
from engine.ring_placement.pyroscope.ring import Ring
from engine.ring_placement.scenarios.failover import member_mask
from engine.ring_placement.scenarios.scenario_state import cascade
from engine.ring_placement.scenarios.segment_writers import SegmentWriters
from tests.engine.ring_placement.cases import (
    computed,
    equal_keys,
    even,
)


def test_cascade_ends_and_grows() -> None:
    cluster, loads = even()
    plain = computed(cluster, loads, ("fail", "segment-writer-3"), ("capacity", "4500000"))
    falls = computed(cluster, loads, ("fail", "segment-writer-3"), ("capacity", "4500000"), ("cascade", "true"))
    assert set(plain.summary["down"]) < set(falls.summary["down"])
    after = falls.tables["nodes"].filter(~pl.col("down"))
    assert (after["load_after"] <= 4_500_000).all() or after.height == 0
    assert falls.summary["cascade_rounds"] == len(falls.summary["cascade_nodes"])
    everything = computed(cluster, loads, ("fail", "segment-writer-3"), ("capacity", "1"), ("cascade", "true"))
    assert everything.summary["rejected_bytes"] == everything.summary["load_total"]


def test_cascade_directly() -> None:
    cluster, _ = even(4)
    keys = equal_keys(40)
    placement = place(Ring.of(cluster), keys, 6)
    strategy = SegmentWriters(keys, pl.DataFrame())
    down, rounds = cascade(strategy, placement, member_mask(placement.ring, ()), np.full(4, np.inf), 1.0)
    assert not down.any() and not rounds
