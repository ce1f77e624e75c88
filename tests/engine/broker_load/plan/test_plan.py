"""Plans: every step checked by other means, what cannot be met, what is asked wrongly, and the files read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from engine.broker_load.plan import export
from engine.broker_load.view import VIEW
from engine.core.incremental import Memo
from engine.core.parameters import Attachment, parse
from engine.core.view import Inputs, Result
from tests.engine.broker_load.clusters import KB, MB, Cluster
from tests.engine.broker_load.inputs import compute, read
from tests.engine.broker_load.plan.checker import GOALS, check
from tests.reference import reference

EQUAL = (
    "cpu_pct",
    "disk_mb",
    "leader_nw_in_kbs",
    "follower_nw_in_kbs",
    "nw_out_kbs",
    "pnw_out_kbs",
    "leaders",
    "replicas",
)

FACTOR = 1.5
"""What a plan copies differs by no more from that of the same cluster under other names, or without one step."""


def made(
    folder: Path, brokers: int, racks: int, partitions: int, seed: int, spread: bool = False, most: float = 0.9
) -> Inputs:
    """A random cluster: replicas anywhere (or one a rack, where ``spread``), the leader first; loads of every size, CPU up to
    ``most``."""
    rng = np.random.default_rng(seed)
    cluster = Cluster(folder, tuple(range(1, brokers + 1)))
    cluster.racks = {broker: f"r{broker % racks}" for broker in cluster.ids}
    factor = int(rng.integers(1, min(3, racks) + 1))
    rates: dict[tuple[int, str], float] = {}
    sizes = rng.lognormal(3, 1, partitions) * MB
    for number in range(partitions):
        topic = f"t{number % max(partitions // 4, 1)}"
        held = rng.permutation(cluster.ids).tolist()
        if spread:
            held = [next(b for b in held if cluster.racks[b] == f"r{rack}") for rack in rng.permutation(racks).tolist()]
        held = held[:factor]
        cluster.partition(topic, number, held[0], "|".join(map(str, held)))
        rates[held[0], topic] = rates.get((held[0], topic), 0.0) + float(rng.lognormal(4, 1)) * KB
        for broker in held:
            cluster.size(broker, topic, number, float(sizes[number]))
    for (broker, topic), rate in rates.items():
        cluster.rate(broker, topic, rate, rate * float(rng.uniform(0, 3)))
    for broker in cluster.ids:
        into = sum(rate for (who, _), rate in rates.items() if who == broker)
        cluster.totals(broker, float(rng.uniform(0.2, most)) if into else 0.01, bytes_in=into, bytes_out=into * 1.5)
    disk = sizes.sum() * factor / MB / brokers / float(rng.uniform(0.3, 0.75))
    net = sum(rates.values()) / KB * factor * 2 / brokers / float(rng.uniform(0.3, 0.7))
    cluster.capacity = {"-1": {"DISK": str(disk), "CPU": {"num.cores": "8"}, "NW_IN": str(net), "NW_OUT": str(net)}}
    return read(cluster.write())


def plan(inputs: Inputs, ask: str, *more: tuple[str, Any], memo: Memo | None = None) -> Result:
    return compute(inputs, ("plan", ask), ("min-samples", "1"), *more, memo=memo)


KINDS = st.sampled_from(["mend", "survive", "drain"])


@settings(max_examples=6, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    st.integers(3, 6),
    st.integers(1, 3),
    st.integers(1, 16),
    st.integers(0, 2**31),
    st.sampled_from(["mend", "survive", "drain"]),
)
def test_every_step_is_legal_and_exact(
    tmp_path_factory: pytest.TempPathFactory, brokers: int, racks: int, partitions: int, seed: int, kind: str
) -> None:
    inputs = made(tmp_path_factory.mktemp("cluster"), brokers, racks, partitions, seed)
    ask, memo = "drain:1" if kind == "drain" else kind, Memo()
    result = plan(inputs, ask, memo=memo)
    if "plan_steps" not in result.tables:
        assert kind == "drain" and any(problem.kind == "bad-option" for problem in result.problems)
        return
    check(compute(inputs, ("min-samples", "1"), memo=memo), result, (1,) if kind == "drain" else ())
    last = result.tables["plan_curve"].row(-1, named=True)
    for row in result.tables["plan_goals"].to_dicts():
        assert row["violated_after"] is (row["goal"] in last["violated"].split("|"))
        if "RackAwareGoal" not in last["violated"]:  # a proof may rest on one replica in each rack
            assert row["reachable"] or row["violated_after"], f"{row['goal']} was to be impossible"


@pytest.mark.parametrize(("ask", "seed"), [("mend", 3), ("survive", 4), ("drain:2", 5), ("add:9@r1", 6)])
def test_the_files_read_back_give_the_end_of_the_plan_and_so_do_all_batches(
    tmp_path: Path, ask: str, seed: int
) -> None:
    inputs, memo = made(tmp_path, 5, 3, 12, seed, spread=True), Memo()
    result = plan(inputs, ask, ("plan-parallel", "1"), memo=memo)
    steps = result.tables["plan_steps"]
    assert steps.height
    written = {name: make(steps) for name, make in export.ANSWERS.items()}
    given_back = [("reassignment", Attachment("r.json", written["reassignment"].encode())),
                  ("elect", Attachment("e.json", written["election"].encode()))]  # fmt: skip
    back = compute(inputs, ("min-samples", "1"), *given_back, memo=memo).tables["scenario_brokers"]
    mine = result.tables["plan_brokers"]
    for name in ("broker", *EQUAL):
        assert mine[name].to_list() == back[name].to_list(), name
    listed = {(p["topic"], p["partition"]): p["replicas"] for p in json.loads(written["rollback"])["partitions"]}
    described = {(r["topic"], r["partition"]): r["replicas"] for r in result.tables["partitions"].to_dicts()}
    assert all(described[key] == replicas for key, replicas in listed.items())
    whole = json.loads(written["reassignment"])["partitions"]
    assert all(p["log_dirs"] == ["any"] * len(p["replicas"]) for p in whole)
    state: dict[tuple[str, int], list[int]] = {}
    batches = result.tables["plan_batches"]["batch"].to_list()
    assert len(batches) > 1 or ask == "survive"
    for number in batches:
        text = VIEW.upstream(result, parse(VIEW.parameters, [("plan-batch", str(number))]))
        state |= {(p["topic"], p["partition"]): p["replicas"] for p in json.loads(text or "")["partitions"]}
    assert {(p["topic"], p["partition"]): p["replicas"] for p in whole}.items() <= state.items()


def renamed(source: Path, target: Path, ids: dict[int, int], topic: str, rng: np.random.Generator) -> Inputs:
    """The same cluster with other ids, ``topic`` before each topic's name, and all lines in another order."""

    def other(name: str, value: str) -> str:
        if name in ("broker", "leader", "replicas", "isr") and value:
            return "|".join(str(ids[int(one)]) for one in value.split("|"))
        return topic + value if name == "topic" and value else value

    target.mkdir()
    for path in source.iterdir():
        head, *lines = path.read_text().splitlines()
        if path.suffix == ".csv":
            rows = [",".join(map(other, head.split(","), line.split(","))) for line in lines]
            lines = [rows[place] for place in rng.permutation(len(rows)).tolist()]
        (target / path.name).write_text("\n".join([head, *lines]) + "\n")
    return read(target)


