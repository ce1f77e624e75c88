"""What ``--format upstream`` prints, by hand: four brokers, the last one dead, and a replica of every fate."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from engine.broker_load.cruise_control import rest_answers
from engine.broker_load.model import topology
from engine.broker_load.model.topology import Broker
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.tables.inputs import LOG_DIRS
from tests.engine.broker_load.random_clusters import described, loaded

BROKERS = {number: Broker(f"h{number}", f"r{number}", number < 4, True) for number in (1, 2, 3, 4)}
PARTITIONS = [
    ("t", 0, 1, [1, 2, 3], [1, 2], [], None, 2, None),
    ("t", 1, -1, [2, 4], [], [], None, None, None),
    ("t", 2, 2, [2, 1], [2], [1], None, 2, None),
    ("u", 0, 3, [3, 4], [3], [], None, 1, None),
    ("u", 1, 3, [3, 1], [3, 1], [], None, 1, None),
    ("u", 2, 4, [4], [4], [], None, 1, None),
]
DIRS = {
    "time_ms": [2, 1, 1, 1, 1],
    "broker": [1, 1, 1, 2, 9],
    "log_dir": ["/a", "/a", "/b", "/c", "/d"],
    "error": [None, "KAFKA_STORAGE_ERROR", "KAFKA_STORAGE_ERROR", None, None],
}


@pytest.fixture
def state() -> dict[str, Any]:
    """The answer of ``kafka_cluster_state``."""
    made = topology.build(described(PARTITIONS), BROKERS)
    return rest_answers.cluster_state(made, LOG_DIRS.frame(DIRS), BrokerLoadParameters())


def test_counts_of_brokers(state: dict[str, Any]) -> None:
    """Partitions without a leader count nowhere but in the lists."""
    brokers = state["KafkaBrokerState"]
    assert brokers["ReplicaCountByBrokerId"] == {"1": 3, "2": 2, "3": 3, "4": 2}
    assert brokers["LeaderCountByBrokerId"] == {"1": 1, "2": 1, "3": 2, "4": 1}
    assert brokers["OutOfSyncCountByBrokerId"] == {"1": 1, "3": 1, "4": 1}
    assert brokers["OfflineReplicaCountByBrokerId"] == {"1": 1, "4": 2}
    assert brokers["IsController"] == {"1": True, "2": False, "3": False}
    assert brokers["OnlineLogDirsByBrokerId"] == {"1": ["/a"], "2": ["/c"], "3": [], "4": []}
    assert brokers["OfflineLogDirsByBrokerId"] == {"1": ["/b"], "2": [], "3": [], "4": []}
    assert brokers["Summary"] == {
        "Brokers": 3, "Topics": 2, "Replicas": 10, "Leaders": 5, "AvgReplicationFactor": 2.0,
        "AvgReplicasPerBroker": 10 / 3, "AvgLeadersPerBroker": 5 / 3, "MaxReplicasPerBroker": 3, "MaxLeadersPerBroker": 2,
        "StdReplicasPerBroker": pytest.approx(math.sqrt(2) / 3), "StdLeadersPerBroker": pytest.approx(math.sqrt(2) / 3),
    }  # fmt: skip


def test_partitions_by_their_fate(state: dict[str, Any]) -> None:
    parts = {
        fate: [(row["topic"], row["partition"]) for row in rows] for fate, rows in state["KafkaPartitionState"].items()
    }
    assert parts == {
        "offline": [("t", 1), ("u", 2)],
        "with-offline-replicas": [("t", 1), ("t", 2), ("u", 0), ("u", 2)],
        "urp": [("t", 0), ("t", 2), ("u", 0)],
        "under-min-isr": [("t", 1), ("t", 2)],
        "other": [("u", 1)],
    }
    (first,) = (row for row in state["KafkaPartitionState"]["urp"] if row["topic"] == "t" and row["partition"] == 0)
    assert first == {
        "topic": "t", "partition": 0, "leader": 1, "replicas": [1, 2, 3], "in-sync": [1, 2], "out-of-sync": [3],
        "offline": [], "min-isr": 2,
    }  # fmt: skip
    leaderless = state["KafkaPartitionState"]["offline"][0]
    assert (leaderless["leader"], leaderless["offline"], leaderless["out-of-sync"]) == (-1, [4], [2])
    assert leaderless["min-isr"] == 1


def test_state_of_no_live_broker() -> None:
    dead = {number: replace(broker, alive=False) for number, broker in BROKERS.items()}
    rows = described([("t", 0, -1, [1], [], [], None, 1, None)])
    found = rest_answers.cluster_state(topology.build(rows, dead), LOG_DIRS.frame(DIRS), BrokerLoadParameters())
    brokers = found["KafkaBrokerState"]
    assert brokers["Summary"] == dict.fromkeys(brokers["Summary"], 0) | {"Topics": 1}
    assert brokers["IsController"] == {} and brokers["OnlineLogDirsByBrokerId"] == {"1": ["/a"]}


def test_a_live_broker_without_replicas_is_counted() -> None:
    rows = described([("t", 0, 1, [1], [1], [], None, 1, None)])
    made = topology.build(rows, {number: BROKERS[number] for number in (1, 2)})
    brokers = rest_answers.cluster_state(made, LOG_DIRS.frame(DIRS), BrokerLoadParameters())["KafkaBrokerState"]
    assert brokers["ReplicaCountByBrokerId"] == brokers["LeaderCountByBrokerId"] == {"1": 1, "2": 0}
    assert brokers["OutOfSyncCountByBrokerId"] == brokers["OfflineReplicaCountByBrokerId"] == {}
    assert (brokers["Summary"]["AvgReplicasPerBroker"], brokers["Summary"]["StdReplicasPerBroker"]) == (0.5, 0.5)


def test_state_as_text(state: dict[str, Any]) -> None:
    """Numbers under their titles, each column as wide as Cruise Control makes it."""
    lines = rest_answers.state_text(state).splitlines()
    assert lines[0] == (
        "Summary: The cluster has 3 brokers, 10 replicas, 5 leaders, and 2 topics with avg replication factor: 2.00. "
        "[Leaders/Replicas per broker] avg: 1.67/3.33 max: 2/3 std: 0.47/0.47"
    )
    assert lines[4] == "".join(f"{word:>20}" for word in ("1", "1", "3", "1", "1", "true", "null"))
    assert lines[5] == "".join(f"{word:>20}" for word in ("2", "1", "2", "0", "0", "false", "null"))
    assert lines[10] == f"{'BROKER':>20}{'ONLINE-LOGDIRS':>18}{'OFFLINE-LOGDIRS':>19}"
    assert lines[11] == f"{'1':>20}{'[/a]':>18}{'[/b]':>19}"
    assert lines[17].startswith(f"{'TOPIC':>6}{'PARTITION':>10}{'LEADER':>10}{'REPLICAS':>30}")
    assert lines[19].startswith(f"{'t':>6}{'1':>10}{'-1':>10}{'[2, 4]':>30}{'[]':>30}{'[2]':>25}{'[4]':>25}{'1':>10}")
    without = {name: [] for name in state["KafkaPartitionState"]}
    empty = rest_answers.state_text({**state, "KafkaPartitionState": without}).splitlines()
    assert empty[17].startswith("TOPIC PARTITION")


def test_load_rows() -> None:
    """Hosts add up their brokers, also the CPU percentage; the disk percentage is made again; -1 without a capacity."""
    shared = {1: Broker("h", "r", True, True), 2: Broker("h", "r", True, True), 3: Broker("own", "s", False, True)}
    cluster = loaded(
        [("t", 0, 1, [1, 2, 3])], shared, room=250.0, cpu=(50, 100, 5), disk=(25, 100, -5), nw_in=(5, 7, 1),
        leader_nw_in=(2, -1, 3), nw_out=(-3, 4, 5), pnw_out=(9, -2, 0),
    )  # fmt: skip
    found = json.loads(rest_answers.load_json(cluster))
    first, second, dead = found["brokers"]
    assert first == {
        "Host": "h", "Broker": 1, "Rack": "r", "BrokerState": "ALIVE", "DiskCapacityMB": 250.0, "DiskMB": 25.0,
        "DiskPct": 10.0, "NumCore": 2.5, "CpuPct": 20.0, "NetworkInCapacity": 250.0, "NetworkOutCapacity": 250.0,
        "LeaderNwInRate": 2.0, "FollowerNwInRate": 3.0, "NwOutRate": 0.0, "PnwOutRate": 9.0, "Leaders": 1, "Replicas": 1,
    }  # fmt: skip
    assert (second["LeaderNwInRate"], second["FollowerNwInRate"], second["PnwOutRate"]) == (0.0, 8.0, 0.0)
    assert (dead["BrokerState"], dead["DiskPct"], dead["CpuPct"], dead["DiskMB"]) == ("DEAD", -1.0, 0.0, 0.0)
    assert (dead["FollowerNwInRate"], dead["NumCore"]) == (0.0, 0.0)
    host, own = found["hosts"]
    assert (host["CpuPct"], host["DiskPct"], host["DiskMB"], host["NumCore"], host["Replicas"]) == (60, 25, 125, 5, 2)
    assert (host["Host"], host["Rack"], own["DiskPct"]) == ("h", "r", -1)
    assert "Broker" not in host and "BrokerState" not in host
    lines = rest_answers.load_text(cluster).splitlines()
    assert lines[3] == (
        f"{'h':>3},{'1':>14},{'r':>9},{'250.000':>20},{'25.000':>19}/10.00,{'2.50':>19},{'20.000':>14},{'250.000':>24},"
        f"{'2.000':>24},{'3.000':>24},{'250.000':>24},{'0.000':>19},{'9.000':>19},{'1':>14}/1"
    )
    assert lines[2].startswith(f"{'HOST':>3}{'BROKER':>15}{'RACK':>10}{'DISK_CAP(MB)':>21}")
    assert lines[5].startswith(f"own,{'3':>14},{'s':>9},{'0.000':>20},{'0.000':>19}/-1.00,{'0':>19},{'0.000':>14}")


def test_a_nan_load_of_a_dead_broker_is_nan() -> None:
    cluster = loaded([("t", 0, 1, [1, 4])], BROKERS, cpu=(1, 1, 1, math.nan))
    assert rest_answers.load_text(cluster).splitlines()[-1].count("NaN") == 1
    refused = json.loads(rest_answers.load_json(cluster))
    assert set(refused) == {"errorMessage", "version"} and "NaN" in refused["errorMessage"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0005, "0.001"), (0.00049, "0.000"), (-1.5, "-1.500"), (1e22, "1" + "0" * 22 + ".000"), (math.nan, "NaN"),
     (math.inf, "Infinity"), (-math.inf, "-Infinity"), (1e300, f"{int(1e300)}.000")],
)  # fmt: skip
def test_numbers_as_java_formats_them(value: float, text: str) -> None:
    assert rest_answers._fixed(value) == text


def test_partition_text() -> None:
    record = {"topic": "t", "partition": 0, "leader": 1, "followers": [2, 3], "cpu": 1.5, "disk": 2.0, "networkInbound": 3.0,
              "networkOutbound": 4.0, "msg_in": 5.0}  # fmt: skip
    title, line = rest_answers.partition_text([record], ["t", "longer"]).splitlines()
    assert title.startswith(f"{'PARTITION':>11}{'LEADER':>10}{'FOLLOWERS':>30}{'CPU (%_CORES)':>20}")
    assert (
        line
        == f"{'t-0':>11}{'1':>10}{'[2, 3]':>30}{'1.500000':>19}{'2.000':>19}{'3.000':>19}{'4.000':>19}{'5.000':>19}"
    )
    assert rest_answers.partition_text([], []).startswith(f"{'PARTITION':>25}")
    assert [rest_answers._floor(each) for each in (-1.0, 0.1)] == [0.0, float(np.float32(0.1))]
    assert pl.Series([rest_answers._floor(math.nan)]).is_nan().all()
