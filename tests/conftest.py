"""Options and fixtures of the whole suite."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# Nothing is asserted on time: beside other work one example may take as long as it likes.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")
# Read by Textual when it is imported; no test may wait for an animation.
os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")


def pytest_xdist_auto_num_workers() -> int:
    """One more process than there are processors: many tests wait for a terminal, a clock or a disk."""
    return (os.cpu_count() or 1) + 1


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens",
        action="store_true",
        default=False,
        help="write what the screens show now as the new goldens",
    )
