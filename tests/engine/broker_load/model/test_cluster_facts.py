"""A topology made of exporters' series: leaders, followers, what is unknown, and messages by partition."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from engine.core.view import Inputs, Result
from tests.engine.broker_load.clusters import KB, MB, T0, Cluster, simple
from tests.engine.broker_load.cruise_control.test_golden import samples_match
from tests.engine.broker_load.inputs import compute, read
from tests.reference import reference

Partitions = dict[tuple[str, int], tuple[int, list[int], list[int]]]


def described(path: Path) -> Partitions:
    """Leader, replicas and in-sync replicas by partition, of a description by kafka-topics."""
    line = re.compile(r"\tTopic: (\S+)\tPartition: (\d+)\tLeader: (\d+)\tReplicas: ([\d,]+)\tIsr: ([\d,]+)")
    return {
        (topic, int(number)): (int(leader), [int(i) for i in held.split(",")], [int(i) for i in synced.split(",")])
        for topic, number, leader, held, synced in line.findall(path.read_text())
    }


def kafka_exporter(partitions: Partitions, brokers: dict[int, str]) -> str:
    lines = [f'kafka_broker_info{{address="{host}:9092",id="{broker}"}} 1' for broker, host in brokers.items()]
    for (topic, number), (leader, held, synced) in partitions.items():
        labels = f'{{partition="{number}",topic="{topic}"}}'
        for name, value in (("leader", leader), ("replicas", len(held)), ("in_sync_replica", len(synced)),
                            ("current_offset", 5)):  # fmt: skip
            lines.append(f"kafka_topic_partition_{name}{labels} {value}")
    return "\n".join(lines) + "\nprocess_cpu_seconds_total 17\n"


def test_leaders_and_followers_of_exporters_give_the_golden_samples(tmp_path: Path) -> None:
    small = reference("broker-load") / "small"
    partitions = described(small / "native/topics-describe.txt")
    with (small / "input/brokers.csv").open() as file:
        brokers = {int(row["broker"]): row["host"] for row in csv.DictReader(file)}
    (tmp_path / "kafka-exporter-1700000040.prom").write_text(kafka_exporter(partitions, brokers))
    result = compute(read(small / "native/scrape", small / "input/capacity.json", tmp_path))
    samples_match(small / "expected_kafka", result, 1e-9)
    shown = {(topic, number): (leader, held, synced) for topic, number, leader, held, synced in
             result.tables["partitions"].select("topic", "partition", "leader", "replicas", "isr").rows()}  # fmt: skip
    assert shown.keys() == partitions.keys()
    for place, (leader, held, synced) in partitions.items():
        others = sorted(set(held) - {leader})
        whole = [leader, *others]
        assert shown[place] == (leader, whole, whole if len(synced) == len(held) else [leader]), place
    assert any("order replicas are assigned" in note and "kafka-topics" in note for note in result.notes)
    assert not result.problems and not result.tables["ledger"].filter(kind="unmatched-host").height


# --- one rule at a time ------------------------------------------------------------------------------------------------

AT = 1_700_000_040


def inputs(folder: Path, *texts: str) -> Inputs:
    for number, text in enumerate(texts):
        (folder / f"{number}.prom").write_text(text)
    return read(folder)


def leads(at: int, leader: int, partition: int = 0) -> str:
    return f'kafka_topic_partition_leader{{topic="t",partition="{partition}",instance="x:9308"}} {leader} {at * 1000}\n'


def size(at: int, broker: int, partition: int = 0) -> str:
    labels = f'topic="t",partition="{partition}",instance="b{broker}:9404",broker_id="{broker}"'
    return f"kafka_log_log_size{{{labels}}} 9 {at * 1000}\n"


def shown(result: Result) -> list[tuple[int, int, list[int], list[int]]]:
    return result.tables["partitions"].select("partition", "leader", "replicas", "isr").rows()


def test_the_newest_leader_counts_and_partitions_that_ended_are_gone(tmp_path: Path) -> None:
    text = leads(AT, 1) + leads(AT + 60, 1) + leads(AT + 120, 2) + leads(AT + 1000, 2) + leads(AT, 1, partition=7)
    every = inputs(tmp_path, text, *(size(at, broker) for broker in (1, 2) for at in (AT, AT + 1000)))
    assert shown(compute(every)) == [(0, 2, [2, 1], [2, 1])]
    assert shown(compute(every, at_ms=(AT + 70) * 1000)) == [(0, 1, [1, 2], [1, 2]), (7, 1, [1], [1])]


def test_unreported_followers_are_named_as_unknown(tmp_path: Path) -> None:
    replicas = f'kafka_topic_partition_replicas{{topic="t",partition="0"}} 3 {AT * 1000}\n'
    result = compute(inputs(tmp_path, leads(AT, 1) + leads(AT, -1, partition=1) + replicas))
    assert shown(result) == [(0, 1, [1], [1]), (1, -1, [], [])]
    assert any("followers of 2 of 2 partitions" in note for note in result.notes)


def test_brokers_say_themselves_what_they_lead(tmp_path: Path) -> None:
    """Kafka's gauges of a partition are 0 on its followers."""
    text = "".join(
        f'kafka_cluster_partition_{name}{{topic="t",partition="0",instance="b{broker}:9404",broker_id="{broker}"}} '
        f"{value if broker == 2 else 0} {AT * 1000}\n"
        for broker in (1, 2, 3)
        for name, value in (("replicascount", 3), ("insyncreplicascount", 2))
    )
    ids = "".join(
        f'kafka_server_app_info{{id="{broker}",instance="b{broker}:9404"}} 1 {AT * 1000}\n' for broker in (1, 2, 3)
    )
    sizes = "".join(size(AT, broker) for broker in (1, 2, 3))
    result = compute(inputs(tmp_path, text + ids + sizes))
    assert shown(result) == [(0, 2, [2, 1, 3], [2])]


