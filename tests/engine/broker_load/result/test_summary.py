"""Findings of dead brokers and leaderless partitions stand first: they cause most others."""

from __future__ import annotations

from pathlib import Path

from tests.engine.broker_load.clusters import KB, simple
from tests.engine.broker_load.inputs import compute, read


def test_dead_brokers_and_partitions_without_a_leader_stand_first(tmp_path: Path) -> None:
    """Every goal counts as violated then, with one text: eight of them hid which broker it is."""
    cluster = simple(tmp_path)
    cluster.dead.add(3)
    for number in range(4):
        cluster.partition("lost", number, -1, "3", isr="", offline="3")
    findings = compute(read(cluster.write())).findings
    first = [(one.level, one.subject, one.row) for one in findings[:2]]
    assert first == [
        ("critical", "broker 3", ("brokers", (3,))),
        ("critical", "partitions without a leader", ("partitions", ("lost", 0))),
    ]
    assert findings[1].text.startswith("4 of ") and findings[1].text.split("; ")[0].endswith(
        ": lost-0, lost-1, lost-2 and 1 more"
    )


def test_a_healthy_cluster_has_no_such_finding(tmp_path: Path) -> None:
    findings = compute(read(simple(tmp_path).write())).findings
    assert not [one for one in findings if one.level == "critical"]


def test_one_partition_without_a_sample_is_one(tmp_path: Path) -> None:
    """The reason speaks of the newest round alone, coverage of all that count."""
    made = simple(tmp_path)
    made.partition("v", 0, 1, "1")
    made.rate(1, "v", 100 * KB, 100 * KB)
    made.totals(1, 0.5, bytes_in=200 * KB, bytes_out=300 * KB)
    result = compute(read(made.write()))
    assert next(one.basis for one in result.headline if one.label == "coverage") == "1 partition without a sample"
    assert "; 1 led partition without a sample in the newest round" in result.tables["brokers"]["residual_reason"][0]
