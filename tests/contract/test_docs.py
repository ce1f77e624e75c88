"""The documentation agrees with the code, its links exist, and pages stay short."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest

from engine.views import VIEWS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_generated_pages_are_current() -> None:
    spec = importlib.util.spec_from_file_location("make_reference", ROOT / "docs" / "make_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for path, text in module.pages().items():
        assert path.read_text(encoding="utf-8") == text, "run: uv run python docs/make_reference.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_pictures_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / target).exists(), target


def words(name: str) -> int:
    """The words of a page without its blocks of code, save those of README and CONTRIBUTING."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return len((re.sub(r"^```.*?^```", "", text, flags=re.M | re.S) if "/" in name else text).split())


def test_pages_stay_short() -> None:
    most = {"README.md": 1000, "CONTRIBUTING.md": 2000, "docs/recipes/view.md": 600, "docs/recipes/reader.md": 600}
    assert not {name: words(name) for name in most if words(name) > most[name]}


def test_readme_shows_every_view() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for entry in VIEWS:
        assert f"docs/{entry.name}.svg" in text and f"docs/views/{entry.name}.md" in text
        assert f"loadlens report {entry.name}" in text


def test_an_entry_of_the_changelog_is_one_short_line() -> None:
    for line in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("\n## ")[2].splitlines():
        assert len(line) <= 130 and not line.startswith(" "), line


@cache
def modules() -> set[str]:
    """The path of every module below the root."""
    folders = ("engine", "tui", "sample_data", "tests", "docs", "packaging")
    return {f"/{path.relative_to(ROOT)}" for folder in folders for path in (ROOT / folder).rglob("*.py")}


ELSEWHERE = {"otava/analysis.py"}
"""Modules of other programs that the documentation names."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_that_are_named_exist(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for name in set(re.findall(r"`([\w/]+\.py)`", text)) - ELSEWHERE:
        assert any(path.endswith(f"/{name}") for path in modules()), f"there is no module {name}"


@pytest.mark.parametrize("entry", VIEWS, ids=lambda entry: entry.name)
def test_every_view_has_a_guide_and_its_rules(entry: object) -> None:
    name = entry.name  # type: ignore[attr-defined]
    for folder in ("views", "models"):
        assert (ROOT / "docs" / folder / f"{name}.md").read_text(encoding="utf-8").count("\n") > 20
    rules = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "models").glob("*.md"))
    assert not [table.name for table in entry.load().tables if f"`{table.name}`" not in rules]  # type: ignore[attr-defined]
