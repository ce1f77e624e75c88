"""Machines that are scraped by another name than their brokers: node_exporter by address, brokers by name or pod."""

from __future__ import annotations

import polars as pl
import pytest

from engine.broker_load.model import identity
from engine.broker_load.model.topology import Broker
from engine.broker_load.tables import raw_metrics
from engine.broker_load.tables.inputs import MACHINES, METRICS, TOPOLOGY

IDLE, BYTES = raw_metrics.NODE_IDLE_SECONDS, raw_metrics.ID["ALL_TOPIC_BYTES_IN"]


def ids(hosts: dict[str, int | None], machines: dict[str, str], listed: dict[int, str]) -> dict[str, tuple[int, ...]]:
    """Return the brokers of ``hosts``, with or without ids, by a broker list and names of machines."""
    rows = METRICS.frame({
        "host": list(hosts), "broker": list(hosts.values()), "metric": [IDLE if ":9100" in h else BYTES for h in hosts],
        "topic": [None] * len(hosts), "partition": [None] * len(hosts),
    })  # fmt: skip
    known = {number: Broker(host, "", True, True) for number, host in listed.items()}
    called = MACHINES.frame({"host": list(machines), "machine": list(machines.values())})
    return dict(identity.resolve(rows, TOPOLOGY.empty(), known, called).ids)


@pytest.mark.parametrize("name", ["kafka-1", "kafka-1.example.com", "KAFKA-1.example.com", "kafka-1.internal"])
def test_an_address_belongs_to_the_machine_it_is_named_after(name: str) -> None:
    listed = {1: "kafka-1.example.com", 10: "kafka-10.example.com"}
    assert ids({"10.0.0.1:9100": None}, {"10.0.0.1:9100": name}, listed) == {"10.0.0.1:9100": (1,)}
    assert ids({"10.0.0.1:9100": None}, {"10.0.0.1:9100": "db-1"}, listed) == {}, "nor is it broker 10"


def test_a_host_known_by_its_own_name_is_not_matched_by_another() -> None:
    listed = {1: "kafka-1.example.com", 2: "kafka-2.example.com"}
    named = {"kafka-1.example.com:9100": "kafka-2"}
    assert ids({"kafka-1.example.com:9100": None}, named, listed) == {"kafka-1.example.com:9100": (1,)}


def test_all_brokers_on_a_node_have_its_machine() -> None:
    """Pods say on which node they run; the node's exporter has an address and the node's name."""
    hosts: dict[str, int | None] = {"c-kafka-0": 0, "c-kafka-1": 1, "c-kafka-2": 2, "10.0.0.7:9100": None}
    machines = {"c-kafka-0": "worker-a", "c-kafka-1": "worker-b", "c-kafka-2": "worker-a", "10.0.0.7:9100": "worker-a"}
    assert ids(hosts, machines, {})["10.0.0.7:9100"] == (0, 2)


def test_hosts_of_one_machine_go_together() -> None:
    machines = MACHINES.frame({"host": ["10.0.0.1:9100", "10.0.0.2:9100"], "machine": ["k1", "k9"]})
    hosts = ["k1.example.com:9404", "10.0.0.1:9100", "10.0.0.2:9100", "10.0.0.2:9404"]
    assert identity.together(hosts, machines) == {
        "k1.example.com:9404": "k1.example.com", "10.0.0.1:9100": "k1.example.com", "10.0.0.2:9100": "10.0.0.2",
        "10.0.0.2:9404": "10.0.0.2",
    }  # fmt: skip


def test_evidence_from_several_parts_counts_once() -> None:
    part = METRICS.frame({"host": ["a", "a"], "broker": [1, 1], "metric": [BYTES] * 2, "value": [1.0, 2.0]})
    assert identity.evidence([part, part]).height == 2
    assert isinstance(identity.evidence([part]), pl.DataFrame)
