"""Small odd clusters, one rule each, against Cruise Control's own results."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.broker_load.tables.raw_metrics import SAMPLE
from engine.core.view import Result
from tests.engine.broker_load.inputs import compute, read
from tests.reference import reference

_ROOT = Path(os.environ.get("LOADLENS_REFERENCE_DATA", ".")) / "broker-load" / "odd"
CASES = sorted(path.name for path in _ROOT.iterdir() if path.is_dir()) if _ROOT.is_dir() else ["none"]
SETTINGS = {
    "partition.metrics.window.ms": "window-ms",
    "num.partition.metrics.windows": "windows",
    "min.samples.per.partition.metrics.window": "min-samples",
    "max.allowed.extrapolations.per.partition": "max-extrapolations",
}
Rows = list[dict[str, Any]]


class Case:
    """One cluster: its expected files and our result."""

    def __init__(self, folder: Path) -> None:
        self.run = json.loads((folder / "run.json").read_text())
        self.expected = folder / "expected"
        options = [(SETTINGS[name], value) for name, value in self.run["settings"].items()]
        options += [("sampling-interval-s", str(self.run["sampling_interval_ms"] / 1000))]
        while_sampling = str(self.run["capacity_estimation_while_sampling"]).lower()
        options += [("sampling-allow-cpu-capacity-estimation", while_sampling), ("at", str(self.run["at_ms"]))]
        self.result: Result = compute(read(folder / "input"), *options)

    def rows(self, name: str) -> Rows:
        """Rows of an expected CSV file."""
        path = self.expected / f"{name}.csv"
        return (
            pl.read_csv(path, infer_schema_length=None).with_columns(pl.col(pl.String).fill_null("")).rows(named=True)
        )


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    """One of the clusters."""
    return Case(reference("broker-load") / "odd" / request.param)


def near(ours: float | None, theirs: float | str | None, relative: float) -> bool:
    """Whether two numbers agree; NaN and null are the same."""
    theirs = math.nan if theirs in (None, "", "NaN") else float(theirs)  # type: ignore[arg-type]
    ours = math.nan if ours is None else float(ours)
    return (math.isnan(ours) and math.isnan(theirs)) or math.isclose(ours, theirs, rel_tol=relative, abs_tol=1e-9)


def by(rows: Rows, *names: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows by the values of ``names``."""
    made = {tuple(row[name] for name in names): row for row in rows}
    assert len(made) == len(rows)
    return made


def same(ours: dict[tuple[Any, ...], dict[str, Any]], theirs: dict[tuple[Any, ...], dict[str, Any]], names: dict[str, str],
         tolerance: Callable[[str], float]) -> None:  # fmt: skip
    """The same keys, and numbers ``names`` (ours by theirs) within a relative tolerance each."""
    assert ours.keys() == theirs.keys()
    for key, row in theirs.items():
        for theirs_name, mine in names.items():
            assert near(ours[key][mine], row[theirs_name], tolerance(theirs_name)), (
                key,
                theirs_name,
                ours[key][mine],
                row,
            )


def plain(names: tuple[str, ...]) -> dict[str, str]:
    """Names that are ours and theirs."""
    return dict(zip(names, names, strict=True))


def test_samples(case: Case) -> None:
    ours = by(case.result.tables["samples"].rows(named=True), "topic", "partition", "time_ms")
    theirs = by(case.rows("partition_samples"), "topic", "partition", "time_ms")
    same(ours, theirs, plain(SAMPLE) | {"leader_broker": "leader"}, lambda _: 1e-11)


def test_broker_samples(case: Case) -> None:
    ours = by(case.result.tables["broker_samples"].rows(named=True), "broker", "time_ms")
    theirs = by(case.rows("broker_samples"), "broker", "time_ms")
    same(ours, theirs, plain(SAMPLE) | {"version": "version"}, lambda _: 1e-11)


