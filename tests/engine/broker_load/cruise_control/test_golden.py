"""Every file of Cruise Control's own results for the small cluster and the windows, within the tolerances of its README."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from engine.broker_load.tables.raw_metrics import SAMPLE
from engine.core.incremental import Memo
from engine.core.view import Result
from tests.engine.broker_load.inputs import compute, read
from tests.reference import reference

SETS = {"kafka": ("metrics.csv",), "topicrepl": ("metrics.csv", "metrics_topic_replication.csv")}
BASIC = ("brokers.csv", "topology.csv", "capacity.json")


@pytest.fixture(scope="module", params=list(SETS))
def small(request: pytest.FixtureRequest) -> tuple[Path, Result, tuple[Path, ...]]:
    """Folder of expected results, our result, the input files."""
    root = reference("broker-load") / "small"
    paths = tuple(root / "input" / name for name in (*BASIC, *SETS[request.param]))
    return root / f"expected_{request.param}", compute(read(*paths)), paths


@pytest.fixture(scope="module", params=["scrape", "scrape-counters"])
def native(request: pytest.FixtureRequest) -> tuple[Path, Result, tuple[Path, ...]]:
    """The same from native files: one-minute rates, and counters."""
    root = reference("broker-load") / "small"
    paths = (
        root / "native" / request.param,
        root / "native" / "topics-describe.txt",
        root / "input" / "capacity.json",
        root / "input" / "brokers.csv",
    )
    return root / "expected_kafka", compute(read(*paths)), paths


def close(ours: pl.Series, theirs: pl.Series, relative: float, tiny: float = 1e-30) -> None:
    """Equal within a relative tolerance."""
    a, b = ours.cast(pl.Float64).to_numpy(), theirs.cast(pl.Float64).to_numpy()
    assert a.shape == b.shape
    both_nan = np.isnan(a) & np.isnan(b)
    error = np.abs(a - b) / np.maximum(np.abs(b), tiny)
    assert both_nan.all() or np.nanmax(np.where(both_nan, 0, error), initial=0) <= relative, (
        ours.name,
        np.nanmax(error),
    )


def samples_match(expected: Path, result: Result, relative: float) -> None:
    """``partition_samples.csv``."""
    theirs = pl.read_csv(expected / "partition_samples.csv").sort("topic", "partition")
    ours = result.tables["samples"].sort("topic", "partition")
    assert ours.select("topic", "partition").rows() == theirs.select("topic", "partition").rows()
    assert ours["leader"].to_list() == theirs["leader_broker"].to_list()
    assert ours["time_ms"].to_list() == theirs["sample_time_ms"].to_list()
    for name in SAMPLE:
        close(ours[name], theirs[name], relative)


def replicas_match(expected: Path, result: Result) -> None:
    """``replica_loads.csv``."""
    keys = ["topic", "partition", "position"]
    theirs = pl.read_csv(expected / "replica_loads.csv").sort(keys)
    ours = result.tables["replicas"].sort(keys)
    assert ours.select(*keys, "broker", "leader").rows() == theirs.select(*keys, "broker", "is_leader").rows()
    for mine, name in (
        ("cpu_pct_cores", "cpu_pct_cores"),
        ("disk_mb", "disk_mb"),
        ("nw_in_kbs", "nw_in_kb"),
        ("nw_out_kbs", "nw_out_kb"),
    ):
        close(ours[mine], theirs[name], 1e-6)


def brokers_match(expected: Path, result: Result) -> None:
    """``load.json``: brokers and hosts."""
    answer = json.loads((expected / "load.json").read_text())
    ours = {row["broker"]: row for row in result.tables["brokers"].iter_rows(named=True)}
    assert sorted(ours) == sorted(row["Broker"] for row in answer["brokers"])
    names = {
        "cpu_pct": "CpuPct",
        "disk_mb": "DiskMB",
        "disk_pct": "DiskPct",
        "leader_nw_in_kbs": "LeaderNwInRate",
        "follower_nw_in_kbs": "FollowerNwInRate",
        "nw_out_kbs": "NwOutRate",
        "pnw_out_kbs": "PnwOutRate",
        "cores": "NumCore",
        "nw_in_cap_kbs": "NetworkInCapacity",
        "disk_cap_mb": "DiskCapacityMB",
    }
    for row in answer["brokers"]:
        mine = ours[row["Broker"]]
        assert (mine["host"], mine["rack"], mine["state"]) == (row["Host"], row["Rack"], row["BrokerState"])
        assert (mine["leaders"], mine["replicas"]) == (row["Leaders"], row["Replicas"])
        for name, theirs in names.items():
            assert mine[name] == pytest.approx(row[theirs], rel=2e-5 if "disk" in name else 1e-6), name
    hosts = {row["host"]: row for row in result.tables["hosts"].iter_rows(named=True)}
    for row in answer["hosts"]:
        assert hosts[row["Host"]]["cpu_pct"] == pytest.approx(row["CpuPct"], rel=1e-6)
        assert hosts[row["Host"]]["disk_pct"] == pytest.approx(row["DiskPct"], rel=2e-5)


def test_samples(small: tuple[Path, Result, tuple[Path, ...]]) -> None:
    """float64: to twelve digits."""
    samples_match(small[0], small[1], 1e-12)
    assert small[1].tables["skipped"].height == 0


def test_broker_samples(small: tuple[Path, Result, tuple[Path, ...]]) -> None:
    """``broker_samples.csv``."""
    theirs = pl.read_csv(small[0] / "broker_samples.csv").sort("broker")
    ours = small[1].tables["broker_samples"].sort("broker")
    assert (
        ours.select("broker", "host", "version", "time_ms").rows()
        == theirs.select("broker", "host", "version", "sample_time_ms").rows()
    )
    for name in SAMPLE:
        close(ours[name], theirs[name], 1e-12)


def test_replicas(small: tuple[Path, Result, tuple[Path, ...]]) -> None:
    """With the order quirk of followers before the leader."""
    replicas_match(small[0], small[1])


def test_brokers_and_hosts(small: tuple[Path, Result, tuple[Path, ...]]) -> None:
    """The load table."""
    brokers_match(small[0], small[1])


def test_partitions(small: tuple[Path, Result, tuple[Path, ...]]) -> None:
    """``partition_load_disk.json``: what the leaders carry."""
    records = json.loads((small[0] / "partition_load_disk.json").read_text())["records"]
    ours = {(row["topic"], row["partition"]): row for row in small[1].tables["partitions"].iter_rows(named=True)}
    assert ours.keys() == {(record["topic"], record["partition"]) for record in records}
    names = {"cpu_pct_cores": "cpu", "disk_mb": "disk", "nw_in_kbs": "networkInbound", "nw_out_kbs": "networkOutbound"}
    for record in records:
        mine = ours[record["topic"], record["partition"]]
        assert mine["leader"] == record["leader"]
        assert [broker for broker in mine["replicas"] if broker != mine["leader"]] == record["followers"]
        for name, theirs in (names | {"msg_in": "msg_in"}).items():
            assert mine[name] == pytest.approx(record[theirs], rel=1e-6), name


def test_nan_cpu_is_in_the_ledger(tmp_path: Path) -> None:
    """One NaN reading makes the broker's CPU NaN, and the ledger says so."""
    root = reference("broker-load") / "small" / "input"
    text = re.sub(r"(BROKER_CPU_UTIL,1,,),[\d.]+", r"\1,NaN", (root / "metrics.csv").read_text())
    (tmp_path / "metrics.csv").write_text(text)
    result = compute(read(tmp_path / "metrics.csv", *(root / name for name in BASIC)))
    assert result.tables["brokers"].filter(broker=1)["cpu_pct"].is_nan().all()
    assert result.tables["ledger"].filter(pl.col("kind") == "nan-cpu")["subject"].to_list() == ["broker 1"]


