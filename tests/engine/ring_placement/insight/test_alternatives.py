"""Other placement algorithms keep their promises."""

from __future__ import annotations

import numpy as np

from engine.ring_placement.insight.alternatives import bounded, compare_algorithms, maglev_table, mix, rendezvous
from engine.ring_placement.pyroscope.keys import weigh
from engine.ring_placement.pyroscope.placement import place
from engine.ring_placement.pyroscope.ring import Member, Ring
from engine.ring_placement.scenarios.failover import (
    place_without,
)
from tests.engine.ring_placement.cases import equal_keys, plain_moves


def test_alternatives() -> None:
    hashes = mix(np.arange(20_000, dtype=np.uint64))
    nodes = [f"n{i}" for i in range(10)]
    one, two = rendezvous(hashes, nodes), rendezvous(hashes, nodes[:-1])
    # Only what was on the node that left moves.
    assert (one[one != 9] == two[one != 9]).all()
    assert np.bincount(one).std() / 2000 < 0.05
    lookup = maglev_table(nodes)
    assert np.bincount(lookup, minlength=10).max() - np.bincount(lookup, minlength=10).min() <= 1
    weight = np.full(len(hashes), 10)
    loads = weigh(bounded(hashes, weight, nodes), weight, 10)
    assert loads.max() <= 1.25 * loads.mean() + 10
    keys = equal_keys(3000)
    ring = Ring.of(Member(n) for n in nodes)
    placement = place(ring, keys, 6)
    found = {c.algorithm: c for c in compare_algorithms(keys, placement.groups, nodes, nodes[1:])}
    assert len(found) == 4
    assert found["rendezvous (HRW)"].needless_moved_bytes == 0
    assert found["rendezvous (HRW)"].moved_bytes < found["jump over sorted nodes"].moved_bytes
    own = place_without(placement, ["n0"])
    assert plain_moves(placement, own) > 4 * found["rendezvous (HRW)"].moved_bytes
