"""README says what the code does."""

from __future__ import annotations

import re

from tests.readme import README, updated


def test_generated_tables_are_current() -> None:
    text = README.read_text(encoding="utf-8")
    assert updated(text) == text, "run: python -m tests.readme"


def test_links_and_pictures_exist() -> None:
    text = README.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)\)", text):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (README.parent / target).exists(), target