def test_goals(small: tuple[Path, Result, tuple[Path, ...]]) -> None:
    """Hard flags and violations of all 17, in Cruise Control's order."""
    theirs = pl.read_csv(small[0] / "goals.csv")
    ours = small[1].tables["goals"]
    assert ours.select("goal", "hard", "violated").rows() == theirs.select("goal", "hard", "violated").rows()
    assert all(detail for detail in ours.filter(pl.col("violated"))["detail"])


def test_balance(small: tuple[Path, Result, tuple[Path, ...]]) -> None:
    """Limits, balanced brokers, brokers over capacity."""
    theirs = pl.read_csv(small[0] / "balance.csv", schema_overrides={"brokers_over_capacity_threshold": pl.String})
    ours = small[1].tables["balance"]
    assert ours["resource"].to_list() == theirs["resource"].to_list()
    assert ours["balanced_brokers"].to_list() == theirs["balanced_brokers"].to_list()
    over = theirs["brokers_over_capacity_threshold"].fill_null("").to_list()
    assert ours["brokers_over_capacity_threshold"].to_list() == over
    for name in ("cluster_load", "cluster_capacity_alive", "avg_utilization", "lower_threshold", "upper_threshold"):
        close(ours[name].head(3), theirs[name].head(3), 1e-6)
        close(ours[name][3:4], theirs[name][3:4], 2e-5)


