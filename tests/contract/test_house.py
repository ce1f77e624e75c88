"""The limits that keep the house in order: one story a module, short functions, small classes, and no growth unpaid."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.contract.house import floors, houses

ROOT = Path(__file__).parents[2]
MODULE_LINES, CLASS_LINES = 500, 600
PRODUCT_STATEMENTS = 56_160
"""Statements of ``engine`` and ``tui``: lower it when something is deleted; raise it only in a commit that says which
feature pays for it. Functions are held to 60 statements by ruff."""
SOURCES = sorted(path for part in ("engine", "tui", "sample_data") for path in (ROOT / part).rglob("*.py"))


@cache
def statements(path: Path) -> list[ast.stmt]:
    """All statements of a module; expressions, which hold none, are nine nodes of ten."""
    found: list[Any] = [ast.parse(path.read_text(encoding="utf-8"))]
    for node in found:
        for part in ("body", "handlers", "orelse", "finalbody", "cases"):
            found += getattr(node, part, ())
    return [node for node in found if isinstance(node, ast.stmt)]


@pytest.mark.parametrize("package", houses())
def test_every_folder_of_a_view_is_a_declared_room(package: str) -> None:
    folder = ROOT / package.replace(".", "/")
    folders = {path.name for path in folder.iterdir() if path.is_dir()} - {"__pycache__", "tables"}
    declared = {room for floor in floors(package) for room in floor}
    assert folders <= declared and {room for room in declared if not (folder / f"{room}.py").exists()} <= folders


def test_modules_are_one_story() -> None:
    lengths = {path.relative_to(ROOT): path.read_text(encoding="utf-8").count("\n") for path in SOURCES}
    assert not {path: lines for path, lines in lengths.items() if lines > MODULE_LINES}


def test_a_class_with_its_own_bases_stays_small() -> None:
    """A class that inherits three bases with one heir each is as long as all four."""
    classes = [node for path in SOURCES for node in statements(path) if isinstance(node, ast.ClassDef)]
    named: dict[str, list[ast.ClassDef]] = {}
    for node in classes:
        named.setdefault(node.name, []).append(node)

    def lines(node: ast.ClassDef, seen: frozenset[str] = frozenset()) -> int:
        own = (node.end_lineno or node.lineno) - node.lineno + 1
        bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases} - seen - {node.name}
        ours = [named[base][0] for base in sorted(bases) if len(named.get(base, ())) == 1]
        return own + sum(lines(base, seen | {node.name}) for base in ours)

    assert not {node.name: lines(node) for node in classes if lines(node) > CLASS_LINES}


def test_the_product_does_not_grow_unpaid() -> None:
    found = sum(len(statements(path)) for path in SOURCES if path.relative_to(ROOT).parts[0] in ("engine", "tui"))
    assert found <= PRODUCT_STATEMENTS, f"{found} statements"


def test_no_module_is_named_in_a_string() -> None:
    """An import that hides in a string is one that the contracts do not see; the list of views is the exception."""
    hidden = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for path in SOURCES
        if path != ROOT / "engine" / "views.py"
        and re.search(
            r"""["'}](?:engine|tui|sample_data)\.""", path.read_text(encoding="utf-8")
        )  # others need no parsing
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_module(node.value)
    ]
    assert not hidden, "\n".join(hidden)


def _is_module(text: str) -> bool:
    """Whether ``text`` is the dotted name of a module or folder of this repository."""
    if not text.startswith(("engine.", "tui.", "sample_data.")) or not all(
        part.isidentifier() for part in text.split(".")
    ):
        return False
    place = ROOT.joinpath(*text.split("."))
    return place.is_dir() or place.with_suffix(".py").exists()


def test_the_root_holds_what_a_repository_conventionally_has() -> None:
    known = {"engine", "tui", "sample_data", "tests", "docs", "packaging", "share", "pyproject.toml", "setup.py"}
    known |= {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"}
    made = {"build", "dist", "uv.lock", "loadlens.egg-info"}  # by tools, and ignored
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert not found - known - made


def test_digits_are_those_that_int_reads() -> None:
    """``"²".isdigit()``, but ``int("²")`` raises."""
    assert not [path for path in SOURCES if ".isdigit()" in path.read_text(encoding="utf-8")]
