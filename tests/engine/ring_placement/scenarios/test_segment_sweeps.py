"""Sweeps by shortcut against one scenario at a time."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.view import Cancelled, Context
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.scenarios.segment_sweeps import every_node, every_pair, one_by_one
from engine.ring_placement.scenarios.strategy import TOTALS
from engine.ring_placement.view import VIEW
from tests.chance import tries
from tests.engine.ring_placement.cases import (
    clusters,
    even,
    inputs,
    page,
    quiet,
)

COLUMNS = (
    *TOTALS, "worst_load", "nodes_over_capacity",
)  # fmt: skip


def same(quick: Any, plain: Any) -> None:
    assert quick.down == plain.down
    for name in COLUMNS:
        assert quick[name] == plain[name], name
    assert quick["max_over_mean"] == pytest.approx(plain["max_over_mean"])
    assert quick["coefficient_of_variation"] == pytest.approx(plain["coefficient_of_variation"])


@pytest.mark.parametrize("regime", ["transient", "left"])
@pytest.mark.parametrize("regular", [True, False])
@tries(12)
@given(data=st.data())
def test_sweeps_equal_one_scenario_at_a_time(regime: str, regular: bool, data: st.DataObject) -> None:
    placement = data.draw(clusters(regular))
    n = len(placement.ring.members)
    capacity = np.full(n, 300_000.0)
    same(
        every_node(placement, regime, capacity, quiet),
        one_by_one(placement, [(i,) for i in range(n)], regime, capacity, quiet),
    )
    pairs = list(combinations(range(n), 2))
    same(every_pair(placement, regime, capacity, quiet), one_by_one(placement, pairs, regime, capacity, quiet))


def test_a_sweep_can_be_stopped() -> None:
    cluster, loads = even(30)
    asked = iter([False] * 12 + [True] * 1000)
    context = Context(now_ms=0, stop=lambda: next(asked))
    with pytest.raises(Cancelled):
        VIEW.compute(inputs({"ring.json": page(cluster), "loads.csv": loads}), RingParameters(sweep="pairs"), context)
