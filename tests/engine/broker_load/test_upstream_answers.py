"""What ``--format upstream`` prints, against upstream's own answers; and its answers read back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.broker_load.view import VIEW
from engine.incremental import Memo
from engine.parameters import parse
from tests.engine.broker_load.inputs import compute, read
from tests.reference import reference

SETS = {"kafka": (), "topicrepl": ("metrics_topic_replication.csv",)}


@pytest.fixture(scope="module", params=list(SETS))
def printed(request: pytest.FixtureRequest) -> tuple[Path, Any]:
    """Folder of expected answers and a function that prints ours."""
    root = reference("broker-load") / "small"
    names = ("brokers.csv", "capacity.json", "metrics.csv", *SETS[request.param])
    native = (root / "native" / "log-dirs.txt", root / "native" / "topics-describe.txt")
    inputs, memo = read(*(root / "input" / name for name in names), *native), Memo()

    def answer(**options: str) -> str:
        pairs = list(options.items())
        text = VIEW.upstream(compute(inputs, *pairs, memo=memo), parse(VIEW.parameters, pairs))
        assert text is not None
        return text

    return root / f"expected_{request.param}", answer


def same(ours: Any, theirs: Any, relative: float = 2e-5) -> None:
    """Equal structure, numbers within single precision."""
    if isinstance(theirs, dict):
        assert set(ours) == set(theirs)
        for key in theirs:
            same(ours[key], theirs[key], relative)
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b, relative)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=relative, abs=1e-9)
    else:
        assert ours == theirs


def same_text(ours: str, theirs: str) -> None:
    """Exact layout; a number's last digit may differ by one."""
    assert len(ours) == len(theirs)
    for a, b in zip(ours.split("\n"), theirs.split("\n"), strict=True):
        if a == b:
            continue
        number = r"-?\d+\.\d+"
        assert re.sub(number, "#", a) == re.sub(number, "#", b)
        for x, y in zip(re.findall(number, a), re.findall(number, b), strict=True):
            assert abs(int(x.replace(".", "")) - int(y.replace(".", ""))) <= 1, (x, y)


def test_load(printed: tuple[Path, Any]) -> None:
    """JSON by key, text by layout."""
    expected, answer = printed
    same(json.loads(answer(answer="load", **{"as": "json"})), json.loads((expected / "load.json").read_text()))
    same_text(answer(answer="load", **{"as": "text"}), (expected / "load.txt").read_text())


@pytest.mark.parametrize("resource", ["disk", "cpu"])
def test_partition_load(printed: tuple[Path, Any], resource: str) -> None:
    """Order of records only up to equal values."""
    expected, answer = printed
    name = f"partition_load_{resource}"

    def key(record: dict[str, Any]) -> tuple[str, int]:
        return record["topic"], record["partition"]

    ours = json.loads(answer(answer="partition_load", resource=resource.upper(), **{"as": "json"}))["records"]
    theirs = json.loads((expected / f"{name}.json").read_text())["records"]
    same(sorted(ours, key=key), sorted(theirs, key=key), 1e-6)
    same([r[resource] for r in ours], [r[resource] for r in theirs], 1e-6)
    text = answer(answer="partition_load", resource=resource.upper(), **{"as": "text"}).split("\n")
    wanted = (expected / f"{name}.txt").read_text().split("\n")
    assert text[0] == wanted[0]
    same_text("\n".join(sorted(text)), "\n".join(sorted(wanted)))


def test_cluster_state(printed: tuple[Path, Any]) -> None:
    """Topology answers are exact."""
    expected, answer = printed
    ours = json.loads(answer(answer="kafka_cluster_state", **{"as": "json"}))
    assert ours == json.loads((expected / "kafka_cluster_state.json").read_text())
    text = answer(answer="kafka_cluster_state", **{"as": "text"})
    assert text == (expected / "kafka_cluster_state.txt").read_text()


def test_partition_load_filters(printed: tuple[Path, Any]) -> None:
    """Topics by regular expression, a limit on entries."""
    records = json.loads(printed[1](answer="partition_load", topic="orders|payments", entries="4", **{"as": "json"}))[
        "records"
    ]
    assert len(records) == 4
    assert {record["topic"] for record in records} <= {"orders", "payments"}


