"""What a faster class saves."""

from __future__ import annotations

import math

from engine.query_profile.insight import profile


def test_what_if_utilisation_and_latency() -> None:
    found = profile.saving(4e6, 3e6, 5e6, faster=2, drop=False, used_us=8e6, seconds=5, cores=2)
    assert (found.saved, found.before) == (2e6, 0.8)
    assert math.isclose(found.after, 0.6)
    assert math.isclose(found.latency_factor, (1 - 0.64) / (1 - 0.36))
