"""What holds for all tests of the run comparison."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture(scope="session", autouse=True)
def _numbers_as_in_compute() -> Iterator[None]:
    """Overflows and missing ratios are no warnings, as inside of ``compute``."""
    with np.errstate(all="ignore"):
        yield
