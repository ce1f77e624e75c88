"""Fixtures of the screen tests: one time zone, and whether goldens are to be written."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.tui.stage import end_module


@pytest.fixture(scope="module", autouse=True)
def _one_dashboard() -> Iterator[None]:
    """The tests of a module that only look at the same files share one dashboard, which ends with the module."""
    yield
    end_module()


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Screens show local time: here it is UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    """Whether goldens are written instead of compared."""
    return bool(request.config.getoption("--update-goldens"))
