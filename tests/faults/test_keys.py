"""A second of ``python -m tests.faults.keys``, which CI runs for a minute."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.faults import keys


def test_the_dashboard_goes_on_and_its_results_are_those_of_a_fresh_start(tmp_path: Path) -> None:
    pressed, differences = asyncio.run(keys.play(tmp_path, 1.0, seed=11, compare=True))
    assert pressed >= 20 and not differences