@settings(max_examples=2, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(st.integers(0, 2**31), st.sampled_from(["mend", "survive"]))
def test_neither_order_nor_names_decide_how_good_a_plan_is(
    tmp_path_factory: pytest.TempPathFactory, seed: int, ask: str
) -> None:
    """Other lines first or names that sort alike: the same plan. Any names: the same goals and losses, and much the same MB."""
    folder, rng = tmp_path_factory.mktemp("cluster"), np.random.default_rng(seed)
    (folder / "a").mkdir()
    one = plan(made(folder / "a", 4, 2, 12, seed, spread=True, most=0.4), ask)
    steps = one.tables["plan_steps"]
    same = {number: number for number in range(1, 5)}
    again = plan(renamed(folder / "a", folder / "b", same, "billing.", rng), ask).tables["plan_steps"]
    assert again.with_columns(pl.col("topic").str.strip_prefix("billing.")).equals(steps)
    sorted_alike = {number: 100 + 7 * number for number in same}
    again = plan(renamed(folder / "a", folder / "c", sorted_alike, "", rng), ask).tables["plan_steps"]
    assert again["topic"].equals(steps["topic"]) and again["moved_mb"].equals(steps["moved_mb"])
    assert again["new_leader"].to_list() == [sorted_alike[broker] for broker in steps["new_leader"].to_list()]
    mixed = dict(zip(same, rng.permutation(list(sorted_alike.values())).tolist(), strict=True))
    ends = [each.tables["plan_curve"].row(-1, named=True) for each in
            (one, plan(renamed(folder / "a", folder / "d", mixed, "", rng), ask))]  # fmt: skip
    names = ("goals_violated", "survived_brokers", "survived_racks", "offline")
    first, second = ([end[name] for name in names] for end in ends)
    assert abs(first[0] - second[0]) + abs(first[1] - second[1]) <= 1, (first, second)
    few = 3 * max(one.tables["replicas"]["disk_mb"].to_list())
    low, high = sorted(end["moved_mb"] for end in ends)
    assert high <= FACTOR * low + few


def test_a_rejected_step_changes_little_else(tmp_path: Path) -> None:
    inputs, memo = made(tmp_path, 4, 2, 16, 3, spread=True, most=0.5), Memo()
    whole = plan(inputs, "mend", memo=memo)
    end, steps = whole.tables["plan_curve"].row(-1, named=True), whole.tables["plan_steps"]
    moves = steps.filter(kind="move").head(2).to_dicts()
    assert moves
    for step in moves:
        without = plan(inputs, "mend", ("plan-reject", f"{step['topic']}-{step['partition']}"), memo=memo)
        last = without.tables["plan_curve"].row(-1, named=True)
        assert last["goals_violated"] + last["brokers"] - last["survived_brokers"] <= (
            end["goals_violated"] + end["brokers"] - end["survived_brokers"] + 1
        )
        assert last["moved_mb"] <= FACTOR * end["moved_mb"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Inputs, Memo]:
    return made(tmp_path_factory.mktemp("small"), 4, 2, 6, 5), Memo()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((("plan", "drain:77"),), "broker 77 is not in the cluster"),
        ((("plan", "drain:1,2,3,4"),), "all living brokers would be drained"),
        ((("plan", "drain:1,3"),), "2 replicas per partition need more brokers or racks than the drain leaves"),
        ((("plan", "add:1"),), "broker 1 is in the cluster already"),
        ((("plan", "tidy"),), "'tidy' is not mend, survive"),
        ((("plan", "drain:x"),), "'x' is no broker id"),
        ((("plan", "mend"), ("plan-skip-topics", "(")), "not a regular expression"),
        ((("plan", "mend"), ("plan-reject", "nothing-0")), "'nothing-0' is no partition"),
        ((("plan", "mend"), ("plan-skip-brokers", "99")), "'99' is no broker"),
    ],
)
def test_what_is_asked_wrongly_is_named_and_the_rest_stays(
    small: tuple[Inputs, Memo], options: Any, words: str
) -> None:
    result = compute(small[0], ("min-samples", "1"), *options, memo=small[1])
    assert any(problem.kind == "bad-option" and words in problem.reason for problem in result.problems)
    assert "plan_steps" not in result.tables
    assert result.tables["brokers"].height == 4


