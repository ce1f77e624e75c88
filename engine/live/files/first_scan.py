"""The first scan of some roots, before anything heavy is loaded: which files there are and how large they are."""

from __future__ import annotations

import os
from collections.abc import Sequence

from engine.live.files.scan import Changes, Scanner
from engine.live.options import LiveSettings


def absolute(roots: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return each of ``roots`` once, as an absolute path."""
    return tuple(dict.fromkeys(os.path.abspath(os.path.expanduser(root)) for root in roots))


class FirstScan:
    """What is below ``roots`` now. ``changes`` holds every file, ``size`` their bytes on disk."""

    def __init__(self, roots: Sequence[str | os.PathLike[str]], settings: LiveSettings) -> None:
        self.roots = absolute(roots)
        self.scanner = Scanner(self.roots, settings)
        self.changes: Changes = self.scanner.scan()
        self.size = sum(stat[2] for stat in self.changes.changed.values())
