"""Cruise Control's answers read back and compared."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.engine.broker_load.inputs import compute, read
from tests.reference import reference


@pytest.mark.parametrize("name", ["load.json", "load.txt"])
def test_load_answers_are_read_back(name: str) -> None:
    """As source upstream, with nothing that contradicts itself."""
    root = reference("broker-load") / "small" / "expected_kafka"
    result = compute(read(root / name))
    rows = result.tables["brokers"]
    assert rows["source"].to_list() == ["upstream"] * 4
    theirs = {row["Broker"]: row for row in json.loads((root / "load.json").read_text())["brokers"]}
    for row in rows.iter_rows(named=True):
        assert row["cpu_pct"] == pytest.approx(theirs[row["broker"]]["CpuPct"], abs=6e-4)
        assert (row["leaders"], row["replicas"]) == (
            theirs[row["broker"]]["Leaders"],
            theirs[row["broker"]]["Replicas"],
        )
    assert result.tables["answer_differences"].height == 0
    assert not result.problems


@pytest.mark.parametrize("name", ["partition_load_disk.json", "partition_load_disk.txt"])
def test_partition_answers_are_read_back_with_their_followers(name: str) -> None:
    """Leaders as given; followers behind their leader by Cruise Control's rule."""
    root = reference("broker-load") / "small" / "expected_kafka"
    rows = compute(read(root / name)).tables["replicas"]
    golden = pl.read_csv(root / "replica_loads.csv")
    assert rows.height == golden.height
    theirs = {(r["topic"], r["partition"], r["broker"]): r for r in golden.iter_rows(named=True)}
    leaders = {(r["topic"], r["partition"]): r["position"] for r in golden.iter_rows(named=True) if r["is_leader"]}
    for row in rows.iter_rows(named=True):
        other = theirs[row["topic"], row["partition"], row["broker"]]
        if (
            other["position"] >= leaders[row["topic"], row["partition"]]
        ):  # before it, Cruise Control's order quirk applies
            assert row["cpu_pct_cores"] == pytest.approx(other["cpu_pct_cores"], rel=1e-3, abs=1e-3)
        assert row["disk_mb"] == pytest.approx(other["disk_mb"], abs=1e-3)


@pytest.mark.parametrize("name", ["kafka_cluster_state.json", "kafka_cluster_state.txt"])
def test_cluster_state_gives_topology(name: str) -> None:
    """A verbose answer stands in for a description."""
    root = reference("broker-load") / "small"
    result = compute(read(root / "expected_kafka" / name))
    theirs = compute(read(root / "native" / "topics-describe.txt"))
    columns = ["topic", "partition", "leader", "replicas"]
    assert result.tables["partitions"].select(columns).equals(theirs.tables["partitions"].select(columns))


def test_answers_are_compared_with_the_model() -> None:
    """The golden answer agrees; a changed number is flagged."""
    root = reference("broker-load") / "small"
    paths = [root / "input" / name for name in ("brokers.csv", "topology.csv", "metrics.csv", "capacity.json")]
    result = compute(read(*paths, root / "expected_kafka" / "load.json"))
    assert result.tables["answer_differences"].height == 0
    assert result.tables["brokers"]["source"].to_list() == ["model", "upstream"] * 4


