"""A second of ``python -m tests.faults.keys``, which CI runs for a minute."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.faults import keys


def test_the_dashboard_goes_on(tmp_path: Path) -> None:
    pressed, _ = asyncio.run(keys.play(tmp_path, 1.0, seed=11))
    assert pressed >= 20
