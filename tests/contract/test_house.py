"""The limits that keep the house in order: few rooms, small rooms, small modules and classes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.contract.house import packages, rooms

ROOT = Path(__file__).parents[2]
ROOMS, FILES, MODULE_LINES, CLASS_LINES = 6, 12, 500, 350
SOURCES = sorted(path for part in ("engine", "tui", "sample_data") for path in (ROOT / part).rglob("*.py"))


@pytest.mark.parametrize("package", packages())
def test_a_view_has_few_rooms_and_none_is_a_hall(package: str) -> None:
    folder = ROOT / package.replace(".", "/")
    assert len(rooms(package)) <= ROOMS
    assert {path.name for path in folder.iterdir() if path.is_dir()} - {"__pycache__", "tables"} == set(rooms(package))
    allowed = {"__init__.py", "view.py", "parameters.py", "tables.py"}
    assert {path.name for path in folder.glob("*.py")} <= allowed
    for path in folder.iterdir():
        if path.is_dir():
            modules = [each for each in path.glob("*.py") if each.name != "__init__.py"]
            assert len(modules) <= FILES, f"{path.name} holds {len(modules)} modules"


def test_modules_and_classes_stay_small() -> None:
    long = []
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if text.count("\n") < CLASS_LINES:
            continue
        if text.count("\n") > MODULE_LINES:
            long.append(f"{path.relative_to(ROOT)}: {text.count(chr(10))} lines")
        long += [
            f"{path.relative_to(ROOT)}: class {node.name} of {node.end_lineno - node.lineno + 1} lines"
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.ClassDef) and node.end_lineno and node.end_lineno - node.lineno >= CLASS_LINES
        ]
    assert not long, "\n".join(long)


def test_the_root_holds_what_a_repository_conventionally_has() -> None:
    known = {"engine", "tui", "sample_data", "tests", "docs", "packaging", "share", "pyproject.toml", "setup.py"}
    known |= {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"}
    made = {"build", "dist", "uv.lock", "loadlens.egg-info"}  # by tools, and ignored
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert not found - known - made


def test_digits_are_those_that_int_reads() -> None:
    """``"²".isdigit()``, but ``int("²")`` raises."""
    assert not [path for path in SOURCES if ".isdigit()" in path.read_text(encoding="utf-8")]
