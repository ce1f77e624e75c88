"""Runs of the sides: patterns, ranges, usual sides."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.core.view import NoInput
from engine.run_comparison.runs.selection import put
from tests.engine.run_comparison.folder import compute
from tests.engine.run_comparison.jobs import api_file, two_jobs, write_run

SIDES: dict[str, Any] = {"left": ("left-job",), "right": ("right-job",)}


def test_failed_and_unfinished_runs_are_marked_and_selectable(tmp_path: Path) -> None:
    root = two_jobs(tmp_path, [100.0] * 4, [100.0] * 4)
    write_run(root, "left-job", 300, {"APIResponsiveness_load_T.json": api_file(7.0)}, result="FAILURE", hour=30)
    write_run(root, "left-job", 301, {"APIResponsiveness_load_T.json": api_file(8.0)}, result=None, hour=31)
    runs = compute(root, draws=20, **SIDES).tables["runs"]
    shown = {row["run"]: row for row in runs.filter(pl.col("job") == "left-job").iter_rows(named=True)}
    assert (shown["300"]["result"], shown["300"]["side"]) == ("FAILURE", "")
    assert (shown["301"]["result"], shown["301"]["side"]) == ("unfinished", "")
    picked = compute(root, draws=20, left=("left-job", "left-job/300", "!left-job/100"), right=("right-job",))
    assert [run.number for run in picked.detail.left] == [103, 102, 101, 300]
    everything = compute(root, draws=20, include_failed=True, **SIDES)
    assert [run.number for run in everything.detail.left] == [301, 300, 103, 102, 101, 100]


def test_ranges_and_patterns(tmp_path: Path) -> None:
    root = two_jobs(tmp_path, [100.0] * 5, [100.0] * 5)
    result = compute(root, draws=20, left=("left-job/101..103",), right=("right-*",))
    assert [run.number for run in result.detail.left] == [103, 102, 101]
    assert len(result.detail.right) == 5
    with pytest.raises(NoInput, match="jobs: left-job, right-job"):
        compute(root, left=("nope",), right=("right-job",))


def test_one_job_is_halved_by_time(tmp_path: Path) -> None:
    for i in range(6):
        write_run(tmp_path, "only", 10 + i, {"APIResponsiveness_load_T.json": api_file(100.0 + i)}, hour=i)
    result = compute(tmp_path, draws=20)
    assert [run.number for run in result.detail.right] == [15, 14, 13]
    assert [run.number for run in result.detail.left] == [12, 11, 10]


def _bench(path: Path, ns: float, hour: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"BenchmarkSum 10 {ns + i} ns/op\n" for i in range(6)))
    os.utime(path, (1_700_000_000 + 3600 * hour,) * 2)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("old.txt", "new.txt"), ("before/k.txt", "after/k.txt"), ("master/k.txt", "tune-gc/k.txt"), ("x-base.txt", "x-head.txt"),
        ("v1.9.0.txt", "v1.10.0.txt"), ("2026-01-30.txt", "2026-02-01.txt"), ("main/1/k.txt", "pr-7/1/k.txt"),
        ("BASELINE/r/a/k.txt", "Candidate/r/a/k.txt"), ("3.9/a/k.txt", "3.10/a/k.txt"),
    ],
)  # fmt: skip
def test_names_tell_the_sides_whatever_the_times_of_the_files(first: str, second: str, tmp_path: Path) -> None:
    _bench(tmp_path / first, 100.0, 5)
    _bench(tmp_path / second, 300.0, 1)
    result = compute(tmp_path, draws=20)
    (row,) = result.tables["metrics"].iter_rows(named=True)
    assert row["effect"] == "worse" and row["ratio"] > 2.5, result.notes


def test_where_only_the_times_of_files_tell_nothing_is_called_better(tmp_path: Path) -> None:
    _bench(tmp_path / "elm.txt", 300.0, 1)
    _bench(tmp_path / "oak.txt", 100.0, 5)
    result = compute(tmp_path, draws=20)
    assert "the times of their files" in result.notes[0]
    (finding,) = (one for one in result.findings if one.row)
    assert finding.level == "moderate" == result.headline[0].level
    assert "set left and right" in finding.text and "better" not in finding.text
    told = compute(tmp_path, draws=20, left=("*/elm",), right=("*/oak",))
    assert [one.level for one in told.findings if one.row] == ["ok"]


def test_putting_runs_on_sides() -> None:
    assert put(("a",), ("b",), [("a", "1")], "right") == (("a", "!a/1"), ("b", "a/1"))
    assert put(("a", "!a/1"), ("b", "a/1"), [("a", "1")], "left") == (("a", "a/1"), ("b",))
    assert put(("a",), ("b",), [("a", "1"), ("a", "2")], "") == (("a", "!a/1", "!a/2"), ("b",))
    assert put(("a", "!a/1"), ("b",), (), "right", ["a"]) == ((), ("b", "a"))


def test_usual_sides_have_most_in_common(tmp_path: Path) -> None:
    two_jobs(tmp_path, [100.0] * 3, [100.0] * 3)
    lines = ["time,latency", *(f"2024-01-{day:02d},{day}" for day in range(1, 29))]
    (tmp_path / "nightly.csv").write_text("\n".join(lines))
    result = compute(tmp_path, draws=20)
    assert (result.summary["left"], result.summary["right"]) == ("left-job", "right-job")


def test_sides_that_share_nothing_are_undecided(tmp_path: Path) -> None:
    write_run(tmp_path, "left-job", 1, {"APIResponsiveness_load_T.json": api_file(1.0, Resource="a")})
    write_run(tmp_path, "right-job", 1, {"APIResponsiveness_load_T.json": api_file(1.0, Resource="b")})
    for mode in ("statistical", "published"):
        result = compute(tmp_path, mode=mode, draws=20, **SIDES)
        assert (result.summary["total"], result.summary["pass"], result.summary["share"]) == (0, None, None)
    assert compute(tmp_path, mode="upstream", **SIDES).summary["pass"] is True


def test_neighbouring_runs_are_named_as_a_range(tmp_path: Path) -> None:
    for i in range(10):
        result = "FAILURE" if i == 4 else "SUCCESS"
        files = {"APIResponsiveness_load_T.json": api_file(100.0 + i)}
        write_run(tmp_path, "only", 10 + i, files, hour=i, result=result)
    halves = compute(tmp_path, draws=20)
    assert (halves.summary["left"], halves.summary["right"]) == ("only/10..15", "only/16..19")
    assert [run.number for run in halves.detail.left] == [15, 13, 12, 11, 10]
    singly = compute(
        tmp_path,
        draws=20,
        left=tuple(f"only/{i}" for i in (10, 11, 12, 14)),
        right=tuple(f"only/{i}" for i in (16, 18)),
    )
    assert singly.summary["left"] == "only/10..12, only/14"
    assert singly.summary["right"] == "only/16, only/18"
    assert [run.number for run in singly.detail.left] == [10, 11, 12, 14]
    over_failed = compute(tmp_path, draws=20, left=tuple(f"only/{i}" for i in (13, 14, 15)), right=("only/16..19",))
    assert over_failed.summary["left"] == "only/13, only/14, only/15"  # a range would leave the failed run out
