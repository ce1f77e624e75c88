"""How much memory there is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.core.memory import available, limit

PHYSICAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("memory.max", "1048576\n", 1 << 20),
        ("memory.max", "max\n", PHYSICAL),
        ("memory.max", "nonsense", PHYSICAL),
        ("memory/memory.limit_in_bytes", "2097152", 2 << 20),
        ("memory/memory.limit_in_bytes", "9223372036854771712", PHYSICAL),
        ("other", "1", PHYSICAL),
    ],
)
def test_a_container_has_what_it_is_given(tmp_path: Path, name: str, text: str, found: int) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert available(tmp_path) == found


def test_half_of_it_is_taken_unless_set() -> None:
    assert limit(100) == 100 << 20
    assert limit(0) == available() // 2
