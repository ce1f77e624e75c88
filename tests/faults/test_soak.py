"""A few rounds of ``python -m tests.faults.soak``, and whether it would notice growth."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.faults import soak


def test_after_some_changes_and_keys_results_are_those_of_a_fresh_start(tmp_path: Path) -> None:
    outcome = asyncio.run(soak.replay(tmp_path, 1, checks=1))
    assert outcome.checks == 1 and not outcome.differences
    assert len(outcome.usage) == 1


def test_growth_is_told_from_a_first_rise() -> None:
    def growing(*megabytes: int) -> list[str]:
        return soak.Outcome([soak.Usage(each, 200_000, 9, 15) for each in megabytes]).growth()

    assert not growing(150, 190, 210, 212, 211, 212)
    assert growing(150, 190, 230, 270, 320, 380) == ["rss_mb grew from 250 to 350"]
