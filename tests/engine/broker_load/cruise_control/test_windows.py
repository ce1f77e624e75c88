"""Windows: their rounds, their extrapolation, and what other weights leave unchanged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from engine.broker_load.cruise_control import windows
from engine.broker_load.cruise_control.windows import WindowSums
from engine.broker_load.model.topology import Partitions
from engine.broker_load.parameters import CpuWeights
from engine.core.incremental import Memo
from tests.chance import tries
from tests.engine.broker_load.clusters import KB, MB, T0, simple
from tests.engine.broker_load.inputs import compute, read


def test_ticks_form_rounds_and_rounds_form_windows(tmp_path: Path) -> None:
    """Ticks inside one interval are one sample; the open window is left out; ``at`` closes it or looks back."""
    made = simple(tmp_path)
    hour = 3_600_000
    for step in (1, 2):
        for broker, topic in ((1, "t"), (2, "u")):
            made.rate(broker, topic, 100 * KB * (step + 1), 0.0, T0 + step * hour)
            made.size(broker, topic, 0, MB, T0 + step * hour)
            made.totals(broker, 0.5, T0 + step * hour)
    made.rate(1, "t", 500 * KB, 0.0, T0 + 60_000)
    inputs = read(made.write())
    result = compute(inputs)
    assert result.tables["samples"].filter(pl.col("topic") == "t")["leader_bytes_in"].to_list() == [300.0, 200.0, 300.0]
    windows = result.tables["windows"].filter(pl.col("topic") == "t")
    assert windows["leader_bytes_in"].to_list() == [200.0, 300.0]  # newest first, the open one left out
    assert result.tables["partitions"].row(0, named=True)["nw_in_kbs"] == 250.0
    back = compute(inputs, ("at", str(T0 + hour + 1000)))
    assert back.tables["windows"].filter(pl.col("topic") == "t")["leader_bytes_in"].to_list() == [300.0]
    assert back.at_ms == T0 + hour + 1000
    end = (T0 + 2 * hour) // hour * hour + hour
    closed = compute(inputs, ("at", str(end)))
    assert closed.tables["windows"].filter(pl.col("topic") == "t")["leader_bytes_in"].to_list() == [300.0, 200.0, 300.0]


def test_means_over_windows_survive_other_weights_only(tmp_path: Path) -> None:
    """Values reused from the previous result stay right when weights, windows, extrapolation or gaps change."""
    made = simple(tmp_path)
    hour = 3_600_000
    for step in (1, 2, 3, 5):
        for broker, topic in ((1, "t"), (2, "u")):
            made.rate(broker, topic, 100 * KB * (step + 1), 7 * KB * step, T0 + step * hour)
            if (step, topic) != (2, "u"):
                made.size(broker, topic, 0, step * MB, T0 + step * hour)
            made.totals(broker, 0.1 * step, T0 + step * hour)
    inputs = read(made.write())
    memo = Memo()
    steps: tuple[tuple[tuple[str, str], ...], ...] = (
        (), (("a", "0.3"),), (("a", "0.3"), ("windows", "2")), (("a", "0.4"), ("windows", "2")), (("a", "0.5"),),
        (("a", "0.5"), ("max-extrapolations", "0")), (("a", "0.5"), ("at", str(T0 + 3 * hour + 1000))),
        (("b", "0.9"), ("mode", "corrected")), (("window-ms", "7200000"),), (("c", "0.9"), ("window-ms", "7200000")), (),
    )  # fmt: skip
    fresh = {(): compute(inputs, memo=memo)}
    for pairs in steps[1:]:
        fresh[pairs] = fresh.get(pairs) or compute(inputs, *pairs)
        assert compute(inputs, *pairs, memo=memo).same_as(fresh[pairs]), pairs


@tries(16)
@given(
    st.integers(1, 6),
    st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=6),
    st.integers(0, 5),
)
def test_extrapolation_states(minimum: int, counts: list[list[int]], allowed: int) -> None:
    """Each state by its definition, cell by cell, by the neighbours in time."""
    made = []
    for number, row in enumerate(counts):
        counts_only = WindowSums(
            Partitions((), np.empty(0, np.int32), np.empty(0, np.int32)), np.array(row, np.int32), (), {}, ()
        )
        made.append(windows.Window(-number, 3, counts_only, None, CpuWeights()))
    found = windows.aggregate(made, None, 1000, minimum, allowed, np.array([0, 1, 2], np.int32))
    half = max(1, minimum // 2)
    for window, states in zip(found.windows, found.states, strict=True):
        place = -window.index
        for p in range(3):
            k = counts[place][p]
            inner = 0 < place < len(counts) - 1
            around = inner and counts[place - 1][p] >= minimum and counts[place + 1][p] >= minimum
            expected = (
                "NONE" if k >= minimum else "AVG_AVAILABLE" if k >= half else "AVG_ADJACENT" if around
                else "FORCED_INSUFFICIENT" if k else "NO_VALID_EXTRAPOLATION"
            )  # fmt: skip
            assert windows.EXTRAPOLATIONS[0 if states is None else states[p]] == expected
