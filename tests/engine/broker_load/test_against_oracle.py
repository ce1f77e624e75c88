"""Random odd clusters: the view against the same rules in plain Python, and live against cold.

``LOADLENS_ODD_CLUSTERS=5000`` runs that many instead of a few.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest

from engine.core.incremental import Memo
from engine.core.view import Result
from tests.engine.broker_load import odd_clusters, oracle
from tests.engine.broker_load.inputs import compute, read
from tests.engine.broker_load.oracle import Loads, Oracle

FEW = (0, 1, 2, 10, 65, 77, 116, 185, 193, 354, 860, 1206, 1309, 1322, 1532, 1854, 2338, 2467, 2953, 2973)
"""Drawings in which every rare case occurs at least twice."""
SEEDS = range(int(os.environ["LOADLENS_ODD_CLUSTERS"])) if "LOADLENS_ODD_CLUSTERS" in os.environ else FEW
Table = dict[tuple[Any, ...], dict[str, Any]]


def near(ours: float | None, theirs: float | None, relative: float = 1e-6, tiny: float = 1e-9) -> bool:
    """Whether two numbers agree; null is NaN."""
    a, b = (math.nan if x is None else float(x) for x in (ours, theirs))
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=relative, abs_tol=tiny)


def table(result: Result, name: str, *keys: str) -> Table:
    """Rows of a result table by their key."""
    rows = result.tables[name].rows(named=True)
    made = {tuple(row[key] for key in keys): row for row in rows}
    assert len(made) == len(rows), name
    return made


def check(ours: Table, theirs: dict[tuple[Any, ...], dict[str, Any]], relative: float = 1e-6) -> None:
    """The same keys and, of each, the same values."""
    assert ours.keys() == theirs.keys()
    for key, values in theirs.items():
        for name, value in values.items():
            mine = ours[key][name]
            same = near(mine, value, relative) if isinstance(value, float) else mine == value
            assert same, (key, name, mine, value)


def check_samples(result: Result, model: Oracle) -> None:
    """Samples of partitions and brokers."""
    theirs = {(*key, time): values for (key, time), values in model.samples.items()}
    check(table(result, "samples", "topic", "partition", "time_ms"), theirs, 1e-11)
    check(table(result, "broker_samples", "broker", "time_ms"), model.broker_samples, 1e-11)


def check_loads(result: Result, model: Oracle, loads: Loads) -> None:
    """Windows, replicas, brokers, statistics, limits and goals."""
    assert model.chosen is not None
    windows = {
        (*key, window * model.cluster.window_ms): values | {"extrapolation": kind}
        for (window, key), (kind, values) in model.chosen.cells.items()
    }
    check(table(result, "windows", "topic", "partition", "window_end_ms"), windows)
    partitions = table(result, "partitions", "topic", "partition")
    assert {key: row["valid"] for key, row in partitions.items()} == {k: k in model.chosen.valid for k in model.keys}
    for key in {r.key for r in loads.replicas if r.leads}:
        rates = [model.chosen.cells[window, key][1]["message_in_rate"] for window in model.chosen.windows]
        assert near(partitions[key]["msg_in"], oracle.floor0(oracle.mean(rates)))
    replicas = {
        (*r.key, r.position): {
            "broker": r.broker, "leader": r.leads, "offline": r.offline, "cpu_pct_cores": oracle.floor0(r.cpu),
            "disk_mb": oracle.floor0(r.disk), "nw_in_kbs": oracle.floor0(r.nw_in), "nw_out_kbs": oracle.floor0(r.nw_out),
        }
        for r in loads.replicas
    }  # fmt: skip
    check(table(result, "replicas", "topic", "partition", "position"), replicas)
    states = loads.states()
    brokers = {
        (i,): {
            "state": states[i], "disk_mb": oracle.floor0(loads.raw(i, "DISK")), "pnw_out_kbs": loads.pnw_out(i),
            "nw_out_kbs": oracle.floor0(loads.raw(i, "NW_OUT")), "leader_nw_in_kbs": loads.leader_in(i),
            "replicas": len(loads.on(i)), "leaders": sum(r.leads for r in loads.on(i)),
            "capacity_estimated": i in model.live and i not in model.cluster.capacity,
        }
        for i in model.ids
    }  # fmt: skip
    for i in model.live:
        brokers[i,]["cpu_pct"] = 100 * oracle.floor0(loads.raw(i, "CPU")) / loads.capacity(i, "CPU")
    check(table(result, "brokers", "broker"), brokers)
    stats = table(result, "cluster_stats", "statistic")
    for name, values in loads.statistics().items():
        for statistic, value in zip(("AVG", "MAX", "MIN", "STD"), values, strict=True):
            # A deviation near 0 is a difference of equal numbers; disks are summed in single precision.
            mine, relative = stats[statistic,][name], 3e-5 if name == "disk_mb" else 1e-6
            assert near(mine, value, relative, 1e-5 + 1e-6 * abs(values[0])), (statistic, name, mine, value)
    for (resource,), row in table(result, "balance", "resource").items():
        if resource != "POTENTIAL_NW_OUT":
            assert near(row["cluster_load"], loads.total(resource))
            assert near(row["lower_threshold"], loads.band(resource)[0])
            assert near(row["upper_threshold"], loads.band(resource)[1])
    assert {goal: row["violated"] for (goal,), row in table(result, "goals", "goal").items()} == loads.goals()


@pytest.mark.parametrize("seed", SEEDS)
def test_odd_cluster(seed: int, tmp_path: Path) -> None:
    """Everything the oracle knows; and, of every other cluster, the same after another moment was looked at before."""
    cluster = odd_clusters.draw(seed)
    inputs = read(cluster.write(tmp_path), mtime_ms=odd_clusters.START_MS)
    result = compute(inputs, *cluster.options())
    if seed % 2:
        memo = Memo()
        compute(inputs, *cluster.options()[:-2], ("at", str(cluster.at_ms - cluster.window_ms)), memo=memo)
        assert result.same_as(compute(inputs, *cluster.options(), memo=memo))
    model = Oracle(cluster)
    check_samples(result, model)
    assert result.summary["enough_valid_windows"] == (model.chosen is not None)
    if model.chosen is not None:
        check_loads(result, model, Loads(model, model.chosen))
