"""The records of ``partition_load`` by hand: two windows, two partitions of equal size, one without a leader."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.broker_load.cruise_control import rest_answers, windows
from engine.broker_load.cruise_control.cluster_model import Cluster
from engine.broker_load.model.topology import Broker
from engine.broker_load.parameters import BrokerLoadParameters
from tests.engine.broker_load.cruise_control.test_load_model import SECOND, window
from tests.engine.broker_load.random_clusters import loaded

BROKERS = {number: Broker(f"h{number}", f"r{number}", True, True) for number in (1, 2, 3)}
PARTITIONS = [("t", 0, 1, [1, 2]), ("t", 1, 2, [2]), ("u", 0, 3, [3, 1]), ("v", 0, -1, [1])]


def total(*counts: int) -> windows.Aggregate:
    """Means of all rates 2, 1, 4 and 4, 1, 2; disks 5, 6, 5 and 1, 2, 3."""
    made = [
        window(9, [4, 4, 4, 4], [8.0, 4.0, 16.0, 0.0], [5.0, 6.0, 5.0, 0.0]),
        window(8, list(counts) or [4, 4, 4, 4], [16.0, 4.0, 8.0, 0.0], [1.0, 2.0, 3.0, 0.0]),
    ]
    return windows.aggregate(made, None, SECOND, 4, 5, np.array([0, 0, 1, 2], np.int32))


def records(
    chosen: Cluster | None = None, over: windows.Aggregate | None = None, **options: Any
) -> list[dict[str, Any]]:
    """The records in their order; of another mode with its cluster ``chosen``."""
    cluster = loaded(PARTITIONS, BROKERS)
    model: Any = SimpleNamespace(topology=cluster.topology, cluster=cluster)
    parameters = BrokerLoadParameters(**options)
    return rest_answers.partition_records(model, chosen or cluster, over or total(), parameters)


def shown(**options: Any) -> list[tuple[Any, ...]]:
    """Topic and number, and the five values of each."""
    names = ("cpu", "disk", "networkInbound", "networkOutbound", "msg_in")
    return [(f"{row['topic']}-{row['partition']}", *(row[name] for name in names)) for row in records(**options)]


def test_means_by_falling_size() -> None:
    """Equal ones stand in falling order of topic and partition. A leader's followers fetch what it takes in."""
    assert shown() == [("t-1", 100, 6, 2, 1, 1), ("u-0", 300, 5, 6, 6, 3), ("t-0", 300, 5, 6, 6, 3)]
    assert records()[1] | {"cpu": 0} == {
        "topic": "u", "partition": 0, "leader": 3, "followers": [1], "cpu": 0, "disk": 5.0, "networkInbound": 6.0,
        "networkOutbound": 6.0, "msg_in": 3.0,
    }  # fmt: skip


@pytest.mark.parametrize("resource", ["CPU", "NW_IN", "NW_OUT"])
def test_by_another_resource(resource: str) -> None:
    assert [row[0] for row in shown(resource=resource)] == ["u-0", "t-0", "t-1"]


def test_maxima_and_means_where_asked_for() -> None:
    assert shown(max_load=True) == [("t-1", 100, 6, 2, 1, 1), ("u-0", 400, 5, 8, 8, 4), ("t-0", 400, 5, 8, 8, 4)]
    assert [row[:3] for row in shown(avg_load=True)] == [("u-0", 300, 4), ("t-1", 100, 4), ("t-0", 300, 3)]


def test_the_maximum_of_nothing_is_javas_smallest_float() -> None:
    nothing = windows.aggregate([window(9, [4, 4], [0.0, 2.0], [0.0, 0.5])], None, SECOND, 4, 5, np.zeros(2, np.int32))
    assert nothing.maximum("disk_usage").tolist() == [2.0**-149, 0.5]


def test_some_of_them() -> None:
    assert [row[0] for row in shown(entries=2)] == ["t-1", "u-0"]
    assert [row[0] for row in shown(topic="t|x")] == ["t-1", "t-0"]
    assert shown(topic="T") == shown(topic="(") == []
    assert [row[0] for row in shown(over=total(4, 0, 4, 4))] == ["u-0", "t-0"]


def test_loads_of_another_mode() -> None:
    """Those of the replicas that lead; messages stay."""
    cluster = loaded(PARTITIONS, BROKERS)
    values = np.where(cluster.loads.leads, 7.0, 1.0)
    other = replace(cluster, loads=replace(cluster.loads, cpu=values, disk=values, nw_in=values, nw_out=values))
    assert shown(chosen=other)[0] == ("u-0", 7, 7, 7, 7, 3)


def test_why_there_is_no_answer() -> None:
    cluster, over = loaded(PARTITIONS, BROKERS), total()
    assert rest_answers._refusal(cluster.topology, over, cluster) is None
    refused = windows.aggregate([window(9, [0], [0.0], [0.0])], None, SECOND, 4, 5, np.zeros(1, np.int32))
    assert "none of 1 has enough valid partitions" in str(rest_answers._refusal(cluster.topology, refused, cluster))
    disk = np.array([100.0, math.nan, 100.0])
    for file in (True, False):
        unknown = replace(cluster, capacities=replace(cluster.capacities, disk=disk, file=file))
        reason = rest_answers._refusal(cluster.topology, over, unknown)
        assert (reason is not None) == file and (not file or "no capacity of broker 2" in str(reason))
    assert rest_answers._unseen(cluster.topology, over) is None
    dead = loaded(PARTITIONS, BROKERS | {3: replace(BROKERS[3], alive=False)}).topology
    assert rest_answers._unseen(dead, over) is None
    assert "dead broker 3 holds no valid partition" in str(rest_answers._unseen(dead, total(4, 4, 0, 4)))
