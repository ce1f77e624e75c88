"""Capacity after a failure, where thresholds exceeded before count too; demotion, and options that match nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker_load.tables.raw_metrics import SAMPLE
from engine.core.view import Result
from tests.engine.broker_load.clusters import KB, MB, Cluster, simple
from tests.engine.broker_load.inputs import compute, read


def loaded(folder: Path, rates: tuple[int, ...] = (90_000, 20_000, 20_000), cpu: float = 0.1) -> Cluster:
    """Three brokers that lead a topic each; ``rates`` of network out in KB/s, of 100,000 with a threshold of 80 %; all with
    this ``cpu``."""
    made = Cluster(folder)
    for broker, rate in zip(made.ids, rates, strict=True):
        other = broker % 3 + 1
        made.partition(f"t{broker}", 0, broker, f"{broker}|{other}")
        made.rate(broker, f"t{broker}", KB, rate * KB)
        made.size(broker, f"t{broker}", 0, MB)
        made.size(other, f"t{broker}", 0, MB)
        made.totals(broker, cpu, bytes_in=KB, bytes_out=rate * KB)
    return made


@pytest.fixture
def result(tmp_path: Path) -> Result:
    """A cluster with broker 1 over its threshold of network out before anything fails; 3 is the one that fails."""
    return compute(read(loaded(tmp_path).write()), ("fail", "3"))


def test_a_threshold_that_was_exceeded_before_counts(result: Result) -> None:
    """Broker 1 takes over from 3: it is over capacity, though not newly."""
    summary = result.summary
    assert (summary["failover_over"], summary["failover_newly_over"], summary["failover_survivable"]) == (1, 0, False)
    first = result.headline[0]
    assert (first.label, first.value, first.level) == ("if 3 fails", "0 leaderless, 1 over capacity (0 new)", "severe")
    finding = next(one for one in result.findings if one.subject == "failure of 3")
    assert finding.level == "severe" and "1 over capacity (0 new)" in finding.text


def test_a_broker_over_two_thresholds_is_one_over_capacity(tmp_path: Path) -> None:
    """Headline, failures and what-if count the same: brokers."""
    result = compute(read(loaded(tmp_path, cpu=0.95).write()), ("fail", "3"))
    assert "CPU" in result.headline[2].basis and "NW_OUT" in result.headline[2].basis
    assert result.headline[2].label == "over capacity" and result.headline[2].value == "3"
    assert result.summary["failover_over"] == 2
    assert max(result.tables["failures"]["over"]) == 1  # one more loss leaves one broker


def test_a_loss_at_negative_headroom_is_not_survivable(tmp_path: Path) -> None:
    result = compute(read(loaded(tmp_path).write()))
    failures = {row["failure"]: row for row in result.tables["failures"].iter_rows(named=True)}
    for row in failures.values():
        assert row["survivable"] == (row["leaderless"] == 0 and row["over"] == 0)
        assert (row["headroom_pct"] < 0) == (row["over"] > 0)
    assert failures["broker 3"]["headroom_pct"] < 0 and not failures["broker 3"]["survivable"]
    lost = [name for name, row in failures.items() if name.startswith("broker") and not row["survivable"]]
    assert result.summary["unsurvivable_single_failures"] == len(lost) == 3
    assert {one.subject for one in result.findings} >= {f"loss of {name}" for name in lost}


def test_failures_are_sorted_by_all_thresholds_exceeded(tmp_path: Path) -> None:
    """Two thresholds that were exceeded before are worse than one that is newly exceeded."""
    result = compute(read(loaded(tmp_path, (90_000, 90_000, 5_000)).write()))
    over = result.tables["failures"].filter(result.tables["failures"]["leaderless"] == 0)["over"].to_list()
    assert over == sorted(over, reverse=True) and over[0] > over[-1]
    assert result.summary["worst_single_failure"].startswith(result.tables["failures"]["failure"][0])


def test_partitions_under_min_isr_are_named_and_rank_before_headroom(tmp_path: Path) -> None:
    """Producers with acks=all stop there, though no partition loses its leader."""
    made = loaded(tmp_path, (40_000, 20_000, 5_000))
    made.partition("sure", 0, 3, "3|2")
    made.rate(3, "sure", KB, KB)
    failed = compute(read(made.write()), ("fail", "3"), ("min-insync-replicas", "2"))
    first = failed.headline[0]
    assert (first.value, first.level) == ("0 leaderless, 3 under min ISR, 0 over capacity", "moderate")
    result = compute(read(made.folder), ("min-insync-replicas", "2"))
    single = next(one for one in result.headline if one.label == "single failure")
    assert (single.value, single.level) == ("3 of 3 under min ISR", "moderate")
    failures = result.tables["failures"]
    assert failures["under_min_isr"].to_list() == [3, 3, 2]
    assert failures["failure"][2] == "broker 1" and failures["headroom_pct"][2] < failures["headroom_pct"][0]
    assert "3 partitions under min ISR" in result.summary["worst_single_failure"]
    found = {one.subject: one for one in (*failed.findings, *result.findings)}
    assert found["failure of 3"].level == found["min.insync.replicas"].level == "moderate"
    assert "3 of 3 single failures would stop producers" in found["min.insync.replicas"].text


def test_failing_a_dead_broker_says_that_it_is_dead(tmp_path: Path) -> None:
    made = loaded(tmp_path, (40_000, 20_000, 5_000))
    made.dead = {3}
    result = compute(read(made.write()), ("fail", "3"))
    first = result.headline[0]
    assert (first.label, first.value, first.level) == ("if 3 fails", "already dead", "moderate")
    assert result.summary["failover"] == "already dead" and "fail: already dead: 3" in result.notes
    assert not any(one.subject == "failure of 3" for one in result.findings)
    both = compute(read(made.folder), ("fail", "2,3"))
    assert "leaderless" in both.headline[0].value and "fail: already dead: 3" in both.notes


def test_right_sized_names_what_it_judges_and_the_brokers_over(result: Result) -> None:
    assert result.summary["provision_status"] == "RIGHT_SIZED"
    note = next(note for note in result.notes if "RIGHT_SIZED" in note)
    assert "the cluster's mean load is within every threshold" in note
    assert "single brokers are over capacity: NW_OUT of broker 1" in note
    assert result.summary["brokers_over_capacity"] == 1
    assert next(one for one in result.headline if one.label == "over capacity").level == "severe"


def test_headroom_of_a_broker_is_that_of_its_fullest_resource(result: Result) -> None:
    rows = {row["broker"]: row for row in result.tables["brokers"].iter_rows(named=True)}
    assert rows[1]["tightest"] == "NW_OUT"
    share = rows[1]["nw_out_kbs"] / rows[1]["nw_out_cap_kbs"]
    assert rows[1]["headroom_pct"] == pytest.approx((0.8 - share) * 100)
    assert rows[1]["flags"].startswith("over NW_OUT")
    assert all((row["headroom_pct"] < 0) == ("over" in row["flags"]) for row in rows.values())


def test_shares_of_topics_are_of_all_topics(result: Result) -> None:
    topics = result.tables["topics"]
    for share, of in (("cpu_share_pct", "cpu_pct_cores"), ("nw_out_share_pct", "nw_out_kbs"),
                      ("nw_in_share_pct", "nw_in_kbs"), ("disk_share_pct", "disk_mb")):  # fmt: skip
        whole = topics[of].sum()
        assert topics[share].to_list() == pytest.approx([100 * value / whole for value in topics[of].to_list()])
    assert topics["cpu_share_pct"].to_list() == sorted(topics["cpu_share_pct"].to_list(), reverse=True)


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
    assert "demote: 1 partition has no other live replica and keeps its leader" in result.notes
    told = result.headline[0]
    assert (told.label, told.value) == ("if 1 is demoted", "1 leader moves, load unknown")
    assert result.tables["scenario_brokers"]["leaders_before"].to_list() == [2, 2, 1]
    assert result.tables["scenario_brokers"]["leaders"].to_list() == [1, 3, 1]


def test_an_unknown_broker_in_fail_is_a_problem(tmp_path: Path) -> None:
    """As in every view: a script sees it in ``problems``, not in a sentence only."""
    given = read(simple(tmp_path).write())
    for option in ("fail", "demote"):
        found = [(p.path, p.kind) for p in compute(given, (option, "1,rack:none")).problems]
        assert found == [(f"-o {option}", "bad-option")]


def test_a_what_if_of_samples_that_name_no_broker_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "samples.csv").write_text(f"topic,partition,time_ms,{','.join(SAMPLE)}\nt,0,3600120000{',1' * 9}\n")
    result = compute(read(tmp_path), ("elect", "all"))
    assert (
        result.outcome is not None
        and result.outcome.value == "0 leaders move, load unknown"
        and not result.outcome.level
    )
    assert not result.tables["scenario_brokers"].height
