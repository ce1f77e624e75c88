"""Whether ``python -m tests.faults.soak`` would notice growth. Its comparison is made in ``test_keys``."""

from __future__ import annotations

from tests.faults import soak


def test_growth_is_told_from_a_first_rise() -> None:
    def growing(*megabytes: int) -> list[str]:
        return soak.Outcome([soak.Usage(each, 200_000, 9, 15) for each in megabytes]).growth()

    assert not growing(150, 190, 210, 212, 211, 212)
    assert growing(150, 190, 230, 270, 320, 380) == ["rss_mb grew from 250 to 350"]