def test_windows(case: Case) -> None:
    keys = ("topic", "partition", "window_end_ms", "extrapolation")
    theirs = case.rows("windows")
    same(by(case.result.tables["windows"].rows(named=True), *keys), by(theirs, *keys), plain(SAMPLE), lambda _: 1e-6)
    valid = {
        (row["topic"], row["partition"]): row["valid"] for row in case.result.tables["partitions"].rows(named=True)
    }
    assert {(row["topic"], row["partition"]): row["valid"] for row in theirs}.items() <= valid.items()


def test_replicas(case: Case) -> None:
    keys = ("topic", "partition", "position", "broker")
    names = {"cpu_pct_cores": "cpu_pct_cores", "disk_mb": "disk_mb", "nw_in_kb": "nw_in_kbs", "nw_out_kb": "nw_out_kbs"}
    names |= {"is_leader": "leader", "is_offline": "offline"}
    ours, theirs = by(case.result.tables["replicas"].rows(named=True), *keys), by(case.rows("replica_loads"), *keys)
    same(ours, theirs, names, lambda _: 2e-6)


def test_brokers(case: Case) -> None:
    names = {"disk": "disk_mb", "nw_out": "nw_out_kbs", "leader_nw_in": "leader_nw_in_kbs", "pnw_out": "pnw_out_kbs"}
    names |= {"leaders": "leaders", "replicas": "replicas", "estimated": "capacity_estimated"}
    ours, theirs = by(case.result.tables["brokers"].rows(named=True), "broker"), by(case.rows("broker_loads"), "broker")
    same(ours, theirs, names, lambda name: 3e-5 if name == "disk" else 3e-6)
    for key, row in theirs.items():
        mine = ours[key]
        assert near(mine["leader_nw_in_kbs"] + mine["follower_nw_in_kbs"], row["nw_in"], 3e-6)
        assert (mine["state"], mine["rack"]) == (row["state"], row["rack"])
        assert re.sub(r"^UNKNOWN_HOST-\d+$", "?", mine["host"]) == re.sub(r"^UNKNOWN_HOST-\d+$", "?", row["host"])
        if row["alive"]:
            assert near(mine["cpu_pct"] * mine["cores"], row["cpu"], 3e-6)


def test_statistics(case: Case) -> None:
    theirs = json.loads((case.expected / "cluster_stats.json").read_text())
    names = {"cpu": "cpu", "networkInbound": "nw_in_kbs", "networkOutbound": "nw_out_kbs", "disk": "disk_mb"}
    names |= {"potentialNwOut": "pnw_out_kbs", "replicas": "replicas", "leaderReplicas": "leaders"}
    names |= {"topicReplicas": "topic_replicas"}
    for row in case.result.tables["cluster_stats"].rows(named=True):
        for name, mine in names.items():
            wanted = theirs["statistics"][row["statistic"]][name]
            # A deviation of 0 is a difference of two single-precision sums upstream.
            exact = near(row[mine], wanted, 3e-5 if name == "disk" else 3e-6)
            assert exact or abs(row[mine] - wanted) < 1e-4, (row["statistic"], name, row[mine], wanted)
    assert case.result.summary["replicas"] == theirs["metadata"]["replicas"]
    assert case.result.summary["brokers"] == theirs["metadata"]["brokers"]


def test_balance(case: Case) -> None:
    names = {"cluster_load": "cluster_load", "cluster_capacity_alive": "cluster_capacity_alive",
             "avg_utilization": "avg_utilization", "lower": "lower_threshold", "upper": "upper_threshold",
             "balanced_brokers": "balanced_brokers"}  # fmt: skip
    ours, theirs = by(case.result.tables["balance"].rows(named=True), "resource"), by(case.rows("balance"), "resource")
    same(ours, theirs, names, lambda _: 3e-5)


def test_goals(case: Case) -> None:
    ours = {row["goal"]: (row["hard"], row["violated"]) for row in case.result.tables["goals"].rows(named=True)}
    assert ours == {row["goal"]: (row["hard"], row["violated"]) for row in case.rows("goals")}
