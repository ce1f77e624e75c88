"""One rule of the sheet at a time, on clusters small enough to do by hand."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import polars as pl
import pytest

from engine.broker_load.reading.metric_scrape import instance
from engine.broker_load.tables.inputs import INPUTS
from engine.broker_load.view import VIEW
from engine.incremental import Memo, Partials
from engine.inputs import FILE
from engine.live.session import LiveSettings, Session
from engine.reading import Source
from engine.result import Result
from tests.engine.broker_load.clusters import T0, Cluster
from tests.engine.broker_load.inputs import compute, read

KB = 1024.0
MB = 1048576.0


def simple(folder: Path) -> Cluster:
    """Two topics of one partition each, led by 1 and 2; everything is reported."""
    made = Cluster(folder)
    made.partition("t", 0, 1, "1|2")
    made.partition("u", 0, 2, "2|3")
    for broker, topic in ((1, "t"), (2, "u")):
        made.rate(broker, topic, 100 * KB, 200 * KB)
        made.size(broker, topic, 0, 10 * MB)
        made.totals(broker, 0.5, bytes_in=100 * KB, bytes_out=200 * KB)
    made.totals(3, 0.1)
    return made


def sample(result: Result, topic: str, partition: int = 0) -> dict[str, object] | None:
    """One row of ``samples``."""
    rows = result.tables["samples"].filter((pl.col("topic") == topic) & (pl.col("partition") == partition))
    return rows.row(0, named=True) if rows.height else None


def skipped(result: Result) -> dict[tuple[str, int], str]:
    """Rule by partition."""
    return {(row["topic"], row["partition"]): row["rule"] for row in result.tables["skipped"].iter_rows(named=True)}


def test_cpu_is_shared_by_the_weights(tmp_path: Path) -> None:
    """The only leader gets all of its broker's CPU: 8 cores × 0.5."""
    result = compute(read(simple(tmp_path).write()))
    row = sample(result, "t")
    assert row is not None
    assert row["cpu_usage"] == pytest.approx(4.0)
    assert (row["leader_bytes_in"], row["leader_bytes_out"], row["disk_usage"]) == (100.0, 200.0, 10.0)
    assert skipped(result) == {}


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
    """The default entry serves only where estimation is allowed."""
    made = simple(tmp_path)
    made.capacity["1"] = {"DISK": "1", "CPU": {"num.cores": "2"}, "NW_IN": "1", "NW_OUT": "1"}
    inputs = read(made.write())
    assert skipped(compute(inputs, ("allow-capacity-estimation", "false"))) == {("u", 0): "cores-unknown"}
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
    """At or below 10 KB/s an inconsistency is no reason to drop."""
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
    """Without bytes in and out the sample is valid and its CPU 0, whatever the broker burns."""
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
    """A total that is absent and not replaced: no sample."""
    made = simple(tmp_path)
    made.partition("w", 0, 1, "1")
    made.rows = [row for row in made.rows if not (row[1] == "ALL_TOPIC_MESSAGES_IN_PER_SEC" and row[2] == 1)]
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
    """As upstream."""
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


def test_dead_broker_and_leaderless_goals(tmp_path: Path) -> None:
    """Every goal counts as violated and says why; capacity of alive brokers only."""
    made = simple(tmp_path)
    made.dead = {3}
    result = compute(read(made.write()))
    goals = result.tables["goals"]
    assert goals["violated"].all()
    assert all("dead brokers" in text for text in goals["detail"].to_list())
    assert result.summary["balancedness_score"] == -1.0
    balance = result.tables["balance"].row(0, named=True)
    assert balance["cluster_capacity_alive"] == 1600.0
    held = result.tables["replicas"].filter(pl.col("broker") == 3).row(0, named=True)
    assert held["offline"] and not held["leader"] and held["disk_mb"] == 10.0


def test_bad_disk(tmp_path: Path) -> None:
    """An alive broker with an offline replica."""
    made = simple(tmp_path)
    made.partition("v", 0, 1, "1|3", "1", "3")
    made.size(1, "v", 0, MB)
    states = dict(compute(read(made.write())).tables["brokers"].select("broker", "state").iter_rows())
    assert states == {1: "ALIVE", 2: "ALIVE", 3: "BAD_DISKS"}


