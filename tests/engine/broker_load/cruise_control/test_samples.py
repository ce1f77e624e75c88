"""The static CPU model and each rule that leaves a partition without a sample, one at a time."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from engine.broker_load.tables import raw_metrics
from tests.engine.broker_load.clusters import KB, MB, T0, Cluster, sample, simple, skipped
from tests.engine.broker_load.inputs import compute, read


def test_cpu_is_shared_by_the_weights(tmp_path: Path) -> None:
    """The only leader gets all of its broker's CPU: 8 cores × 0.5."""
    result = compute(read(simple(tmp_path).write()))
    row = sample(result, "t")
    assert row is not None
    assert row["cpu_usage"] == pytest.approx(4.0)
    assert (row["leader_bytes_in"], row["leader_bytes_out"], row["disk_usage"]) == (100.0, 200.0, 10.0)
    assert skipped(result) == {}


def test_weights_that_leave_nothing_give_no_cpu(tmp_path: Path) -> None:
    """All bytes of broker 1 come in, and only bytes out count: 0 of 0 is 0, while broker 2 still shares by what goes out."""
    made = simple(tmp_path)
    made.rows = [row for row in made.rows if row[2] != 1 or not row[1].endswith("BYTES_OUT")]
    made.rows.append((T0, "TOPIC_BYTES_OUT", 1, "t", "", 0.0))
    made.totals(1, None, bytes_in=100 * KB)
    result = compute(read(made.write()), ("a", "0"), ("c", "0"))
    assert [sample(result, topic)["cpu_usage"] for topic in "tu"] == [0.0, pytest.approx(4.0)]  # type: ignore[index]


def test_samples_of_a_round_are_shown_all_or_not_at_all(tmp_path: Path) -> None:
    made = simple(tmp_path)
    made.partition("v", 0, -1, "3|7")
    inputs = read(made.write())
    shown = [compute(inputs, ("max-rows", str(most))).tables["samples"].height for most in (0, 1, 2)]
    assert shown == [0, 0, 2]


def test_only_leaders_of_replicated_partitions_need_followers_that_fetch(tmp_path: Path) -> None:
    """Every broker reports all that a sample needs but the rate of followers' fetches: broker 2 alone has followers."""
    made = Cluster(tmp_path)
    made.partition("t", 0, 1, "1")
    made.partition("u", 0, 2, "2|3")
    made.partition("v", 0, -1, "1|3")
    made.size(1, "t", 0, MB)
    made.size(2, "u", 0, MB)
    needed = [raw_metrics.NAMES[number] for number in raw_metrics.NEEDED_4]
    made.rows += [
        (T0, name, broker, "", "", 0.5) for broker in made.ids for name in needed if "FETCH_REQUEST_RATE" not in name
    ]
    made.rows += [(T0, "ALL_TOPIC_FETCH_REQUEST_RATE", broker, "", "", 0.5) for broker in made.ids]
    made.rows += [(T0, "BROKER_CONSUMER_FETCH_REQUEST_RATE", broker, "", "", 0.5) for broker in made.ids]
    assert compute(read(made.write())).tables["broker_samples"]["broker"].to_list() == [1, 3]
    made.rows.append((T0, "BROKER_FOLLOWER_FETCH_REQUEST_RATE", 2, "", "", 0.0))
    assert compute(read(made.write())).tables["broker_samples"]["broker"].to_list() == [1, 2, 3]


def test_disks_of_one_host_add_up(tmp_path: Path) -> None:
    """10 MB on each of three replicas' brokers; brokers 1 and 2 share a host, and broker 2 has a disk of its own size."""
    made = simple(tmp_path)
    made.hosts = {1: "both", 2: "both"}
    made.capacity["2"] = {"DISK": "500", "CPU": {"num.cores": "8"}, "NW_IN": "1", "NW_OUT": "1"}
    made.capacity["1"] = {"DISK": "100", "CPU": {"num.cores": "8"}, "NW_IN": "1", "NW_OUT": "1"}
    hosts = compute(read(made.write())).tables["hosts"]
    share = dict(hosts.select("host", "disk_pct").iter_rows())
    assert share == {"both": pytest.approx(100 * (10 + 20) / 600), "host-3": pytest.approx(100 * 10 / 1_000_000)}


def test_no_leader(tmp_path: Path) -> None:
    """Neither sample nor replicas, but its brokers exist."""
    made = simple(tmp_path)
    made.partition("v", 0, -1, "3|7")
    result = compute(read(made.write()))
    assert skipped(result) == {("v", 0): "no-leader"}
    assert "v" not in result.tables["replicas"]["topic"].to_list()
    dead = result.tables["brokers"].filter(pl.col("broker") == 7).row(0, named=True)
    assert (dead["state"], dead["cores"], dead["cpu_pct"], dead["disk_pct"], dead["host"]) == (
        "DEAD", 0.0, None, None, "UNKNOWN_HOST-0")  # fmt: skip


