"""Logs of the field against what is right of each: advice that acts, causes of errors, costs, and parts of one log."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from engine.core.view import Context, Result
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.view import VIEW
from tests.engine.job_heuristics.helper import inputs_of
from tests.reference import reference

ID = "application_1760500000000_"


def result(case: str, job: str | None = None) -> Result:
    root = reference("job-heuristics") / "field" / case
    found = {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
    unpacked = {path: gzip.decompress(data) if path.suffix == ".gz" else data for path, data in found.items()}
    files = {f"/{path.relative_to(root)}": data for path, data in unpacked.items()}
    return VIEW.compute(inputs_of(files), JobParameters(job=job), Context(0))


def asked(case: str, job: str) -> tuple[dict[str, set[str]], dict[str, dict[str, Any]], Result]:
    """Every property that insights and recommendations name, with its values; the insights by topic; the result."""
    found = result(case, job)
    keys: dict[str, set[str]] = {}
    for table, value in (("insights", "setting"), ("recommendations", "value")):
        for key, setting in found.tables[table].select("key", value).iter_rows():
            if key:
                keys.setdefault(key, set()).add(setting)
    return keys, {row["topic"]: row for row in found.tables["insights"].iter_rows(named=True)}, found


@pytest.mark.parametrize(
    ("case", "job", "never"),
    (
        ("already-dynamic", "0010", ("spark.dynamicAllocation.enabled", "spark.executor.instances")),
        ("fixed-unused", "0011", ("spark.dynamicAllocation",)),
        ("scan-spill", "0004", ("spark.sql.shuffle.partitions",)),
        ("both-ways", "0006", ("spark.executor.memory",)),
        ("cancelled-stage", "0003", ("spark.default.parallelism", "spark.executor.instances")),
    ),
)
def test_settings_that_do_not_act_are_not_advised(case: str, job: str, never: tuple[str, ...]) -> None:
    keys, insights, _ = asked(case, ID + job)
    assert not [key for key in keys if key.startswith(never)]
    assert case != "cancelled-stage" or not {"few tasks", "ideal executors"} & set(insights)


def test_values_are_what_spark_takes_and_present_ones_what_is_in_force() -> None:
    heaps = asked("small-heap", f"{ID}0007")[0]["spark.executor.memory"]
    assert all(int(heap.removesuffix("m")) >= 450 for heap in heaps)
    rows = result("rdd-partitions", f"{ID}0012").tables["recommendations"]
    assert rows.filter(topic="partitions")["current"].to_list() == ["20"]


def test_errors_end_in_the_line_that_python_raised() -> None:
    _, insights, found = asked("python-error", f"{ID}0015")
    cause = "KeyError: 'customer_id'"
    assert cause in insights["failed attempts"]["reason"] and found.tables["jobs"]["error"].to_list() == [cause]
    assert set(found.tables["spark_tasks"].drop_nulls("error")["error"]) == {cause}
    assert [one.text.startswith(cause) for one in found.findings if one.level == "critical"] == [True]


def test_what_is_not_known_or_was_asked_for_is_no_finding() -> None:
    assert "CPU" not in asked("python-cpu", f"{ID}0016")[1]
    assert "lost executors" not in asked("given-back", f"{ID}0009")[1]
    assert result("resubmitted", f"{ID}0008").tables["stages"]["active"].to_list() == [0]
    costs = result("standalone").tables["costs"]
    held = costs.filter(costs["cause"] != "driver")["mb_ms"].sum()
    executors = result("standalone", "app-20251015120000-0005").tables["executors"]
    assert held == 4096 * executors.filter(executors["executor"] != "driver")["life_ms"].sum()


@pytest.mark.parametrize(("case", "tasks"), (("databricks-parts", 20), ("databricks-file", 24)))
def test_logs_of_databricks_are_one_application(case: str, tasks: int) -> None:
    (job,) = result(case).tables["jobs"]["job_id"].to_list()
    found = result(case, job)
    assert job.startswith("app-") and found.tables["spark_tasks"].height == tasks and not found.problems