@pytest.mark.parametrize("name", ["load.json", "load.txt"])
def test_load_answers_are_read_back(name: str) -> None:
    """As source upstream, with nothing that contradicts itself."""
    root = reference("broker-load") / "small" / "expected_kafka"
    result = compute(read(root / name))
    rows = result.tables["brokers"]
    assert rows["source"].to_list() == ["upstream"] * 4
    theirs = {row["Broker"]: row for row in json.loads((root / "load.json").read_text())["brokers"]}
    for row in rows.iter_rows(named=True):
        assert row["cpu_pct"] == pytest.approx(theirs[row["broker"]]["CpuPct"], abs=6e-4)
        assert (row["leaders"], row["replicas"]) == (
            theirs[row["broker"]]["Leaders"],
            theirs[row["broker"]]["Replicas"],
        )
    assert result.tables["answer_differences"].height == 0
    assert not result.problems


@pytest.mark.parametrize("name", ["partition_load_disk.json", "partition_load_disk.txt"])
def test_partition_answers_are_read_back_with_their_followers(name: str) -> None:
    """Leaders as given; followers behind their leader by upstream's own rule."""
    root = reference("broker-load") / "small" / "expected_kafka"
    rows = compute(read(root / name)).tables["replicas"]
    golden = pl.read_csv(root / "replica_loads.csv")
    assert rows.height == golden.height
    theirs = {(r["topic"], r["partition"], r["broker"]): r for r in golden.iter_rows(named=True)}
    leaders = {(r["topic"], r["partition"]): r["position"] for r in golden.iter_rows(named=True) if r["is_leader"]}
    for row in rows.iter_rows(named=True):
        other = theirs[row["topic"], row["partition"], row["broker"]]
        if other["position"] >= leaders[row["topic"], row["partition"]]:  # before it, upstream's order quirk applies
            assert row["cpu_pct_cores"] == pytest.approx(other["cpu_pct_cores"], rel=1e-3, abs=1e-3)
        assert row["disk_mb"] == pytest.approx(other["disk_mb"], abs=1e-3)


@pytest.mark.parametrize("name", ["kafka_cluster_state.json", "kafka_cluster_state.txt"])
def test_cluster_state_gives_topology(name: str) -> None:
    """A verbose answer stands in for a description."""
    root = reference("broker-load") / "small"
    result = compute(read(root / "expected_kafka" / name))
    theirs = compute(read(root / "native" / "topics-describe.txt"))
    columns = ["topic", "partition", "leader", "replicas"]
    assert result.tables["partitions"].select(columns).equals(theirs.tables["partitions"].select(columns))


def test_answers_are_compared_with_the_model() -> None:
    """The golden answer agrees; a changed number is flagged."""
    root = reference("broker-load") / "small"
    paths = [root / "input" / name for name in ("brokers.csv", "topology.csv", "metrics.csv", "capacity.json")]
    result = compute(read(*paths, root / "expected_kafka" / "load.json"))
    assert result.tables["answer_differences"].height == 0
    assert result.tables["brokers"]["source"].to_list() == ["model", "upstream"] * 4


def test_directories_of_a_load_answer(tmp_path: Path) -> None:
    """JBOD: each directory's load is shown, a dead one has none, and they have to sum to the broker's disk."""
    disk = {"DiskMB": 300.0, "DiskPct": 30.0, "NumLeaderReplicas": 2, "NumReplicas": 5}
    row = {"Host": "h", "Rack": "r", "BrokerState": "ALIVE", "CpuPct": 1.0, "DiskMB": 700.0, "DiskPct": 35.0, "Leaders": 4,
           "Replicas": 9, "FollowerNwInRate": 1.0, "LeaderNwInRate": 1.0, "NwOutRate": 1.0, "PnwOutRate": 2.0}  # fmt: skip
    one = row | {"Broker": 1, "DiskState": {"/a": disk, "/b": disk | {"DiskMB": 400.0}}}
    two = row | {"Broker": 2, "DiskState": {"/a": disk, "/b": "DEAD"}}
    three = row | {"Broker": 3, "DiskState": {"/a": disk, "/b": 5}}
    (tmp_path / "load.json").write_text(json.dumps({"brokers": [one, two, three], "hosts": [], "version": 1}))
    result = compute(read(tmp_path))
    found = result.tables["directories"].select(
        "broker", "log_dir", "disk_mb", "disk_pct", "leaders", "replicas", "error"
    )
    assert found.rows() == [
        (1, "/a", 300.0, 30.0, 2, 5, None), (1, "/b", 400.0, 30.0, 2, 5, None),
        (2, "/a", 300.0, 30.0, 2, 5, None), (2, "/b", None, None, None, None, "DEAD"), (3, "/a", 300.0, 30.0, 2, 5, None),
    ]  # fmt: skip
    assert set(result.tables["directories"]["source"]) == {"upstream"}
    assert [p.kind for p in result.problems] == ["bad-record"]
    wrong = result.tables["answer_differences"].filter(pl.col("basis") == "sum of its directories")
    assert wrong.select("subject", "given", "derived").rows() == [("broker 3", 700.0, 300.0)]