def test_ticks_form_rounds_and_rounds_form_windows(tmp_path: Path) -> None:
    """Ticks inside one interval are one sample; the open window is left out; ``at`` closes it or looks back."""
    made = simple(tmp_path)
    hour = 3_600_000
    for step in (1, 2):
        for broker, topic in ((1, "t"), (2, "u")):
            made.rate(broker, topic, 100 * KB * (step + 1), 0.0, T0 + step * hour)
            made.size(broker, topic, 0, MB, T0 + step * hour)
            made.totals(broker, 0.5, T0 + step * hour)
    made.rate(1, "t", 500 * KB, 0.0, T0 + 60_000)
    inputs = read(made.write())
    result = compute(inputs)
    assert result.tables["samples"].filter(pl.col("topic") == "t")["leader_bytes_in"].to_list() == [300.0, 200.0, 300.0]
    windows = result.tables["windows"].filter(pl.col("topic") == "t")
    assert windows["leader_bytes_in"].to_list() == [200.0, 300.0]  # newest first, the open one left out
    assert result.tables["partitions"].row(0, named=True)["nw_in_kbs"] == 250.0
    back = compute(inputs, ("at", str(T0 + hour + 1000)))
    assert back.tables["windows"].filter(pl.col("topic") == "t")["leader_bytes_in"].to_list() == [300.0]
    assert back.at_ms == T0 + hour + 1000
    end = (T0 + 2 * hour) // hour * hour + hour
    closed = compute(inputs, ("at", str(end)))
    assert closed.tables["windows"].filter(pl.col("topic") == "t")["leader_bytes_in"].to_list() == [300.0, 200.0, 300.0]


def test_hosts_share_cpu_and_network(tmp_path: Path) -> None:
    """Two brokers on one host: limits are the host's, host rows are sums."""
    made = simple(tmp_path)
    made.hosts = {1: "same", 2: "same"}
    result = compute(read(made.write()))
    hosts = {row["host"]: row for row in result.tables["hosts"].iter_rows(named=True)}
    cpu = dict(result.tables["brokers"].select("broker", "cpu_pct").iter_rows())
    assert hosts["same"]["cpu_pct"] == pytest.approx(cpu[1] + cpu[2])
    top = result.tables["cluster_stats"].filter(pl.col("statistic") == "MAX")["cpu"][0]
    assert top == pytest.approx((cpu[1] + cpu[2]) * 8)


def test_shared_memo_gives_equal_results(tmp_path: Path) -> None:
    """Memo only makes it faster, whatever was asked before."""
    inputs = read(simple(tmp_path).write())
    memo = Memo()
    for pairs in ((), (("a", "0.3"),), (("mode", "corrected"),), (("fail", "1"),), (("at", str(T0)),), ()):
        assert compute(inputs, *pairs, memo=memo).same_as(compute(inputs, *pairs))


def test_means_over_windows_survive_other_weights_only(tmp_path: Path) -> None:
    """What is taken over from the result before is right whatever changed: weights, windows, extrapolation, gaps."""
    made = simple(tmp_path)
    hour = 3_600_000
    for step in (1, 2, 3, 5):
        for broker, topic in ((1, "t"), (2, "u")):
            made.rate(broker, topic, 100 * KB * (step + 1), 7 * KB * step, T0 + step * hour)
            if (step, topic) != (2, "u"):
                made.size(broker, topic, 0, step * MB, T0 + step * hour)
            made.totals(broker, 0.1 * step, T0 + step * hour)
    inputs = read(made.write())
    memo = Memo()
    steps: tuple[tuple[tuple[str, str], ...], ...] = (
        (), (("a", "0.3"),), (("a", "0.3"), ("windows", "2")), (("a", "0.4"), ("windows", "2")), (("a", "0.5"),),
        (("a", "0.5"), ("max-extrapolations", "0")), (("a", "0.5"), ("at", str(T0 + 3 * hour + 1000))),
        (("b", "0.9"), ("mode", "corrected")), (("window-ms", "7200000"),), (("c", "0.9"), ("window-ms", "7200000")), (),
    )  # fmt: skip
    for pairs in steps:
        assert compute(inputs, *pairs, memo=memo).same_as(compute(inputs, *pairs)), pairs