def test_options_hold_back_partitions_brokers_and_cut_the_end(tmp_path: Path) -> None:
    inputs, memo = made(tmp_path, 5, 3, 10, 2), Memo()
    whole = plan(inputs, "mend", memo=memo).tables["plan_steps"]
    first = whole.row(0, named=True)
    target = next(row["to_broker"] for row in whole.to_dicts() if row["to_broker"])
    assert plan(inputs, "mend", ("plan-max-steps", "2"), memo=memo).tables["plan_steps"].equals(whole.head(2))
    some = float(whole["moved_mb"].sum()) / 2
    assert (
        0 < plan(inputs, "mend", ("plan-max-mb", str(some)), memo=memo).tables["plan_steps"]["moved_mb"].sum() <= some
    )
    name = f"{first['topic']}-{first['partition']}"
    without = plan(inputs, "mend", ("plan-reject", name), ("plan-skip-brokers", str(target)), memo=memo).tables[
        "plan_steps"
    ]
    assert name not in {f"{row['topic']}-{row['partition']}" for row in without.to_dicts()}
    assert target not in without["to_broker"].to_list()
    skipped = plan(inputs, "mend", ("plan-skip-topics", "t[01]"), memo=memo).tables["plan_steps"]
    assert not {"t0", "t1"} & set(skipped["topic"].to_list())