def test_cluster_stats(small: tuple[Path, Result, tuple[Path, ...]]) -> None:
    """AVG, MAX, MIN and STD."""
    statistics = json.loads((small[0] / "cluster_stats.json").read_text())["statistics"]
    names = {
        "cpu": "cpu",
        "networkInbound": "nw_in_kbs",
        "networkOutbound": "nw_out_kbs",
        "disk": "disk_mb",
        "potentialNwOut": "pnw_out_kbs",
        "replicas": "replicas",
        "leaderReplicas": "leaders",
        "topicReplicas": "topic_replicas",
    }
    for row in small[1].tables["cluster_stats"].iter_rows(named=True):
        for theirs, mine in names.items():
            relative = 2e-5 if theirs == "disk" else 1e-6
            assert row[mine] == pytest.approx(statistics[row["statistic"]][theirs], rel=relative), (row, theirs)


def test_failures(small: tuple[Path, Result, tuple[Path, ...]]) -> None:
    """Each broker dies in turn: new leaders exactly, survivors' loads within single precision."""
    expected, _, paths = small
    leaders = pl.read_csv(expected / "after_failure_leaders.csv", schema_overrides={"new_leader": pl.String})
    brokers = pl.read_csv(expected / "after_failure_brokers.csv")
    inputs, memo = read(*paths), Memo()
    for failed in sorted(set(brokers["failed_broker"])):
        result = compute(inputs, ("fail", str(failed)), memo=memo)
        ours = {(t, p): n for t, p, _, n, _, _ in result.tables["failover_leaders"].iter_rows()}
        theirs = {(t, p): None if n == "none" else int(n) for f, t, p, n in leaders.iter_rows() if f == failed}
        assert ours == theirs
        after = {row["broker"]: row for row in result.tables["failover_brokers"].iter_rows(named=True)}
        for row in brokers.filter(pl.col("failed_broker") == failed).iter_rows(named=True):
            mine = after[row["broker"]]
            assert (mine["leaders"], mine["replicas"]) == (row["leaders"], row["replicas"])
            assert mine["cpu_pct"] * mine["cores"] == pytest.approx(row["cpu_pct_cores"], rel=1e-6)
            assert mine["disk_mb"] == pytest.approx(row["disk_mb"], rel=2e-5)
            assert mine["leader_nw_in_kbs"] == pytest.approx(row["leader_nw_in_kb"], rel=1e-6, abs=1e-3)
            assert mine["follower_nw_in_kbs"] == pytest.approx(row["follower_nw_in_kb"], rel=1e-6)
            assert mine["nw_out_kbs"] == pytest.approx(row["nw_out_kb"], rel=1e-6, abs=1e-3)
            assert mine["pnw_out_kbs"] == pytest.approx(row["pnw_out_kb"], rel=1e-6)


def test_native_files_give_the_same_numbers(native: tuple[Path, Result, tuple[Path, ...]]) -> None:
    """Scrapes of rates and of counters, kafka-topics --describe, capacity.json."""
    expected, result, _ = native
    samples_match(expected, result, 1e-9)
    replicas_match(expected, result)
    brokers_match(expected, result)
    assert not result.problems


