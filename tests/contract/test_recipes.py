"""The recipes of CONTRIBUTING, followed to the letter in a copy of the repository."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = (
    "engine",
    "tui",
    "sample_data",
    "tests",
    "docs",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
)
BLOCK = re.compile(
    r"^```python\n# (?P<path>[\w/.]+)(?:, below: (?P<line>[^\n]+)|(?P<end>, at the end))?\n(?P<body>.*?)^```",
    re.M | re.S,
)


def recipe(title: str) -> str:
    """The text of one recipe of CONTRIBUTING."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.M)
    return next(section for section in sections if section.startswith(f"Recipe: {title}\n"))


def follow(title: str, house: Path) -> list[Path]:
    """Write what the code blocks of a recipe say into a copy of the repository; returns the files written."""
    written = []
    for block in BLOCK.finditer(recipe(title)):
        path = house / block["path"]
        if block["line"]:
            before, line, after = path.read_text(encoding="utf-8").partition(block["line"] + "\n")
            assert line, f"{block['path']} has no line {block['line']!r}"
            path.write_text(before + line + block["body"] + after, encoding="utf-8")
        elif block["end"]:
            path.write_text(path.read_text(encoding="utf-8") + "\n\n" + block["body"], encoding="utf-8")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block["body"], encoding="utf-8")
        written.append(path)
    assert written
    return written


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the repository to build in."""
    copy = tmp_path / "house"
    copy.mkdir()
    skipped = shutil.ignore_patterns("__pycache__", "*.svg", ".*_cache")
    for name in COPIED:
        source = ROOT / name
        (shutil.copytree(source, copy / name, ignore=skipped) if source.is_dir() else shutil.copy(source, copy / name))
    return copy


def run(house: Path, *words: str) -> str:
    """Run Python in the copy; returns what it printed."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=house,
        env={"PATH": "/usr/bin:/bin", "HOME": str(house / "home"), "PYTHONPATH": str(house)},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def lint(house: Path, written: list[Path]) -> None:
    """Hold what was written to ruff's rules and format."""
    run(house, "-m", "ruff", "check", *(str(path) for path in written if "tests" not in path.parts))
    run(house, "-m", "ruff", "format", "--check", *map(str, written))


PLAIN = ("-n0", "-q", "-p", "no:cacheprovider")


def test_a_view(house: Path) -> None:
    written = follow("a view", house)
    lint(house, written)
    run(house, "-c", "from importlinter.cli import lint_imports_command as lint; lint()")
    run(house, "-m", "pytest", *PLAIN, "tests/engine/disk_usage", "tests/contract/test_house.py")
    contracts = [f"tests/contract/test_{name}.py" for name in ("every_view", "recognition", "origins")]
    run(house, "-m", "pytest", *PLAIN, *contracts, "-k", "disk-usage")
    data = house / "data"
    data.mkdir()
    (data / "x.du").write_text("30\t/a\n10\t/b\n")
    assert '"share": 0.75' in run(house, "-m", "tui", "report", "disk-usage", str(data), "--no-cache")
    assert run(house, "-m", "tui", "check", "disk-usage", str(data), "--no-cache", "-o", "limit=0.8") == ""


def test_a_reader_format(house: Path) -> None:
    written = follow("a reader format", house)
    lint(house, written)
    run(house, "docs/make_reference.py")
    assert "vegeta" in (house / "docs" / "reference" / "files.md").read_text(encoding="utf-8")
    tests = [str(path) for path in written if path.name.startswith("test_")]
    run(house, "-m", "pytest", *PLAIN, *tests, "tests/contract/test_recognition.py", "tests/contract/test_house.py")
    report = runpy.run_path(str(house / "tests" / "contract" / "file_samples.py"))["SAMPLES"]["run-comparison"][
        "vegeta"
    ][1]
    for side, rate in (("left", 100), ("right", 50)):
        for number in range(5):
            folder = house / "data" / side / str(number)
            folder.mkdir(parents=True)
            (folder / "report.json").write_bytes(report.replace(b"101.5", str(rate + number).encode()))
    words = ("-o", "left=left", "-o", "right=right", "--table", "metrics", "--no-cache")
    metrics = json.loads(run(house, "-m", "tui", "report", "run-comparison", str(house / "data"), *words))
    row = next(row for row in metrics["tables"]["metrics"] if row["resource"] == "throughput")
    assert (row["unit"], row["direction"], row["effect"]) == ("requests/s", "higher", "worse")


def test_a_heuristic(house: Path) -> None:
    written = follow("a heuristic", house)
    assert len(written) == 2, "one file and its test"
    lint(house, written)
    run(house, "-m", "pytest", *PLAIN, str(written[1]))
