"""Find the real systems' own results, for tests that compare with them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def reference(view: str) -> Path:
    """The folder of one view's reference data; skips the calling test, saying why, where it is not there."""
    root = os.environ.get("LOADLENS_REFERENCE_DATA")
    if not root:
        pytest.skip("LOADLENS_REFERENCE_DATA is not set: it names the folder with the upstream results")
    folder = Path(root) / view
    if not folder.is_dir():
        pytest.skip(f"LOADLENS_REFERENCE_DATA has no folder {view}")
    return folder
