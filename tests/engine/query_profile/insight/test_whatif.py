"""What a faster class saves."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from engine.query_profile.insight.profile import saving


def test_what_if_utilisation_and_latency() -> None:
    profile: Any = SimpleNamespace(measured=8e6, seconds=5.0, work=SimpleNamespace(cores=2.0))
    found = saving({"y_total": 4e6, "y_low": 3e6, "y_high": 5e6}, profile, 2, False)
    assert found is not None
    assert (found.saved, found.saved_low, found.saved_high, found.utilisation) == (2e6, 1.5e6, 2.5e6, 0.8)
    assert math.isclose(found.utilisation_after, 0.6)
    assert math.isclose(found.latency_factor, (1 - 0.64) / (1 - 0.36))
