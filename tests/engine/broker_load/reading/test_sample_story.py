"""The demo's cluster in motion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sample_data.broker_load import live


def test_a_description_is_present_at_any_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gap would make the screen lose its topology and report findings that come and go."""
    unlink, left = Path.unlink, list[bool]()

    def watched(path: Path, *rest: Any) -> None:
        unlink(path, *rest)
        if path.name.startswith("topics-describe"):
            left.append(any(path.parent.glob("topics-describe-*")))

    monkeypatch.setattr(Path, "unlink", watched)
    story = live.steps(tmp_path)
    for _ in range(live.DIES + 1):
        next(story)
    assert left == [True]