def test_leader_without_any_record(tmp_path: Path) -> None:
    """Named apart from a leader without CPU."""
    made = simple(tmp_path)
    made.rows = [row for row in made.rows if row[2] != 2]
    assert skipped(compute(read(made.write()))) == {("u", 0): "leader-has-no-metrics"}


def test_leader_without_cpu(tmp_path: Path) -> None:
    """No CPU, no sample."""
    made = simple(tmp_path)
    made.rows = [row for row in made.rows if not (row[2] == 2 and row[1] == "BROKER_CPU_UTIL")]
    assert skipped(compute(read(made.write()))) == {("u", 0): "leader-has-no-cpu"}


def test_cores_unknown_without_estimation(tmp_path: Path) -> None:
    """The default entry is used only if estimation is allowed, which samples and the model set separately."""
    made = simple(tmp_path)
    made.capacity["1"] = {"DISK": "1", "CPU": {"num.cores": "2"}, "NW_IN": "1", "NW_OUT": "1"}
    inputs = read(made.write())
    sampling, model = ("sampling-allow-cpu-capacity-estimation", "false"), ("allow-capacity-estimation", "false")
    for options in ([sampling], [sampling, model]):
        assert skipped(compute(inputs, *options)) == {("u", 0): "cores-unknown"}
    refused = compute(inputs, model)
    assert skipped(refused) == {}
    cores = dict(refused.tables["brokers"].select("broker", "cores").iter_rows())
    assert cores[1] == 2 and cores[2] is None
    allowed = compute(inputs)
    assert skipped(allowed) == {}
    estimated = dict(allowed.tables["brokers"].select("broker", "capacity_estimated").iter_rows())
    assert estimated == {1: False, 2: True, 3: True}


def test_topic_without_size_keeps_the_reported_totals(tmp_path: Path) -> None:
    """The 1 % rule: broker 1 leads two topics, one without a size."""
    made = simple(tmp_path)
    made.partition("w", 0, 1, "1")
    made.rate(1, "w", 300 * KB)
    made.rows = [row for row in made.rows if not row[1].startswith("ALL_TOPIC") or row[2] != 1]
    made.totals(1, None, bytes_in=800 * KB, bytes_out=200 * KB)
    result = compute(read(made.write()))
    assert skipped(result) == {("w", 0): "topic-not-sized-on-leader"}
    row = sample(result, "t")
    assert row is not None
    expected = 8 * 0.5 * (0.7 * 100 + 0.15 * 200) / (0.7 * 800 + 0.15 * 200)
    assert row["cpu_usage"] == pytest.approx(expected)
    missing = result.tables["ledger"].filter(pl.col("kind") == "missing-topics")
    assert missing["subject"].to_list() == ["broker 1"]
    assert "w" in missing["detail"][0]


def test_one_missing_topic_of_a_hundred_is_forgiven(tmp_path: Path) -> None:
    """At 1 % the totals are replaced by the sums over sized topics; beyond it they stay."""
    for topics, complete in ((100, True), (99, False)):
        folder = tmp_path / str(topics)
        folder.mkdir()
        made = Cluster(folder, (1,))
        for number in range(topics):
            made.partition(f"t{number}", 0, 1, "1")
            made.rate(1, f"t{number}", 10 * KB)
            if number:
                made.size(1, f"t{number}", 0, MB)
        made.totals(1, 0.8, bytes_in=5000 * KB)
        row = sample(compute(read(made.write())), "t1")
        assert row is not None
        whole = 10.0 * (topics - 1) if complete else 5000.0
        assert row["cpu_usage"] == pytest.approx(8 * 0.8 * 10 / whole)


def test_size_of_the_partition_missing(tmp_path: Path) -> None:
    """The topic is sized, this partition is not."""
    made = simple(tmp_path)
    made.partition("t", 1, 1, "1|2")
    result = compute(read(made.write()))
    assert skipped(result) == {("t", 1): "partition-not-sized-on-leader"}
    row = sample(result, "t")
    assert row is not None
    assert row["leader_bytes_in"] == 50.0  # evenly over the two that it leads


@pytest.mark.parametrize(("share", "dropped"), [(1.04, False), (1.06, True)])
def test_partition_rate_above_the_broker_rate(tmp_path: Path, share: float, dropped: bool) -> None:
    """Beyond 5 % the sample is dropped; within, the share is clamped."""
    made = simple(tmp_path)
    made.partition("w", 0, 1, "1")  # without a size: the reported totals stay
    made.rows = [row for row in made.rows if not (row[1] == "ALL_TOPIC_BYTES_IN" and row[2] == 1)]
    made.rows.append((T0, "ALL_TOPIC_BYTES_IN", 1, "", "", 100 * KB / share))
    found = skipped(compute(read(made.write())))
    assert (("t", 0) in found) == dropped
    assert not dropped or found["t", 0] == "partition-rate-above-broker-rate"


