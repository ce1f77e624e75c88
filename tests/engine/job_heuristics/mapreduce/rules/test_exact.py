"""Every job of the reference data, number for number and word for word, as upstream computed it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.core.parameters import Attachment
from engine.core.view import Context, Result
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.view import VIEW
from tests.engine.job_heuristics.helper import badly_told, inputs_below, inputs_of, read_bytes
from tests.reference import reference


def compute(*roots: Path, **parameters: Any) -> Result:
    result = VIEW.compute(inputs_below(*roots), JobParameters(**parameters), Context(0))
    assert badly_told(result.findings) == []
    return result


@cache
def history(name: str) -> Result:
    return compute(reference("job-heuristics") / name)


def compare(result: Result, expected: dict[str, Any], *, metrics: bool = True, counted: bool = True) -> None:
    job = expected["job_id"]
    found = result.tables["jobs"].filter(pl.col("job_id") == job).to_dicts()
    assert len(found) == 1, job
    row = found[0]
    if "exception" in expected:
        assert row["upstream_says"], job
        return
    said = {
        "user": row["user"],
        "job_type": row["job_type"],
        "submit_time_ms": row["submit_ms"],
        "launch_time_ms": row["launch_ms"],
    }
    assert said == {k: expected[k] for k in said}
    numbers = {k: expected["metrics"][k] for k in ("used_mb_sec", "wasted_mb_sec")}
    assert {"used_mb_sec": row["used_mb_s"], "wasted_mb_sec": row["wasted_mb_s"]} == numbers
    if metrics:
        assert (row["wait_ms"], row["runtime_ms"]) == (
            expected["metrics"]["wait_ms"],
            expected["metrics"]["runtime_ms"],
        )
        if counted:
            assert (row["maps"], row["reduces"]) == (expected["num_mappers"], expected["num_reducers"])
        assert row["finish_ms"] == expected["finish_time_ms"]
    assert (row["severity"], row["score"]) == (expected["severity"].upper(), expected["score"])
    verdicts = {
        h["heuristic"]: (h["severity"], h["score"], json.loads(h["details"]))
        for h in result.tables["heuristics"].filter(pl.col("job_id") == job).to_dicts()
    }
    wanted = {h["name"]: (h["severity"].upper(), h["score"], h["details"]) for h in expected["heuristics"]}
    assert verdicts == wanted
    assert list(verdicts) == [h["name"] for h in expected["heuristics"]]


def tags(folder: str) -> list[str]:
    import os

    root = os.environ.get("LOADLENS_REFERENCE_DATA")
    if not root:
        return ["reference"]
    return sorted(p.stem for p in (Path(root) / "job-heuristics" / folder).glob("*.json"))


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("tag", tags("expected"))
def test_history(tag: str) -> None:
    compare(history("history"), load(reference("job-heuristics") / "expected" / f"{tag}.json"))


def test_exact_words_of_upstream_where_it_throws() -> None:
    folder = reference("job-heuristics")
    says = dict(history("history").tables["jobs"].select("job_id", "upstream_says").iter_rows())
    for path in sorted((folder / "expected").glob("*.json")):
        expected = load(path)
        wanted = expected.get("exception", "")
        if "JsonParseException" in wanted:
            assert says[expected["job_id"]].startswith("java.lang.RuntimeException: Could not parse history file ")
        else:
            assert says[expected["job_id"]] == wanted


@pytest.mark.parametrize("number", range(8))
def test_odd_job(number: int) -> None:
    """Jobs with one odd thing each. Dr. Elephant shows all of them."""
    root = reference("job-heuristics") / "odd"
    expected = [json.loads(line) for line in read_bytes(root / "expected-cases.jsonl.gz").splitlines()]
    assert len(expected) == 8
    result = odd_cases()
    compare(result, {"user": "ann", **expected[number]}, counted=False)
    says = dict(result.tables["jobs"].select("job_id", "upstream_says").iter_rows())
    assert says[expected[number]["job_id"]] == ""


@cache
def odd_cases() -> Result:
    """All at once: no job spoils another one."""
    return compute(reference("job-heuristics") / "odd" / "cases")


@pytest.mark.parametrize("folder", ["history-hadoop3-json", "history-hadoop3-binary"])
def test_hadoop_3(folder: str) -> None:
    root = reference("job-heuristics")
    result = history(folder)
    assert result.tables["jobs"].height == 5
    assert not result.problems
    jobs = set(result.tables["jobs"]["job_id"])
    for path in sorted((root / "expected").glob("*.json")):
        expected = load(path)
        if expected["job_id"] in jobs:
            compare(result, expected)


@pytest.mark.parametrize("tag", tags("expected-rest"))
def test_rest(tag: str) -> None:
    compare(history("rest"), load(reference("job-heuristics") / "expected-rest" / f"{tag}.json"))


@pytest.mark.parametrize("tag", tags("expected-custom"))
def test_custom_thresholds(tag: str) -> None:
    root = reference("job-heuristics")
    conf = root / "expected-custom" / "HeuristicConf.xml"
    expected = load(root / "expected-custom" / f"{tag}.json")
    compare(custom(conf, expected["hdfs_block_size_bytes"]), expected)


@cache
def custom(conf: Path, block_size: int) -> Result:
    chosen = Attachment("HeuristicConf.xml", conf.read_bytes())
    return compute(reference("job-heuristics") / "history", heuristic_conf=chosen, block_size=block_size)


@pytest.mark.parametrize("tag", tags("expected"))
def test_job_queue_limit(tag: str) -> None:
    root = reference("job-heuristics")
    expected = load(root / "expected" / f"{tag}.json")
    if "not_enabled_by_default" not in expected:
        return
    result = queue_limit()
    found = (
        result.tables["heuristics"]
        .filter((pl.col("job_id") == expected["job_id"]) & (pl.col("heuristic") == "Job Queue Limit"))
        .to_dicts()
    )
    (wanted,) = expected["not_enabled_by_default"]
    if tag == "empty":
        # Run on its own it gives a result; in the whole analysis a job without tasks gets only "No Data Received".
        assert found == []
        return
    (row,) = found
    assert (row["severity"], row["score"]) == (wanted["severity"].upper(), wanted["score"])
    assert json.loads(row["details"]) == wanted["details"]


@cache
def queue_limit() -> Result:
    return compute(reference("job-heuristics") / "history", queue_limit=True)


@pytest.mark.parametrize("tag", ["in-progress-s", "in-progress-cut-line-s"])
def test_running(tag: str) -> None:
    root = reference("job-heuristics")
    expected = load(root / "partial" / f"{tag}.finished-so-far.json")
    result = history("history")
    compare(result, expected, metrics=False)
    row = result.tables["jobs"].filter(pl.col("job_id") == expected["job_id"]).to_dicts()[0]
    progress = expected["progress"]
    assert row["state"] == "RUNNING"
    assert (row["finish_ms"], row["wait_ms"], row["runtime_ms"]) == (None, None, None)
    for ours, theirs in (
        ("maps", "total_maps"),
        ("reduces", "total_reduces"),
        ("maps_finished", "maps_finished"),
        ("reduces_finished", "reduces_finished"),
        ("attempts_running", "attempts_running"),
    ):
        assert row[ours] == progress[theirs]


def real_files() -> dict[str, bytes]:
    root = reference("job-heuristics") / "real"
    files: dict[str, bytes] = {}
    for folder in ("dr-elephant", "hadoop", "hraven", "eagle"):
        files.update({str(p).removesuffix(".gz"): read_bytes(p) for p in (root / folder).rglob("*") if p.is_file()})
    minimal = (root / "minimal_conf.xml").read_bytes()
    for job in ("job_1399356417814_19732", "job_1400204860297_0001", "job_1410289045532_259974"):
        files[f"/conf/{job}_conf.xml"] = minimal
    return files


@cache
def real() -> Result:
    return VIEW.compute(inputs_of(real_files()), JobParameters(), Context(0))


@pytest.mark.parametrize("tag", tags("real/expected"))
def test_real(tag: str) -> None:
    expected = load(reference("job-heuristics") / "real" / "expected" / f"{tag}.json")
    compare(real(), expected)
    if "exception" in expected:
        says = dict(real().tables["jobs"].select("job_id", "upstream_says").iter_rows())
        assert says[expected["job_id"]] == expected["exception"]


def test_real_files_are_all_listed() -> None:
    jobs = real().tables["jobs"]
    assert jobs.height == 11
    states = dict(jobs.select("job_id", "state").iter_rows())
    assert states["job_1410289045532_259974"] == "RUNNING"
    assert states["job_1479206441898_30784"] == "RUNNING"
    running = jobs.filter(pl.col("job_id") == "job_1479206441898_30784").to_dicts()[0]
    assert (running["maps"], running["maps_finished"], running["attempts_running"]) == (161, 57, 104)
    assert running["used_mb_s"] is None
    kinds = {(p.path.rsplit("/", 1)[-1][:26], p.kind) for p in real().problems}
    assert ("job_1479206441898_508949-1", "text-before-header") in kinds
    assert ("job_1479206441898_508949-1", "bad-record") in kinds
