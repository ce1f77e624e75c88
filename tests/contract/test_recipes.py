"""The recipes of ``docs/recipes``, followed to the letter in a copy of the repository."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = (
    "engine",
    "tui",
    "sample_data",
    "tests",
    "docs",
    "packaging",
    "share",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
)
RECIPES = ("view", "reader")
BYTECODE = Path(sys.pycache_prefix) if sys.pycache_prefix else None
"""Where bytecode is kept, unless it lies beside its sources: the copy need not compile what it does not change."""
BLOCK = re.compile(
    r"^```python\n# (?P<path>[\w/.]+)(?:, below: (?P<line>[^\n]+)|(?P<end>, at the end))?\n(?P<body>.*?)^```",
    re.M | re.S,
)


def recipe(title: str) -> str:
    return (ROOT / "docs" / "recipes" / f"{title}.md").read_text(encoding="utf-8")


def written(house: Path) -> list[Path]:
    """What the recipes write or extend in a copy of the repository."""
    return sorted({house / block["path"] for title in RECIPES for block in BLOCK.finditer(recipe(title))})


def follow(title: str, house: Path) -> None:
    """Write what the code blocks of a recipe say into a copy of the repository."""
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


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the repository in which all recipes were followed."""
    copy = tmp_path_factory.mktemp("recipes") / "house"
    copy.mkdir()
    skipped = shutil.ignore_patterns(".*_cache", "actual")
    for name in COPIED:
        source = ROOT / name
        (shutil.copytree(source, copy / name, ignore=skipped) if source.is_dir() else shutil.copy(source, copy / name))
        if BYTECODE is not None and (BYTECODE / source.relative_to("/")).is_dir():
            shutil.copytree(BYTECODE / source.relative_to("/"), BYTECODE / (copy / name).relative_to("/"))
    for title in RECIPES:
        follow(title, copy)
    run(copy, "docs/make_reference.py")
    yield copy
    if BYTECODE is not None:
        shutil.rmtree(BYTECODE / copy.relative_to("/"), ignore_errors=True)


def run(house: Path, *words: str) -> str:
    """Run Python in the copy; returns what it printed."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=house,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(house / "home"),
            "PYTHONPATH": str(house),
            "LOADLENS_EXAMPLES": "0.2",
            **({"PYTHONPYCACHEPREFIX": str(BYTECODE)} if BYTECODE is not None else {}),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_the_recipes_write_keeps_the_rules(house: Path) -> None:
    run(house, "-m", "ruff", "check", *(str(path) for path in written(house)))
    run(house, "-m", "ruff", "format", "--check", *(str(path) for path in written(house)))
    run(house, "-c", "from importlinter.cli import lint_imports_command as lint; lint()")


EXPECTED = {
    "view": (
        r"test_every_view.py::\S+\[disk-usage\S*\]", r"test_recognition.py::\S+\[disk-usage\S*\]",
        r"disk_usage/test_view.py::\S+",
    ),
    "reader": (
        r"test_fuzz.py::\S+\[bombardier\]", r"test_linear_time.py::\S+\[run-comparison-bombardier\]",
        r"test_recognition.py::\S+\[run-comparison/bombardier\]",
        r"test_recognition.py::test_a_file_is_taken_by_the_readers_expected\[run-comparison\]", r"test_bombardier.py::\S+",
        r"test_patterns.py::\S+", r"test_docs.py::\S+", r"test_house.py::\S+",
    ),
}  # fmt: skip
"""Tests that the printed check of a recipe runs, among others."""


def printed_tests(title: str) -> list[str]:
    """The words behind ``uv run pytest`` in the check that a recipe prints."""
    check = recipe(title).partition("**Check")[2].split("```")[1].replace("\\\n", " ")
    (line,) = (line for line in check.splitlines() if line.startswith("uv run pytest "))
    return shlex.split(line)[3:]


@pytest.fixture(scope="module")
def checked(house: Path) -> str:
    """What the tests of all printed checks print, in one run since the start takes longest."""
    paths, chosen = [], []
    for title in RECIPES:
        words = printed_tests(title)
        at = words.index("-k") if "-k" in words else len(words)
        paths += words[:at]
        chosen += words[at + 1 :] or [Path(path).stem for path in words]
    follows_again = f"--ignore={Path(__file__).relative_to(ROOT)}"
    # The copy has no pages and picture of the new view, its generated pages were just made, and it may be larger than ours.
    # What takes seconds for the whole tree and hardly ever concerns what a recipe adds is left to the suite.
    left_out = (
        "readme_shows_every_view", "has_a_guide", "pages_are_current", "does_not_grow", "takes_linear_time",
        "its_own_bases_stays_small", "are_written_in_the_code", "broker-load", "job-heuristics", "query-profile",
        "ring-placement",
    )  # fmt: skip
    wanted = f"({' or '.join(chosen)}) and not {' and not '.join(left_out)}"
    paths = [path for path in dict.fromkeys(paths) if not any(Path(other) in Path(path).parents for other in paths)]
    # Files of its own, or it would also delete those of earlier runs. Rewriting the asserts of a whole folder takes seconds.
    own = ("-p", "no:cacheprovider", "--basetemp", str(house.parent / "tmp"), "--assert=plain")
    return run(house, "-m", "pytest", "-n0", "-vv", *own, follows_again, *paths, "-k", wanted)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("title", RECIPES)
def test_the_printed_check_passes(checked: str, title: str) -> None:
    for expected in EXPECTED[title]:
        assert re.search(rf"{expected} PASSED", checked), expected


def test_a_view(house: Path) -> None:
    data = house / "disk"
    data.mkdir()
    (data / "x.du").write_text("30\t/a\n10\t/b\n")
    assert '"share": 0.75' in run(house, "-m", "tui", "report", "disk-usage", str(data), "--no-cache")
    assert run(house, "-m", "tui", "check", "disk-usage", str(data), "--no-cache", "-o", "limit=0.8") == ""


def test_a_reader_format(house: Path) -> None:
    assert "bombardier" in (house / "docs" / "reference" / "files.md").read_text(encoding="utf-8")
    samples = runpy.run_path(str(house / "tests" / "contract" / "file_samples.py"))["SAMPLES"]
    _, report = samples["run-comparison"]["bombardier"]
    for side, rate in (("left", 100), ("right", 50)):
        for number in range(5):
            folder = house / "runs" / side / str(number)
            folder.mkdir(parents=True)
            (folder / "report.json").write_bytes(report.replace(b"2487.5", str(rate + number).encode()))
    words = ("-o", "left=left", "-o", "right=right", "--table", "metrics", "--no-cache")
    metrics = json.loads(run(house, "-m", "tui", "report", "run-comparison", str(house / "runs"), *words))
    row = next(row for row in metrics["tables"]["metrics"] if (row["resource"], row["bucket"]) == ("rps", "mean"))
    assert (row["unit"], row["direction"], row["effect"]) == ("requests/s", "higher", "worse")
