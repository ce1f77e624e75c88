"""Which rows are listed."""

from __future__ import annotations

import numpy as np

from engine.ring_placement.result.segment_tenants import largest


def test_largest_rows_of_many() -> None:
    rng = np.random.default_rng(3)
    for weight in (np.round(rng.lognormal(8, 2, 30_000)).astype(np.int64), np.zeros(9_000, dtype=np.int64)):
        for limit in (0, 1, 7, 1000, len(weight), len(weight) + 1):
            found = largest(weight, limit)
            assert len(found) == min(limit, len(weight)) == len(np.unique(found))
            assert (np.diff(found) > 0).all()
            assert sorted(weight[found].tolist()) == sorted(weight.tolist())[len(weight) - len(found) :]
