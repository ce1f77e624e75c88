"""A few of the kills of ``python -m tests.faults.kills``, and whether it would see harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import kills


@pytest.mark.parametrize("kind", kills.KINDS)
def test_killed_writers_leave_something_whole(kind: str) -> None:
    assert kills.run(kind, 6, 5) == []


@pytest.mark.parametrize("kind", kills.KINDS)
def test_half_a_file_would_be_seen(kind: str, tmp_path: Path) -> None:
    target = kills.KINDS[kind](tmp_path)
    target.write(40)
    target.check()
    for path in target.folder.iterdir():
        before = path.read_bytes()
        if not before:
            continue
        path.write_bytes(before[: len(before) // 2])
        with pytest.raises(AssertionError):
            target.check()
        path.write_bytes(before)
    target.check()