def test_contradictions_inside_an_answer_are_flagged(tmp_path: Path) -> None:
    """A host that is not the sum of its brokers, a percentage that does not follow."""
    broker = {"Host": "h", "Broker": 1, "Rack": "r", "BrokerState": "ALIVE", "DiskMB": 50.0, "DiskCapacityMB": 100.0,
              "DiskPct": 40.0, "CpuPct": 10.0, "LeaderNwInRate": 1.0, "FollowerNwInRate": 1.0, "NwOutRate": 5.0,
              "PnwOutRate": 2.0, "Leaders": 1, "Replicas": 2}  # fmt: skip
    host = {"Host": "h", "CpuPct": 30.0, "DiskMB": 50.0, "LeaderNwInRate": 1.0, "FollowerNwInRate": 1.0,
            "NwOutRate": 5.0, "Leaders": 1, "Replicas": 2}  # fmt: skip
    (tmp_path / "load.json").write_text(json.dumps({"brokers": [broker], "hosts": [host], "version": 1}))
    found = compute(read(tmp_path)).tables["answer_differences"]
    assert set(found["value"].to_list()) == {"disk_pct", "pnw_out_kbs", "cpu_pct"}


def test_real_client_tables() -> None:
    """Thousands separators, older servers without capacities, dead brokers at -1 %."""
    root = reference("broker-load") / "real"
    load = compute(read(root / "linkedin" / "client_load.txt"))
    assert not load.problems
    row = load.tables["brokers"].filter(pl.col("broker") == 2199).row(0, named=True)
    assert (row["disk_mb"], row["nw_out_kbs"], row["leaders"], row["replicas"]) == (646967.81, 1124.97, 11215, 18799)
    removed = compute(read(root / "linkedin" / "client_remove_broker_dryrun.txt"))
    dead = removed.tables["brokers"].filter(pl.col("broker") == 1500).row(0, named=True)
    assert (dead["state"], dead["replicas"]) == ("DEAD", 0)
    assert removed.tables["answer_goals"].height == 15
    state = compute(read(root / "linkedin" / "client_kafka_cluster_state.txt")).tables["brokers"]
    assert state["leaders"].sum() == 3005 + 2816 + 4274 + 2560 + 2574
    amq = compute(read(root / "amq-streams" / "add_broker_dryrun.txt"))
    assert amq.tables["brokers"]["replicas"].to_list() == [48, 49, 52]
    goals = amq.tables["answer_goals"]
    assert (goals["score_before"][0], goals["score_after"][0], goals["provision"][0]) == (86.026, 92.12, "RIGHT_SIZED")


def test_nan_load_is_refused_as_json_and_printed_as_text(tmp_path: Path) -> None:
    """As upstream: the JSON writer refuses NaN."""
    root = reference("broker-load") / "small" / "input"
    text = (root / "metrics.csv").read_text()
    text = re.sub(r"(BROKER_CPU_UTIL,1,,),[\d.]+", r"\1,NaN", text)
    (tmp_path / "metrics.csv").write_text(text)
    inputs = read(tmp_path / "metrics.csv", *(root / n for n in ("brokers.csv", "topology.csv", "capacity.json")))
    result = compute(inputs)
    assert "errorMessage" in json.loads(VIEW.upstream(result, parse(VIEW.parameters, [("as", "json")])) or "")
    assert ",           NaN," in (VIEW.upstream(result, parse(VIEW.parameters, [("as", "text")])) or "")
    assert result.tables["ledger"].filter(pl.col("kind") == "nan-cpu")["subject"].to_list() == ["broker 1"]


def test_balancedness_follows_a_real_answer() -> None:
    """The cost formula gives the scores that a real server printed for its goals."""
    from engine.broker_load.cruise_control.goals import Verdict, balancedness

    root = reference("broker-load") / "real" / "amq-streams"
    goals = compute(read(root / "add_broker_dryrun.txt")).tables["answer_goals"]
    hard = {g for g in goals["goal"].to_list() if g.endswith("CapacityGoal")}
    before = [Verdict(g, g in hard, s != "NO-ACTION", "", 0) for g, s in goals.select("goal", "status").iter_rows()]
    after = [Verdict(g, g in hard, s == "VIOLATED", "", 0) for g, s in goals.select("goal", "status").iter_rows()]
    assert balancedness(before) == pytest.approx(goals["score_before"][0], abs=1e-3)
    assert balancedness(after) == pytest.approx(goals["score_after"][0], abs=1e-3)