def test_demotion_moves_leaders_and_list_places(tmp_path: Path) -> None:
    """The demoted broker goes to the end of every list it is in; the first other replica leads; a lone one stays."""
    made = Cluster(tmp_path)
    for number, (leader, replicas) in enumerate([(1, "1|2|3"), (2, "2|1|3"), (3, "3|2"), (1, "1"), (2, "3|2|1")]):
        made.partition("t", number, leader, replicas)
    for broker in made.ids:
        made.totals(broker, 0.5)
    result = compute(read(made.write()), ("demote", "1"))
    moves = result.tables["scenario_moves"].select("partition", "old_leader", "new_leader", "new_replicas").rows()
    assert moves == [(0, 1, 2, [2, 3, 1]), (1, 2, 2, [2, 3, 1])]
    assert result.tables["scenario_brokers"]["state"].to_list() == ["DEMOTED", "ALIVE", "ALIVE"]
    assert any("1 have no other live replica" in note for note in result.notes)


def test_replaced_descriptions_and_sizes_are_seen_at_once(tmp_path: Path) -> None:
    """Rounds stay while a new description says the same; a new leader or new sizes make them again. With a memo as
    without."""
    made = simple(tmp_path)
    for step in (1, 2):
        made.rows += [(t + step * 120_000, *rest) for t, *rest in made.rows if t == T0]
    made.rows = [row for row in made.rows if row[1] != "PARTITION_SIZE"]
    memo = Memo()
    text = (
        '{"version": 1, "brokers": [{"broker": %d, "logDirs": [{"logDir": "/d", "error": null, "partitions": [%s]}]}]}'
    )
    part = '{"partition": "%s-0", "size": %d, "offsetLag": 0, "isFuture": false}'

    def look(number: int, size: float) -> tuple[Result, list[object]]:
        folder = made.write()
        for broker, topic in ((1, "t"), (2, "u")):
            (folder / f"log-dirs-{broker}.txt").write_text(text % (broker, part % (topic, size * MB)) + "\n")
        inputs = read(folder, after=100 * number)
        found = compute(inputs, memo=memo)
        assert found.same_as(compute(inputs)), number
        rounds: Partials[int, object] = memo.state("broker load rounds", Partials)
        return found, list(rounds.values())

    first, rounds = look(0, 10)
    assert first.tables["replicas"]["disk_mb"].to_list() == [10.0] * 4
    made.topology[0] = ("t", 0, 1, "1|2", "1|2", "")  # the same
    assert look(1, 10)[1] != rounds  # the sizes come from new files
    bigger, rounds = look(2, 30)
    assert bigger.tables["replicas"]["disk_mb"].to_list() == [30.0] * 4
    made.topology[0] = ("t", 0, 2, "1|2", "1|2", "")
    moved, _ = look(3, 30)
    assert moved.tables["replicas"].filter(pl.col("leader"))["broker"].to_list() == [2, 2]


def test_a_description_that_says_the_same_keeps_the_rounds(tmp_path: Path) -> None:
    """Refreshing the topology every few minutes does not cost the whole history."""
    made = simple(tmp_path)
    memo = Memo()
    seen = []
    for number in range(3):
        if number == 2:
            made.partition("w", 0, 1, "1|3")
        inputs = read(made.write(), after=100 * number, mtime_ms=T0 + number)
        # The scrapes are the same files still: only the description is new.
        kept = {i: info for i, info in inputs.files.items() if info.label != "metrics.csv"}
        scrapes = next(info for info in inputs.files.values() if info.label == "metrics.csv")
        files = kept | {1: dataclasses.replace(scrapes, id=1, version=1)}
        whole = {t.name: inputs.table(t.name) for t in INPUTS}
        whole["metrics"] = whole["metrics"].with_columns(pl.lit(1, pl.UInt32).alias(FILE))
        inputs = dataclasses.replace(inputs, files=files, _load=whole.__getitem__)
        assert compute(inputs, memo=memo).same_as(compute(inputs))
        rounds: Partials[int, object] = memo.state("broker load rounds", Partials)
        seen.append(list(rounds.values()))
    assert all(a is b for a, b in zip(seen[0], seen[1], strict=True))
    assert not any(a is b for a, b in zip(seen[1], seen[2], strict=True))