def test_quiet_brokers_are_only_clamped(tmp_path: Path) -> None:
    """Up to 10 KB/s an inconsistent sample is kept."""
    made = Cluster(tmp_path, (1,))
    made.partition("t", 0, 1, "1")
    made.partition("w", 0, 1, "1")
    made.rate(1, "t", 50 * KB)
    made.size(1, "t", 0, MB)
    made.totals(1, 0.25, bytes_in=10 * KB)
    row = sample(compute(read(made.write())), "t")
    assert row is not None
    assert row["cpu_usage"] == pytest.approx(2.0)


def test_idle_broker_gives_no_cpu(tmp_path: Path) -> None:
    """Without bytes in and out the sample is valid and its CPU 0, at any CPU of the broker."""
    made = Cluster(tmp_path, (1,))
    made.partition("t", 0, 1, "1")
    made.size(1, "t", 0, MB)
    made.totals(1, 0.9)
    row = sample(compute(read(made.write())), "t")
    assert row is not None
    assert row["cpu_usage"] == 0.0


def test_totals_without_any_topic(tmp_path: Path) -> None:
    """Brokers report their totals and nothing by topic: every partition is skipped, the measured CPU is shown."""
    made = simple(tmp_path)
    made.rows = [row for row in made.rows if not row[1].startswith(("TOPIC_", "PARTITION_"))]
    result = compute(read(made.write()))
    assert set(skipped(result).values()) == {"topic-not-sized-on-leader"}
    assert result.tables["brokers"]["measured_cpu_pct"].to_list() == [50.0, 50.0, 10.0]


def test_missing_total(tmp_path: Path) -> None:
    """A total that the CPU needs is absent and not replaced: no sample. Of the others it may be."""
    made = simple(tmp_path)
    made.partition("w", 0, 1, "1")
    made.rows = [row for row in made.rows if not (row[1] == "ALL_TOPIC_MESSAGES_IN_PER_SEC" and row[2] == 1)]
    assert ("t", 0) not in skipped(compute(read(made.write())))
    made.rows = [row for row in made.rows if not (row[1] == "ALL_TOPIC_REPLICATION_BYTES_OUT" and row[2] == 1)]
    assert skipped(compute(read(made.write())))["t", 0] == "broker-total-absent"


def test_colliding_topic_names_each_get_the_full_rate(tmp_path: Path) -> None:
    """``a.b`` and ``a_b`` on one broker: 30 % + 30 % out of a 30 % broker."""
    made = Cluster(tmp_path, (1,))
    made.partition("a.b", 0, 1, "1")
    made.partition("a_b", 0, 1, "1")
    made.rate(1, "a.b", 100 * KB)
    made.size(1, "a.b", 0, 5 * MB)
    made.totals(1, 0.3, bytes_in=100 * KB)
    result = compute(read(made.write()))
    assert [sample(result, t)["cpu_usage"] for t in ("a.b", "a_b")] == [pytest.approx(2.4)] * 2  # type: ignore[index]
    assert result.tables["brokers"]["cpu_pct"][0] == pytest.approx(60.0)
    assert result.tables["ledger"].filter(pl.col("kind") == "topic-collision").height == 1


def test_negative_cpu_shows_zero_but_lowers_the_sums(tmp_path: Path) -> None:
    """As in Cruise Control."""
    made = simple(tmp_path)
    made.rows = [(t, m, b, n, p, -0.25 if m == "BROKER_CPU_UTIL" and b == 1 else v) for t, m, b, n, p, v in made.rows]
    result = compute(read(made.write()))
    cpu = {(t, b): v for t, b, v in result.tables["replicas"].select("topic", "broker", "cpu_pct_cores").iter_rows()}
    assert cpu["t", 1] == 0.0
    assert cpu["t", 2] == 0.0
    # Broker 2: its own 400 % of a core, less what follower t would be.
    assert result.tables["brokers"].filter(pl.col("broker") == 2)["cpu_pct"][0] < 50.0
    assert result.tables["ledger"].filter(pl.col("kind") == "negative-cpu").height == 1


def test_nan_cpu_makes_its_brokers_nan(tmp_path: Path) -> None:
    """It passes through; the other brokers stay."""
    made = simple(tmp_path)
    made.rows = [
        (t, m, b, n, p, float("nan") if m == "BROKER_CPU_UTIL" and b == 1 else v) for t, m, b, n, p, v in made.rows
    ]
    rows = compute(read(made.write())).tables["brokers"]["cpu_pct"].to_list()
    assert rows[0] != rows[0]
    assert rows[1] != rows[1]  # it holds the follower
    assert rows[2] == rows[2]


def test_sizes_take_the_strictly_newest(tmp_path: Path) -> None:
    """Of two equally new ones the first stays."""
    made = simple(tmp_path)
    made.size(1, "t", 0, 30 * MB, T0 + 60_000)
    made.size(1, "t", 0, 50 * MB, T0 + 60_000)
    made.size(1, "t", 0, 70 * MB, T0 + 1)
    row = sample(compute(read(made.write())), "t")
    assert row is not None
    assert row["disk_usage"] == 30.0
