"""Series of several clusters in one file: one of them is shown, by its label, and never a mixture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.core.incremental import Memo
from engine.core.view import Inputs, UnknownName
from tests.engine.broker_load.inputs import compute, read

AT = 1_700_000_040


def answer(**clusters: tuple[str, int, float]) -> bytes:
    """Series of clusters by name: the label that names it, how many brokers, and bytes per second of each."""
    result = []

    def add(name: str, value: float, **labels: str) -> None:
        result.append({"metric": {"__name__": name, **labels}, "values": [[AT, str(value)]]})

    for cluster, (label, brokers, rate) in clusters.items():
        own = {label: cluster}
        for broker in range(brokers):
            pod = {"pod": f"kafka-{broker}", "instance": f"10.0.0.{broker}:9404", **own}
            add("kafka_server_brokertopicmetrics_bytesinpersec_oneminuterate", rate, topic="t", **pod)
            add("kafka_server_brokertopicmetrics_bytesinpersec_oneminuterate", rate, **pod)
            add("java_lang_operatingsystem_processcpuload", 0.5, **pod)
            add("kafka_log_log_size", 1048576.0, topic="t", partition=str(broker), **pod)
            add("kafka_server_app_info", 1, id=str(broker), **pod)
            add("kafka_broker_info", 1, id=str(broker), address=f"{cluster}-{broker}:9092", **own)
            add("kafka_topic_partition_leader", broker, topic="t", partition=str(broker), **own)
            add("kafka_topic_partition_in_sync_replica", 1, topic="t", partition=str(broker), **own)
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


def inputs(folder: Path, data: bytes) -> Inputs:
    (folder / "a.json").write_bytes(data)
    return read(folder)


def hosts(every: Inputs, *pairs: tuple[str, str], memo: Memo | None = None) -> tuple[list[str], float]:
    """Return the hosts of the brokers shown, and the first one's network in."""
    result = compute(every, *pairs, memo=memo)
    assert not [problem for problem in result.problems if problem.kind in ("mixed-clusters", "duplicate-series")]
    rows = result.tables["brokers"].sort("broker")
    partition = result.tables["partitions"].filter(partition=0)
    assert partition["leader"].to_list() == [0] and partition["replicas"].to_list() == [[0]]
    return rows["host"].to_list(), rows["leader_nw_in_kbs"][0]


@pytest.mark.parametrize("label", ["cluster", "kafka_cluster", "strimzi_io_cluster"])
def test_clusters_are_known_by_all_their_labels(tmp_path: Path, label: str) -> None:
    both = inputs(tmp_path, answer(eu=(label, 2, 1024.0), us=(label, 3, 4096.0)))
    assert hosts(both, ("cluster", "eu")) == (["eu-0", "eu-1"], 1.0)


def test_each_cluster_is_what_it_is_alone(tmp_path: Path) -> None:
    small, large = ("eu", ("cluster", 2, 1024.0)), ("us", ("cluster", 3, 4096.0))
    both, memo = inputs(tmp_path, answer(**dict([small, large]))), Memo()
    for name, wanted in (
        ("eu", (["eu-0", "eu-1"], 1.0)),
        ("us", (["us-0", "us-1", "us-2"], 4.0)),
        ("EU", (["eu-0", "eu-1"], 1.0)),
    ):
        assert hosts(both, ("cluster", name), memo=memo) == wanted
    assert hosts(both, memo=memo) == (["us-0", "us-1", "us-2"], 4.0)
    alone = compute(inputs(tmp_path, answer(eu=small[1])))
    of_both = compute(inputs(tmp_path, answer(**dict([small, large]))), ("cluster", "eu"))
    for table in ("brokers", "partitions", "replicas"):
        assert of_both.tables[table].equals(alone.tables[table]), table


def test_the_choice_of_a_cluster_is_reported(tmp_path: Path) -> None:
    both = inputs(tmp_path, answer(eu=("cluster", 2, 1.0), us=("cluster", 3, 1.0)))
    result = compute(both)
    assert result.summary["cluster"] == "us" and any(
        "cluster us is shown; eu left out" in note for note in result.notes
    )
    assert [problem.reason for problem in result.problems if "-o cluster=eu" in problem.reason]
    chosen = compute(both, ("cluster", "us"))
    assert not chosen.problems and chosen.tables["brokers"].equals(result.tables["brokers"])
    with pytest.raises(UnknownName, match="eu"):
        compute(both, ("cluster", "asia"))
    alone = compute(inputs(tmp_path, answer(eu=("cluster", 2, 1.0))))
    assert not alone.problems and "cluster" not in alone.summary


def test_more_clusters_than_are_told_apart_are_left_out_not_mixed_in(tmp_path: Path) -> None:
    many = {f"c{number:03}": ("cluster", 1 + (number == 7), 1024.0) for number in range(260)}
    every = inputs(tmp_path, answer(**many))
    assert hosts(every) == (["c007-0", "c007-1"], 1.0)
    problem = next(problem for problem in compute(every).problems if problem.kind == "too-many-clusters")
    assert "260 clusters" in problem.reason and problem.count > 0
    with pytest.raises(UnknownName):
        compute(every, ("cluster", "c259"))


def test_a_label_that_only_machines_have_names_no_cluster(tmp_path: Path) -> None:
    data = json.loads(answer(eu=("strimzi_io_cluster", 2, 1.0)))
    for cpu in ("0", "1"):
        metric = {
            "__name__": "node_cpu_seconds_total",
            "mode": "idle",
            "cpu": cpu,
            "instance": "n:9100",
            "cluster": "k8s",
        }
        data["data"]["result"].append({"metric": metric, "values": [[AT, "5"]]})
    result = compute(inputs(tmp_path, json.dumps(data).encode()))
    assert "cluster" not in result.summary and not result.problems