def test_directories_of_jbod(tmp_path: Path) -> None:
    """Each directory has its own load; an offline one and one that nothing lists have none, which is not 0."""
    made = simple(tmp_path).write()
    (made / "capacity.json").write_text(
        '{"brokerCapacities": [{"brokerId": "1", "capacity": {"DISK": {"/d1": "100", "/d3": "50"}, "CPU": "100",'
        ' "NW_IN": "1000", "NW_OUT": "1000"}}]}'
    )
    part = '{"partition": "%s-0", "size": %d, "offsetLag": 0, "isFuture": false}'
    found = (
        '{{"logDir": "/d1", "error": null, "partitions": [{}, {}]}}, {{"logDir": "/d0", "error": null, "partitions": []}},'
        ' {{"logDir": "/d2", "error": "KafkaStorageException", "partitions": []}}'
    ).format(part % ("t", 10 * MB), part % ("u", 15 * MB))
    (made / "log-dirs.txt").write_text(f'{{"version": 1, "brokers": [{{"broker": 1, "logDirs": [{found}]}}]}}\n')
    rows = compute(read(made)).tables["directories"].filter(pl.col("broker") == 1)
    assert rows.select("log_dir", "replicas", "disk_mb", "capacity_mb", "disk_pct").rows() == [
        ("/d0", 0, 0.0, None, None), ("/d1", 2, 25.0, 100.0, 25.0), ("/d2", 0, None, None, None),
        ("/d3", None, None, 50.0, None),
    ]  # fmt: skip
    assert rows["error"].null_count() == 3


def test_a_wide_balance_band_ends_at_zero(tmp_path: Path) -> None:
    """A threshold above 2.1 makes the margin more than the average: upstream's lower limit is then 0, not negative."""
    given = read(simple(tmp_path).write())
    rows = compute(given, ("cpu-balance-threshold", "3.0")).tables["balance"].filter(pl.col("resource") == "CPU")
    row = rows.row(0, named=True)
    assert row["lower_threshold"] == 0.0
    assert row["upper_threshold"] == pytest.approx(row["avg_utilization"] * 2.8)


@pytest.mark.parametrize(
    ("path", "host"),
    [
        ("b1/1700000000.prom", "b1"), ("b1/metrics-001.prom", "b1"), ("b1/001.txt", "b1"), ("b2/node_exporter.prom", "b2"),
        ("kafka-1_7071/metrics.prom", "kafka-1:7071"), ("kafka-1_7071/a.prom", "kafka-1:7071"),
        ("10.0.0.1_7071/s.prom", "10.0.0.1:7071"), ("any/kafka-1_7071.prom", "kafka-1:7071"), ("b1/kafka-3.prom", "kafka-3"),
        ("x/kafka-1.example.com_9100-1700000000.prom", "kafka-1.example.com:9100"),
        ("x/kafka-2_7071-20260101T000000Z.prom", "kafka-2:7071"), ("2026-01-01/kafka-3.prom", "kafka-3"),
    ],
)  # fmt: skip
def test_whose_scrape_it_is(path: str, host: str) -> None:
    """The file's name, or the folder's where that says more."""
    assert instance(Source(f"/metrics/{path}", path.rpartition("/")[2], 0, 0)) == host


def test_an_unknown_broker_in_fail_is_a_problem(tmp_path: Path) -> None:
    """As in every view: a script sees it in ``problems``, not in a sentence only."""
    given = read(simple(tmp_path).write())
    for option in ("fail", "demote"):
        found = [(p.path, p.kind) for p in compute(given, (option, "1,rack:none")).problems]
        assert found == [(f"-o {option}", "bad-option")]


def test_counters_of_a_broker_go_on_under_another_host_and_after_a_cut_scrape(tmp_path: Path) -> None:
    """The tick before is the broker's, whatever its exporter was called then, and only that one: with a memo as without."""
    root = tmp_path / "data"
    shutil.copytree(Path(__file__).parents[3] / "sample_data" / "broker_load" / "files", root)
    memo = Memo()
    old = root / "scrape" / "kafka-1.example.net_9100"
    last = (old / "1767240180.prom").read_text()
    session = Session([root], [VIEW], settings=LiveSettings(cache=False), strict=True)
    steps = [("kafka-1.example.net_9200", 300, last), (old.name, 420, last[: len(last) // 2]), (old.name, 540, last)]
    for folder, seconds, text in [("", 0, ""), *steps]:
        if folder:
            (root / "scrape" / folder).mkdir(exist_ok=True)
            (root / "scrape" / folder / f"{1767240000 + seconds}.prom").write_text(text)
        session.scan(final=True)
        inputs = session.inputs(VIEW.name)
        assert compute(inputs, memo=memo).same_as(compute(inputs)), (folder, seconds)
