"""Folders that no CI made: which of their files are runs, of which jobs, and by which names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.run_comparison.runs.layout import short_names
from tests.engine.run_comparison.folder import compute


def test_layouts_without_ci_marks(tmp_path: Path) -> None:
    for side, factor in (("left", 1.0), ("right", 2.0)):
        for run in range(1, 7):
            folder = tmp_path / "hyper" / side / str(run)
            folder.mkdir(parents=True)
            times = [factor * (1 + run / 100 + i / 1000) for i in range(3)]
            (folder / "r.json").write_text(json.dumps({"results": [{"command": "a", "times": times}]}))
    result = compute(tmp_path, mode="statistical", draws=100)
    assert (result.summary["left"], result.summary["right"]) == ("left", "right")
    (row,) = result.tables["metrics"].iter_rows(named=True)
    assert (row["n_left"], row["runs_left"], row["verdict"], row["effect"]) == (18, 6, "different", "worse")
    assert row["ratio"] == pytest.approx(2.0, rel=0.05)


def test_files_beside_each_other_are_runs_by_name(tmp_path: Path) -> None:
    for name, base in (("old", 100), ("new", 100)):
        lines = [f"BenchmarkA {i} {base + i} ns/op" for i in range(1, 9)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    result = compute(tmp_path, left=("old",), right=("new",), mode="statistical", draws=10)
    (row,) = result.tables["metrics"].iter_rows(named=True)
    assert (row["unit"], row["bucket"], row["p_value"]) == ("sec/op", "sec/op", 1.0)
    assert row["mean_left"] == pytest.approx(104.5e-9)


def test_names_with_dots_are_runs_of_their_own(tmp_path: Path) -> None:
    for name in ("Go1.17-a", "Go1.17-b", "tip.1.txt", "tip.2.txt"):
        (tmp_path / name).write_text("BenchmarkA 1 5 ns/op\nBenchmarkA 1 6 ns/op\n")
    result = compute(tmp_path, left=("Go1.17-*",), right=("tip.*",), draws=0)
    assert set(result.tables["runs"]["run"]) == {"Go1.17-a", "Go1.17-b", "tip.1", "tip.2"}


def test_short_names_of_jobs() -> None:
    jobs = [("/", "a", "x"), ("/", "b", "x"), ("/", "b", "y")]
    assert short_names(jobs) == {jobs[0]: "a/x", jobs[1]: "b/x", jobs[2]: "y"}
