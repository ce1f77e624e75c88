"""The first look at some roots, before anything heavy is loaded: what is there, how much, was it here before."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from engine.live.crew import LEAST, Crew, start, worth
from engine.live.files.scan import Changes, Scanner
from engine.live.options import LiveSettings


def default_folder() -> str:
    """The user's cache folder of loadlens (``XDG_CACHE_HOME`` is honoured)."""
    import platformdirs

    return platformdirs.user_cache_dir("loadlens", appauthor=False)


class Look:
    """What is below ``roots`` now. ``changes`` holds every file; ``begun_ns`` is when the look began (epoch)."""

    def __init__(self, roots: Sequence[str], settings: LiveSettings) -> None:
        self.roots = tuple(dict.fromkeys(os.path.abspath(os.path.expanduser(root)) for root in roots))
        self.settings = settings
        self.begun_ns = time.time_ns()
        self.scanner = Scanner(self.roots, ignore=settings.ignore, follow_symlinks=settings.follow_symlinks)
        self.changes: Changes = self.scanner.scan()
        self.size = sum(stat[2] for stat in self.changes.changed.values())

    @property
    def caching(self) -> bool:
        """Whether the cache is on, and these files are large enough for it."""
        settings = self.settings
        enough = bool(self.changes.changed) and self.size >= settings.cache_min_mb * (1 << 20)
        return settings.cache and settings.cache_max_mb > 0 and enough

    def folder(self, view: str) -> Path:
        """Where the results of ``view`` over these roots are kept."""
        import xxhash

        place = repr(("result", view, [os.path.realpath(root) for root in self.roots]))
        parsed = Path(self.settings.cache_dir or default_folder()) / "parsed"
        return parsed / xxhash.xxh3_128_hexdigest(place.encode("utf-8", "surrogateescape"))

    def helper(self, view: str, module: str) -> Crew | None:
        """A helper that begins to read at once for ``view``, which is in ``module``; None if it would not pay, or if there
        is something kept of these roots, so that little will have to be read."""
        if not worth(self.size, self.settings, LEAST) or (self.caching and self.folder(view).is_dir()):
            return None
        roots = self.scanner.roots
        files = [
            (path, roots[self.scanner.root_of(path)], stat)
            for path, stat in self.changes.changed.items()
            if not path.endswith((".gz", ".gzip", ".zst", ".zstd"))
        ]
        return start(files, [module], self.settings, final=True)
