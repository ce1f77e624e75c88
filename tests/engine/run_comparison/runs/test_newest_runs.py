"""What is left out of long histories of runs: the newest are those that a history without the others gives."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from engine.core.incremental import Memo
from engine.core.view import Context
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.runs.measurements import Measurements
from engine.run_comparison.view import VIEW
from tests.engine.run_comparison.folder import compute, read_folder
from tests.engine.run_comparison.jobs import api_file, write_run

SIDES: dict[str, Any] = {"left": ("left-job",), "right": ("right-job",), "select": "all"}


def two_long_jobs(root: Path, count: int) -> None:
    """Runs 1 to ``count`` of two jobs."""
    for job in ("left-job", "right-job"):
        for number in range(1, count + 1):
            write_run(root, job, number, {"APIResponsiveness_load_T.json": api_file(100.0 + number)}, hour=number)


def values_held(memo: Memo) -> int:
    """Values of all files that are held."""
    measurements = memo.state("measurements", Measurements)
    return sum(chunk.values.size for chunks in measurements.of_file.values() for chunk in chunks)


def test_older_runs_are_left_out_with_a_note(tmp_path: Path) -> None:
    two_long_jobs(tmp_path, 9)
    memo = Memo()
    inputs = read_folder(tmp_path)
    everything = compute(inputs, memo, **SIDES)
    assert not any("left out" in note for note in everything.notes)
    held = values_held(memo)
    found = compute(inputs, memo, max_runs=4, **SIDES)
    assert "the oldest 10 of 18 runs are left out (max-runs)" in found.notes
    assert values_held(memo) * 9 == held * 4
    assert compute(inputs, memo, max_runs=4, **SIDES).same_as(found)
    assert compute(inputs, memo, **SIDES).same_as(everything)  # all are read again
    for job in ("left-job", "right-job"):
        for number in range(1, 6):
            shutil.rmtree(tmp_path / job / str(number))
    short = compute(tmp_path, **SIDES)
    for name in ("metrics", "runs"):
        assert found.tables[name].equals(short.tables[name])


def test_memory_bounds_the_runs_with_a_note(tmp_path: Path) -> None:
    two_long_jobs(tmp_path, 30)
    inputs = read_folder(tmp_path)
    found = VIEW.compute(inputs, ComparisonParameters(**SIDES), Context(now_ms=0, memory=100))
    assert found.tables["runs"].height == 40  # twenty of each job in any case
    assert "the oldest 20 of 60 runs are left out (memory-mb)" in found.notes
