"""The views that are written and feed sample data, for tests that hold all of them to one contract."""

from __future__ import annotations

import importlib
from pathlib import Path

from engine.core.view import View
from engine.live.options import LiveSettings
from engine.live.session import Session
from engine.views import VIEWS

FED = tuple(entry.name for entry in VIEWS)
"""Names of the views to test."""

QUIET = LiveSettings(cache=False, workers=1)
"""No other process reads, which takes longer to start than to read: the rows are the same (``tests/engine/live/pool``)."""


def view(name: str) -> View:
    return next(entry for entry in VIEWS if entry.name == name).load()


def play(name: str, folder: Path, changes: int = 0) -> Path:
    """Write the starting files of a view's sample data below ``folder`` and make some changes; returns ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    steps = importlib.import_module(f"sample_data.{name.replace('-', '_')}.live").steps(folder)
    for _ in range(changes + 1):
        next(steps)
    return folder


def opened(name: str, *roots: Path) -> Session:
    session = Session(roots, [view(name)], settings=QUIET)
    session.scan(final=True)
    return session