def test_hosts_are_matched_with_brokers_by_what_they_hold() -> None:
    """Without a broker list, the partitions a scrape reports tell which broker it is."""
    root = reference("broker-load") / "small"
    result = compute(
        read(root / "native" / "scrape", root / "native" / "topics-describe.txt", root / "input/capacity.json")
    )
    samples_match(root / "expected_kafka", result, 1e-9)
    guessed = result.tables["ledger"].filter(pl.col("kind") == "guessed-host")
    assert guessed.height == 4


def test_windows() -> None:
    """Values and extrapolation kinds of five windows with at least three samples each."""
    root = reference("broker-load") / "windows"
    result = compute(read(root / "samples.csv"))
    theirs = pl.read_csv(root / "min3_windows.csv").sort("topic", "partition", "window_end_ms")
    ours = result.tables["windows"].sort("topic", "partition", "window_end_ms")
    keys = ["topic", "partition", "window_end_ms", "extrapolation"]
    assert ours.select(keys).rows() == theirs.select(keys).rows()
    for name in theirs.columns[3:-1]:
        close(ours[name], theirs[name], 1e-6)
    valid = pl.read_csv(root / "min3_expected_utilization.csv").sort("topic", "partition")
    partitions = result.tables["partitions"]
    assert partitions.select("topic", "partition", "valid").rows() == valid.select("topic", "partition", "valid").rows()
    # Nothing names a leader here: the partitions show their samples, not zeros.
    close(partitions["cpu_pct_cores"] / 100, valid["cpu_avg"], 1e-6)
    close(partitions["disk_mb"], valid["disk_latest"], 1e-6)
    close(partitions["nw_in_kbs"], valid["nw_in_avg"], 1e-6)
    close(partitions["nw_out_kbs"], valid["nw_out_avg"], 1e-6)


def test_windows_averages() -> None:
    """Mean and latest per resource over the windows."""
    from engine.broker_load.cruise_control import load_model
    from engine.broker_load.parameters import BrokerLoadParameters
    from engine.core.view import Context

    root = reference("broker-load") / "windows"
    built = load_model.build(read(root / "samples.csv"), BrokerLoadParameters(), Context(now_ms=0), None)
    assert built is not None
    total = built.aggregate
    theirs = pl.read_csv(root / "min3_expected_utilization.csv").sort("topic", "partition")

    for name, value in {
        "cpu_avg": total.mean("cpu_usage"),
        "disk_latest": total.latest("disk_usage"),
        "disk_avg": total.mean("disk_usage"),
        "nw_in_avg": total.mean("leader_bytes_in") + total.mean("replication_bytes_in_rate"),
        "nw_out_avg": total.mean("leader_bytes_out") + total.mean("replication_bytes_out_rate"),
    }.items():
        close(pl.Series(name, value), theirs[name], 1e-6)


def test_regression() -> None:
    """Upstream's coefficients, completeness and training state, and our own fit near them."""
    root = reference("broker-load") / "regression"
    expected = {}
    for line in (root / "expected_diverse_percent.txt").read_text().splitlines():
        name, _, value = line.partition("=")
        expected[name] = value
    table = compute(read(root / "observations_diverse_percent.csv")).tables["regression"]
    assert table["symbol"].to_list() == ["a", "b", "c"]
    for row, key in zip(
        table.iter_rows(named=True), ("leader_bytes_in", "leader_bytes_out", "follower_bytes_in"), strict=True
    ):
        assert row["coefficient"] == pytest.approx(float(expected[key]), rel=1e-6)
        assert row["completeness"] == float(expected["training_completeness"])
        assert row["trained"] is True
        assert row["low"] < row["coefficient"] < row["high"]
        assert row["fitted"] == pytest.approx(row["coefficient"], rel=0.05)


def test_corrected_sums_to_the_measured_cpu(small: tuple[Path, Result, tuple[Path, ...]]) -> None:
    """A broker's replicas sum to what it measured, and hold their own sizes."""
    result = compute(read(*small[2]), ("mode", "corrected"))
    samples = pl.read_csv(small[0] / "broker_samples.csv").sort("broker")
    table = result.tables["brokers"]
    close(table["cpu_pct"], samples["cpu_usage"] * 100, 1e-9)
    close(table["disk_mb"], samples["disk_usage"], 1e-9)
    close(table["residual_cpu_pct"], pl.Series([0.0] * 4), 1e-9, tiny=1.0)
