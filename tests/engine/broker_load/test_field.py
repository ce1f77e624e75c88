"""Situations of operators from the reference data, each with what is right in it; skipped without them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.core.view import Result
from tests.engine.broker_load.inputs import compute, read

ROOT = Path(os.environ.get("LOADLENS_REFERENCE_DATA") or "nowhere")
CASES = sorted(path.parent for path in ROOT.glob("broker-load/field/*/expect.json"))


def told(result: Result) -> str:
    """All findings, notes and headline numbers."""
    lines = [f"{one.level} {one.subject} {one.text}" for one in result.findings]
    return "\n".join([*lines, *result.notes, *(f"{one.label} {one.value} {one.basis}" for one in result.headline)])


def capacity(result: Result, right: dict[str, Any]) -> None:
    for row in result.tables["brokers"].iter_rows(named=True):
        found = (row["disk_cap_mb"], row["cores"], row["nw_in_cap_kbs"])
        assert found == (right["disk_mb"], right["cores"], right["nw_in_kbs"])


def plain(result: Result, right: dict[str, Any]) -> None:
    assert (result.summary["brokers"], result.summary["partitions"]) == (right["brokers"], right["partitions"])
    assert "no broker's rack is known" in told(result)
    assert right.get("host", "") in result.tables["brokers"]["host"][0]


def no_cpu(result: Result, right: dict[str, Any]) -> None:
    assert result.summary["provision_status"] == "UNDECIDED"
    assert result.tables["brokers"]["cpu_pct"].null_count() == 3 and "no CPU series" in told(result)


def no_topic_series(result: Result, right: dict[str, Any]) -> None:
    assert "no rates by topic" in told(result) and result.tables["brokers"]["nw_out_kbs"].min() > 0


def cores_unknown(result: Result, right: dict[str, Any]) -> None:
    assert result.summary["provision_status"] != "UNDER_PROVISIONED" and result.summary["brokers_over_capacity"] == 0
    assert result.tables["goals"].filter(goal="CpuCapacityGoal")["violated"].to_list() == [None]


def failed_disk(result: Result, right: dict[str, Any]) -> None:
    assert f"log directory {right['directory']} of broker {right['broker']}" in told(result)


def matched(result: Result, right: dict[str, Any]) -> None:
    assert result.tables["brokers"]["broker"].to_list() == list(range(1, right["brokers"] + 1))


def kraft(result: Result, right: dict[str, Any]) -> None:
    assert result.summary["brokers"] == right["brokers"]
    assert not set(result.tables["brokers"]["broker"].to_list()) & set(right["controllers"])


def goal(result: Result, right: dict[str, Any]) -> None:
    assert result.tables["goals"].filter(goal=right["goal"])["violated"].item() == right["violated"]


def under_min_isr(result: Result, right: dict[str, Any]) -> None:
    assert f"critical partitions under min.insync.replicas {right['count']} of" in told(result)
    assert all(name in told(result) for name in right["partitions"])


def filtered(result: Result, right: dict[str, Any]) -> None:
    assert f"not the whole cluster: it covers {right['partitions']} of" in told(result) and "alive" not in told(result)


def plan(result: Result, right: dict[str, Any]) -> None:
    assert len(result.tables.get("scenario_moves", pl.DataFrame())) == right["moves"]


CHECKS = {
    "capacity": capacity, "plain": plain, "no-cpu": no_cpu, "no-topic-series": no_topic_series,
    "cores-unknown": cores_unknown, "failed-disk": failed_disk, "matched": matched, "kraft": kraft, "goal": goal,
    "under-min-isr": under_min_isr, "filtered": filtered, "plan": plan,
}  # fmt: skip


@pytest.mark.skipif(not CASES, reason="the reference data are not here (LOADLENS_REFERENCE_DATA)")
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_field(case: Path) -> None:
    right = json.loads((case / "expect.json").read_text())
    more = [("apply-plan", "true")] if right["kind"] == "plan" else []
    CHECKS[right["kind"]](compute(read(case / "input"), ("min-samples", "1"), *more), right)


@pytest.mark.skipif(not CASES, reason="the reference data are not here (LOADLENS_REFERENCE_DATA)")
@pytest.mark.parametrize(("name", "lost"), [("rack-not-survivable", 2), ("rack-survivable", 0)])
def test_the_loss_of_a_rack(name: str, lost: int) -> None:
    result = compute(read(ROOT / "screen/field" / name), ("min-samples", "1"))
    assert told(result).count("loss of rack") == lost
    verdict = next(one for one in result.headline if one.label == "single failure")
    assert (verdict.value == "each survivable") == (lost == 0)
