"""Loads that add up to measured ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.broker_load.cruise_control.cluster_model import Cluster, sums
from engine.broker_load.cruise_control.replica_loads import LeaderValues
from engine.broker_load.insight import corrected_loads
from engine.broker_load.model.measured import Measured
from engine.broker_load.parameters import BrokerLoadParameters, CpuWeights
from engine.broker_load.tables.raw_metrics import SAMPLE
from tests.chance import tries
from tests.contract.samples import opened
from tests.engine.broker_load.random_clusters import clusters


@tries(12)
@given(clusters(), st.integers(0, 2**32 - 1))
def test_corrected_replicas_sum_to_the_measured_cpu(cluster: Cluster, seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = cluster.topology
    count = made.size
    values = LeaderValues(*(rng.gamma(2.0, 50.0, count) for _ in range(7)))
    nan = np.full(made.brokers, np.nan)
    measured = Measured(rng.uniform(1, 700, made.brokers), nan, nan, None)
    loads = corrected_loads.corrected(made, values, CpuWeights(), measured, cluster.loads)
    total = sums(made, loads)
    working = np.zeros(made.brokers, np.bool_)
    active = loads.held & (loads.leads | ~made.offline_replicas)
    working[np.unique(made.replicas[active])] = True
    assert total.cpu[working] == pytest.approx(measured.cpu[working])


@tries(12)
@given(clusters(), st.integers(0, 2**32 - 1))
def test_what_removing_traffic_frees_is_the_difference_of_two_models(cluster: Cluster, seed: int) -> None:
    """The fitted model of a broker with and without one replica, as a share of its measured CPU."""
    rng = np.random.default_rng(seed)
    made = cluster.topology
    values = LeaderValues(*(rng.gamma(2.0, 50.0, made.size) for _ in range(7)))
    nan = np.full(made.brokers, np.nan)
    measured = Measured(rng.uniform(1, 700, made.brokers), nan, nan, None)
    loads = corrected_loads.fitted(
        made, values, (0.003, 0.0005, 0.001), np.full(made.brokers, 8.0), measured, cluster.loads
    )
    got = corrected_loads.removed(made, loads, measured.cpu)
    for row, column in np.argwhere(loads.held)[:20].tolist():
        broker = made.replicas[row, column]
        on = loads.held & (made.replicas == broker)
        whole = loads.cpu[on].sum()
        without = whole - loads.cpu[row, column]
        assert got[row, column] == pytest.approx(
            measured.cpu[broker] * (1 - without / whole) if whole else 0.0, abs=1e-9
        )


@pytest.mark.parametrize("mode", ["upstream", "corrected", "regression"])
def test_samples_without_any_broker_are_shown(mode: str, tmp_path: Path) -> None:
    names = ("topic", "partition", "time_ms", *SAMPLE)
    rows = [("orders", 0, 3_600_000_000 + minute * 60_000, *(1.0 for _ in SAMPLE)) for minute in range(60)]
    lines = [",".join(map(str, row)) for row in (names, *rows)]
    (tmp_path / "samples.csv").write_text("\n".join(lines) + "\n")
    session = opened("broker-load", tmp_path)
    result = session.compute("broker-load", BrokerLoadParameters(mode=mode))
    session.close()
    assert result.tables["partitions"].height == 1 and not result.tables["replicas"].height