def test_directories_of_a_load_answer(tmp_path: Path) -> None:
    """JBOD: each directory shows its load, a dead one null, and they must sum to the broker's disk."""
    disk = {"DiskMB": 300.0, "DiskPct": 30.0, "NumLeaderReplicas": 2, "NumReplicas": 5}
    row = {"Host": "h", "Rack": "r", "BrokerState": "ALIVE", "CpuPct": 1.0, "DiskMB": 700.0, "DiskPct": 35.0, "Leaders": 4,
           "Replicas": 9, "FollowerNwInRate": 1.0, "LeaderNwInRate": 1.0, "NwOutRate": 1.0, "PnwOutRate": 2.0}  # fmt: skip
    one = row | {"Broker": 1, "DiskState": {"/a": disk, "/b": disk | {"DiskMB": 400.0}}}
    two = row | {"Broker": 2, "DiskState": {"/a": disk, "/b": "DEAD"}}
    three = row | {"Broker": 3, "DiskState": {"/a": disk, "/b": 5}}
    (tmp_path / "load.json").write_text(json.dumps({"brokers": [one, two, three], "hosts": [], "version": 1}))
    result = compute(read(tmp_path))
    found = result.tables["directories"].select(
        "broker", "log_dir", "disk_mb", "disk_pct", "leaders", "replicas", "error"
    )
    assert found.rows() == [
        (1, "/a", 300.0, 30.0, 2, 5, None), (1, "/b", 400.0, 30.0, 2, 5, None),
        (2, "/a", 300.0, 30.0, 2, 5, None), (2, "/b", None, None, None, None, "DEAD"), (3, "/a", 300.0, 30.0, 2, 5, None),
    ]  # fmt: skip
    assert set(result.tables["directories"]["source"]) == {"upstream"}
    assert [p.kind for p in result.problems] == ["bad-record"]
    wrong = result.tables["answer_differences"].filter(pl.col("basis") == "sum of its directories")
    assert wrong.select("subject", "given", "derived").rows() == [("broker 3", 700.0, 300.0)]


def test_contradictions_inside_an_answer_are_flagged(tmp_path: Path) -> None:
    """A host that is not the sum of its brokers, a percentage that does not follow."""
    broker = {"Host": "h", "Broker": 1, "Rack": "r", "BrokerState": "ALIVE", "DiskMB": 50.0, "DiskCapacityMB": 100.0,
              "DiskPct": 40.0, "CpuPct": 10.0, "LeaderNwInRate": 1.0, "FollowerNwInRate": 1.0, "NwOutRate": 5.0,
              "PnwOutRate": 2.0, "Leaders": 1, "Replicas": 2}  # fmt: skip
    host = {"Host": "h", "CpuPct": 30.0, "DiskMB": 50.0, "LeaderNwInRate": 1.0, "FollowerNwInRate": 1.0,
            "NwOutRate": 5.0, "Leaders": 1, "Replicas": 2}  # fmt: skip
    (tmp_path / "load.json").write_text(json.dumps({"brokers": [broker], "hosts": [host], "version": 1}))
    found = compute(read(tmp_path)).tables["answer_differences"]
    assert set(found["value"].to_list()) == {"disk_pct", "pnw_out_kbs", "cpu_pct"}


def test_real_client_tables() -> None:
    """Thousands separators, older servers without capacities, dead brokers at -1 %."""
    root = reference("broker-load") / "real"
    load = compute(read(root / "linkedin" / "client_load.txt"))
    assert not load.problems
    row = load.tables["brokers"].filter(pl.col("broker") == 2199).row(0, named=True)
    assert (row["disk_mb"], row["nw_out_kbs"], row["leaders"], row["replicas"]) == (646967.81, 1124.97, 11215, 18799)
    removed = compute(read(root / "linkedin" / "client_remove_broker_dryrun.txt"))
    dead = removed.tables["brokers"].filter(pl.col("broker") == 1500).row(0, named=True)
    assert (dead["state"], dead["replicas"]) == ("DEAD", 0)
    assert removed.tables["answer_goals"].height == 15
    state = compute(read(root / "linkedin" / "client_kafka_cluster_state.txt")).tables["brokers"]
    assert state["leaders"].sum() == 3005 + 2816 + 4274 + 2560 + 2574
    amq = compute(read(root / "amq-streams" / "add_broker_dryrun.txt"))
    assert amq.tables["brokers"]["replicas"].to_list() == [48, 49, 52]
    goals = amq.tables["answer_goals"]
    assert (goals["score_before"][0], goals["score_after"][0], goals["provision"][0]) == (86.026, 92.12, "RIGHT_SIZED")