def test_messages_by_partition_are_the_growth_of_the_log(tmp_path: Path) -> None:
    name = "kminion_kafka_topic_partition_high_water_mark"
    ends = {0: [100, 700, 1300], 1: [50, 50, 50], 2: [900, 1000, 60]}  # the last topic was created again
    text = "".join(
        f'{name}{{topic_name="t",partition_id="{number}"}} {value} {(AT + 60 * step) * 1000}\n'
        for number, values in ends.items()
        for step, value in enumerate(values)
    )
    every = inputs(tmp_path, text + "".join(leads(AT, 1, number) for number in range(4)))
    rates = compute(every).tables["partitions"]["msg_measured"].to_list()
    assert rates == [pytest.approx(10), 0, pytest.approx((100 + 60) / 120), None]


def test_kminion_reports_the_disk_of_each_broker(tmp_path: Path) -> None:
    name, info = "kminion_kafka_broker_log_dir_size_total_bytes", "kminion_kafka_broker_info"
    text = "".join(
        f'{series}{{broker_id="{b}",address="b{b}",rack_id="r{b}"}} {value} {(AT + 3600 * (b == 2)) * 1000}\n'
        for b in (1, 2)
        for series, value in ((name, b * 1048576), (info, 1))
    )
    alone = compute(inputs(tmp_path, text))
    assert alone.tables["brokers"].select("broker", "host", "rack", "disk_mb").rows() == [
        (1, "b1", "r1", 1),
        (2, "b2", "r2", 2),
    ]
    assert any("kminion does not report leaders" in note for note in alone.notes)
    result = compute(inputs(tmp_path, text, leads(AT + 3600, 2)))
    assert result.tables["directories"].select("broker", "disk_mb", "source").rows() == [
        (1, 1, "reported"),
        (2, 2, "reported"),
    ]
    assert result.tables["brokers"].select("broker", "state").rows() == [(2, "ALIVE")]


def test_volumes_stand_in_for_log_directories(tmp_path: Path) -> None:
    """From the kubelet, if kminion gives no total of the broker; other volume claims belong to no broker."""

    def volume(claim: str, used: float, room: float) -> str:
        labels = f'namespace="k",persistentvolumeclaim="{claim}",instance="n1:10250"'
        return "".join(f"kubelet_volume_stats_{what}_bytes{{{labels}}} {value * 1048576} {AT * 1000}\n"
                       for what, value in (("used", used), ("capacity", room)))  # fmt: skip

    text = "".join((
        volume("data-0-c-kafka-1", 5, 10), volume("data-1-c-kafka-1", 2, 8), volume("data-c-kafka-2", 7, 70),
        volume("data-c-zookeeper-1", 9, 9), volume("grafana", 9, 9),
        f'kminion_kafka_broker_log_dir_size_total_bytes{{broker_id="2"}} 1048576 {AT * 1000}\n',
    ))  # fmt: skip
    alone = compute(inputs(tmp_path, text))
    assert alone.tables["brokers"].select("broker", "disk_mb").rows() == [(1, 7), (2, 1)]
    result = compute(inputs(tmp_path, text, leads(AT, 1) + leads(AT, 2, 1)))
    columns = ("broker", "log_dir", "disk_mb", "capacity_mb", "disk_pct")
    assert result.tables["directories"].select(columns).rows() == [
        (1, "data-0-c-kafka-1", 5, 10, 50), (1, "data-1-c-kafka-1", 2, 8, 25), (2, "(all of them)", 1, None, None),
    ]  # fmt: skip


def test_topics_show_their_size_from_kminion(tmp_path: Path) -> None:
    name = "kminion_kafka_topic_log_dir_size_total_bytes"
    text = "".join(f'{name}{{topic_name="t"}} {value * 1048576} {at * 1000}\n' for at, value in ((AT, 3), (AT + 60, 4)))
    result = compute(inputs(tmp_path, text, leads(AT, 1) + leads(AT, 1).replace('"t"', '"u"')))
    assert result.tables["topics"].select("topic", "reported_mb").sort("topic").rows() == [("t", 4), ("u", None)]


