"""Fixtures of the live path's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.live.session import Session
from tests.engine.live.fake import session


@pytest.fixture
def live(tmp_path: Path) -> Session:
    return session(tmp_path, settle_s=0.0)
