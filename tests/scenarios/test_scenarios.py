"""Situations of operators, and what loadlens says in them: one readable table per view (``VIEW.toml``), run row by row.

A row of the table::

    [[scenario]]
    situation = "A rack holds every replica of two partitions"
    known = "counted in the file: both partitions are left without a leader"
    files = "rack-not-survivable"
    options = ["fail=3"]
    headline = ["worst loss: rack b, 2 partitions without a leader [CRITICAL]"]
    findings = ["critical rack b: its loss leaves 2 partitions without a leader"]
    says = ["replication factor 3 assumed"]
    silent = ["survivable"]
    exit = 1

``situation`` is one plain sentence; ``known`` says how the right answer is known. ``files`` names a folder in
``tests/scenarios/VIEW/``, or is a table of file names and contents. ``options`` are what follows ``-o``. ``arguments``
name the paths below the folder in their order, where that matters; otherwise the folder itself is read. ``headline``
lists the numbers of the headline that matter, as the text report prints them; ``findings`` are all lines of ``check``, in
their order, from the level "low" on. ``says`` and ``silent`` are words that the text report must and must not hold.
``exit`` is the exit code of ``check`` without ``--fail-on``. ``at`` is the moment of the report.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tui.__main__ import main
from tui.cli import report as report_command
from tui.cli.compute import Computation, compute

HERE = Path(__file__).parent
TABLES = sorted(HERE.glob("*.toml"))
KEYS = {"situation", "known", "files", "options", "arguments", "headline", "findings", "says", "silent", "exit", "at"}
CODE = "".join(path.read_text("utf-8") for part in ("engine", "tui") for path in Path(part).rglob("*.py"))
COUNTED = {
    found[1] + "s"
    for found in re.finditer(r"""plural\([^"'()]*(?:\([^"'()]*\))?[^"'()]*, ["'](?:[\w-]+ )*(\w+)["']\)""", CODE)
}
COUNTED |= {
    "queries",
    "entries",
    "vertices",
    "classes",
    "batches",
    "records",
    "executors",
    "maps",
    "reducers",
    "samples",
}
ONE_OF_SEVERAL = re.compile(rf"(?<![\w.,:/=×(-])1 (?:[a-z-]+ )?(?:{'|'.join(sorted(COUNTED))})\b")
"""A plural after a single one, of any noun that is counted somewhere: ``1 partitions``."""
ROWS = [(table.stem, row) for table in TABLES for row in tomllib.loads(table.read_text("utf-8"))["scenario"]]


def _paths(view: str, row: dict[str, Any], folder: Path) -> list[str]:
    files = row["files"]
    if isinstance(files, str):
        folder = HERE / view / files
        assert folder.is_dir(), f"no folder {folder}"
    else:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
    return [str(folder / name) for name in row.get("arguments", [""])]


@pytest.mark.parametrize(("view", "row"), ROWS, ids=[f"{view}: {row['situation']}" for view, row in ROWS])
def test_what_is_said(
    view: str, row: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(row) <= KEYS
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    name = view.replace("_", "-")
    folder = tmp_path / "input"
    folder.mkdir()
    common = [name, *_paths(view, row, folder), "--no-cache", *(w for o in row.get("options", ()) for w in ("-o", o))]
    common += ["--at", row["at"]] if "at" in row else []

    computed: list[Computation] = []

    def compute_once(arguments: argparse.Namespace) -> Computation:
        """The three commands differ in what they print only."""
        computed.extend([] if computed else [compute(arguments)])
        return computed[0]

    monkeypatch.setattr(report_command, "compute", compute_once)
    code = main(["check", *common])
    capsys.readouterr()
    main(["check", *common, "--fail-on", "low"])
    findings = capsys.readouterr().out.splitlines()
    main(["report", *common, "--format", "text"])
    report = capsys.readouterr().out
    head = report.splitlines()[2:]

    assert [found[0] for text in (report, *findings) for found in ONE_OF_SEVERAL.finditer(text)] == []
    expected = [f"{level.upper()} {rest}" for level, _, rest in (f.partition(" ") for f in row["findings"])]
    assert findings == expected
    assert [line for line in row["headline"] if line not in head] == []
    assert [words for words in row.get("says", ()) if words not in report] == []
    assert [words for words in row.get("silent", ()) if words in report] == []
    assert code == row["exit"]


def test_every_row_is_a_situation_of_its_own() -> None:
    said = [(view, row["situation"]) for view, row in ROWS]
    assert len(set(said)) == len(said)