def test_messages_split_a_topics_rates_in_corrected_mode(tmp_path: Path) -> None:
    """Partition 2 took no messages; the bounds of the others reach the total."""
    cluster = Cluster(tmp_path)
    for number in range(3):
        cluster.partition("t", number, 1, "1|2")
        for broker in (1, 2):
            cluster.size(broker, "t", number, MB)
    cluster.rate(1, "t", 90 * KB, 30 * KB)
    for broker in (1, 2, 3):
        cluster.totals(broker, 0.5 if broker == 1 else 0.1, bytes_in=90 * KB * (broker == 1), bytes_out=30 * KB * (broker == 1),
                       replication_bytes_in=90 * KB * (broker == 2), replication_bytes_out=90 * KB * (broker == 1))  # fmt: skip
    folder = cluster.write()
    end = T0 // 1000
    text = "".join(
        f'kafka_topic_partition_current_offset{{topic="t",partition="{number}"}} {value * step} {(end - 60 + 60 * step) * 1000}\n'
        for number, value in enumerate((200, 400, 0))
        for step in (0, 1)
    )
    columns = ("partition", "nw_in_kbs", "nw_in_low_kbs", "nw_in_high_kbs", "split", "msg_measured")
    even = compute(read(folder))
    (folder / "offsets.prom").write_text(text)
    upstream, shared = compute(read(folder)), compute(read(folder), ("mode", "corrected"))
    same = even.tables["partitions"].drop("msg_measured")
    assert upstream.tables["partitions"].drop("msg_measured").equals(same)
    rows = shared.tables["partitions"].select(columns).rows()
    rate = [pytest.approx(value / 60) for value in (200, 400, 0)]
    total = pytest.approx(90)
    assert rows == [
        (0, pytest.approx(30), 0, total, 2, rate[0]),
        (1, pytest.approx(60), 0, total, 2, rate[1]),
        (2, 0, 0, 0, 1, 0),
    ]
    cpu = shared.tables["replicas"].filter(broker=1).select("cpu_pct_cores", "cpu_high").rows()
    assert [high for _, high in cpu] == [pytest.approx(400), pytest.approx(400), 0]
    assert [share for share, _ in cpu] == [pytest.approx(400 / 3), pytest.approx(800 / 3), 0]
    assert any("messages that exporters count" in note for note in shared.notes)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-7", "1e300", "2147483648", "0.5"])
def test_odd_facts_do_no_harm(tmp_path: Path, value: str) -> None:
    names = (
        "kafka_topic_partition_leader", "kafka_topic_partition_replicas", "kafka_topic_partition_in_sync_replica",
        "kafka_topic_partition_current_offset", "kminion_kafka_topic_partition_high_water_mark", "kafka_broker_info",
        "kafka_cluster_partition_replicascount", "kminion_kafka_topic_log_dir_size_total_bytes",
        "kminion_kafka_broker_log_dir_size_total_bytes", "kminion_kafka_topic_info", "kminion_kafka_broker_info",
    )  # fmt: skip
    several = (
        'topic="t",partition="0"', 'topic="",partition="x"', 'topic_name="u",partition_id="99999999999"',
        f'broker_id="{value}",id="{value}",replication_factor="{value}"',
    )  # fmt: skip
    texts = ("".join(f"{name}{{{labels}}} {value} {AT * 1000}\n" for name in names) for labels in several)
    result = compute(inputs(tmp_path, *texts, leads(AT, 3, partition=5) + size(AT, 3, partition=5)))
    assert (5, 3, [3], [3]) in shown(result)


def test_messages_cover_all_windows_averaged(tmp_path: Path) -> None:
    """Ends of the log every half hour over two hours: 1,800 messages in each half of the first, 5,400 in each of the second."""
    hour = 3600
    first = T0 // 1000 // hour * hour
    cluster = simple(tmp_path)
    for step in (0, 1, 2):
        time = (first + step * hour + 10) * 1000
        for broker, topic in ((1, "t"), (2, "u"), (3, "")):
            if topic:
                cluster.rate(broker, topic, 100 * KB, 0.0, time)
                cluster.size(broker, topic, 0, MB, time)
            cluster.totals(broker, 0.5, time)
    folder = cluster.write()
    ends = (0, 1800, 3600, 9000, 14400)
    (folder / "offsets.prom").write_text("".join(
        f'kafka_topic_partition_current_offset{{topic="t",partition="0"}} {value} {(first + step * hour // 2) * 1000}\n'
        for step, value in enumerate(ends)
    ))  # fmt: skip
    for windows, rate in ((2, 14_400 / 7200), (1, 10_800 / 3600)):
        found = compute(read(folder), ("windows", str(windows)), ("window-ms", str(hour * 1000)))
        assert found.tables["partitions"].filter(topic="t")["msg_measured"].to_list() == [pytest.approx(rate)], windows
