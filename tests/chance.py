"""How many random inputs a property test tries: a few, always the same, in an ordinary run; more and others in a search."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

TIMES = float(os.environ.get("LOADLENS_EXAMPLES", "1"))
"""``LOADLENS_EXAMPLES=20`` tries twenty times as many inputs, different ones in every run."""

# Hypothesis also tries constants that it finds in the sources of all modules that are imported so far. Which those are depends on
# the tests before, and so would the inputs; and every process of a fresh checkout would parse the whole repository for them.
providers._get_local_constants = lambda: providers._local_constants

_ALWAYS_THE_SAME = "LOADLENS_EXAMPLES" not in os.environ  # a change is judged by what it changed, not by the day's draw


def more(count: int) -> int:
    """Return how often a loop of its own tries: ``count`` times, and ``TIMES`` as often in a search."""
    return round(count * max(1, TIMES))


def every(count: int) -> int:
    """Return the step that takes one of ``count`` cases, and more of them in a search."""
    return max(1, round(count / TIMES))


def tries(count: int, **more: Any) -> settings:
    """Try ``count`` inputs, times ``TIMES``. Nothing is asserted on time: one example may take as long as it likes."""
    return settings(
        max_examples=max(1, round(count * TIMES)),
        deadline=None,
        derandomize=_ALWAYS_THE_SAME,
        **{"suppress_health_check": (HealthCheck.too_slow,), **more},
    )