def test_the_plan_after_a_loss_starts_from_the_loss(tmp_path: Path) -> None:
    inputs = made(tmp_path, 6, 3, 24, 8, spread=True)
    curve = plan(inputs, "mend", ("fail", "2")).tables["plan_curve"]
    assert curve["offline"][0] > 0 == curve["offline"][-1]
    assert curve["brokers"].unique().to_list() == [5]


@pytest.mark.parametrize("case", ["hot-broker", "new-broker", "one-more-loss", "racks-broken"])
def test_against_the_plans_of_cruise_control(case: str) -> None:
    folder = reference("broker-load") / "plan" / case
    ask = json.loads((folder / "ask.json").read_text())
    options, memo = (("at", "2023-11-14T23:30:00Z"), ("min-samples", "1")), Memo()
    inputs = read(folder / "native")
    plain = compute(inputs, *options, memo=memo)
    survived = []
    for kind in ("survive", "mend"):
        result = compute(inputs, ("plan", kind), *options, memo=memo)
        check(plain, result)
        first, last = (result.tables["plan_curve"].row(place, named=True) for place in (0, -1))
        before = ask["before"]
        assert (first["goals_violated"], first["survived_brokers"], first["survived_racks"]) == (
            before["violated"], before["survived_brokers"], before["survived_racks"],
        )  # fmt: skip
        assert first["balancedness"] == pytest.approx(before["balancedness"], abs=0.01)
        bar = ask["margin"] if kind == "mend" else ask.get("survive", {"mb": ask["peer"]["mb"]} | ask["before"])
        most = bar["mb"] * ask["peer"]["mb"] if kind == "mend" else bar["mb"]
        assert last["moved_mb"] <= most
        assert last["survived_brokers"] >= bar["survived_brokers"]
        assert last["survived_racks"] >= bar["survived_racks"]
        survived.append(last["survived_brokers"])
        assert {*last["violated"].split("|")} <= {"", *GOALS}
    assert last["goals_violated"] <= ask["peer"]["violated"]
    left = result.tables["plan_goals"].filter(violated_after=True)
    assert not left["reachable"].any(), "goals and losses are mended together"
    assert survived[1] >= survived[0], "nothing is lost that survival alone reaches"


def test_a_plan_starts_from_where_a_reassignment_in_progress_leads(tmp_path: Path) -> None:
    source = Path(__file__).parents[3] / "scenarios" / "broker_load" / "hot-leader"
    for path in source.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "list.txt").write_text(
        "Current partition reassignments:\norders-0: replicas: 4,1,2,3. adding: 4. removing: 1.\n"
    )
    result = plan(read(tmp_path), "mend")
    assert not result.tables["plan_steps"].filter(topic="orders", partition=0).height
    assert any(note.startswith("1 partition left alone: a reassignment moves it now") for note in result.notes)
    leaders = result.tables["plan_brokers"].select("broker", "leaders_before").rows()
    today = dict(result.tables["brokers"].select("broker", "leaders").rows())
    assert dict(leaders) == today | {1: today[1] - 1, 4: today[4] + 1}
    assert "--additional --execute" in export.files(result, 50, "plan")["commands.txt"]


def test_a_move_that_failed_is_a_problem_with_its_line(tmp_path: Path) -> None:
    made(tmp_path, 4, 2, 6, 5)
    failed = "There is no active reassignment of partition t0-{}, but replica set is 1,2 rather than 3,4.\n"
    text = "Status of partition reassignment:\nReassignment of partition t0-0 is completed.\n" + failed.format(1)
    (tmp_path / "verify.txt").write_text(text)
    problem = next(one for one in read(tmp_path).problems if one.kind == "move-failed")
    assert (Path(problem.path).name, problem.line) == ("verify.txt", 3)
    assert problem.reason.startswith("the move of t0-1 to brokers 3,4 failed or was overwritten: it is on 1,2")
    (tmp_path / "verify.txt").write_text(text + "".join(failed.format(number) for number in range(2, 30)))
    told = [one for one in read(tmp_path).problems if one.kind == "move-failed"]
    assert sum(one.count for one in told) == 29 and len(told) <= 21
