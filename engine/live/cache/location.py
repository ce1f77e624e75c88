"""Where the cache of parsed files lies; free of Polars, so that its presence is known before anything heavy is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import xxhash

from engine.live.options import LiveSettings
from engine.own_files.private_files import make_folder


def default_folder() -> str:
    """Return the user's cache folder of loadlens (``XDG_CACHE_HOME`` is honoured)."""
    import platformdirs

    return platformdirs.user_cache_dir("loadlens", appauthor=False)


def parsed_folder(settings: LiveSettings) -> Path:
    """Return the folder of all parsed files."""
    return Path(settings.cache_dir or default_folder()) / "parsed"


def make_folders(settings: LiveSettings, folder: Path) -> None:
    """Create ``folder``, which lies in ``parsed_folder``, and what is missing above it. Raises OSError."""
    if not settings.cache_dir:  # one that the operator names may be shared
        make_folder(Path(default_folder()))
    make_folder(parsed_folder(settings))
    make_folder(folder)


def make_rows_folder(settings: LiveSettings) -> Path:
    """Create the folder of rows that do not fit into memory, and return it. Raises OSError."""
    if not settings.cache_dir:
        make_folder(Path(default_folder()))
    folder = Path(settings.cache_dir or default_folder()) / "rows"
    make_folder(folder)
    return folder


def prefix(root: str, view: str) -> str:
    """Return the first part of the name of all folders that hold rows of ``view`` from below ``root``."""
    return xxhash.xxh3_128_hexdigest(repr((os.path.realpath(root), view)).encode("utf-8", "surrogateescape"))


def has_rows(settings: LiveSettings, roots: Iterable[str], view: str) -> bool:
    """Whether the cache holds rows of ``view`` from below one of ``roots``: then little will have to be read."""
    if not settings.cache or settings.cache_max_mb <= 0:
        return False
    prefixes = tuple(prefix(root, view) for root in roots)
    try:
        return any(name.startswith(prefixes) for name in os.listdir(parsed_folder(settings)))
    except OSError:
        return False
