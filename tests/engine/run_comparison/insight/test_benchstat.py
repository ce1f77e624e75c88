"""The p-values of measured Go benchmarks are benchstat's."""

from __future__ import annotations

import csv
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.engine.run_comparison.folder import compute
from tests.reference import reference


def test_benchstat_p_values_of_measured_benchmarks() -> None:
    folder = reference("run-comparison")
    result = compute(
        folder / "real" / "measured" / "gobench",
        mode="statistical",
        draws=10,
        left=("left/1..3",),
        right=("right/1..3",),
    )
    rows = {(r["verb"], r["bucket"]): r for r in result.tables["metrics"].iter_rows(named=True)}
    text = (folder / "real-expected-benchstat-measured.csv").read_text()
    checked = 0
    for block in text.split("\n\n"):
        lines = block.splitlines()
        head = next(i for i, line in enumerate(lines) if line.endswith("vs base,P"))
        unit = lines[head].split(",")[1]
        for line in lines[head + 1 :]:
            cells = line.split(",")
            if cells[0] == "geomean" or "p=" not in cells[-1]:
                continue
            wanted = float(cells[-1].split()[0].removeprefix("p="))
            assert rows[cells[0], unit]["p_value"] == pytest.approx(wanted, abs=6e-4)
            checked += 1
    assert checked == 5


def test_benchstat_p_values_of_a_month_of_benchmarks(tmp_path: Path) -> None:
    folder = reference("run-comparison")
    with tarfile.open(folder / "real" / "go-benchseries-even.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    result = compute(
        tmp_path, left=("Go1.17-*",), right=("*-opt.*", "!Go1.17-*"), select="all", draws=0, change_limit=0
    )
    assert (result.summary["runs_left"], result.summary["runs_right"]) == (13, 13)
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in result.tables["metrics"].iter_rows(named=True):
        rows.setdefault((row["verb"], row["bucket"]), []).append(row)
    unit, checked = "", 0
    with (folder / "real-expected-benchstat-benchseries-even.csv").open(newline="") as lines:
        for cells in csv.reader(lines):
            if cells and cells[-1] == "P":
                unit = cells[1]
            elif cells and "p=" in cells[-1]:
                found = [
                    row
                    for (name, bucket), same in rows.items()
                    if bucket == unit and cells[0] in (name, name.rpartition("-")[0])
                    for row in same
                ]
                assert len(found) == 1, cells
                assert found[0]["p_value"] == pytest.approx(float(cells[-1].split()[0][2:]), abs=6e-4), cells
                checked += 1
    assert checked > 400
