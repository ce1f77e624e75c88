"""How the live path behaves: one frozen value. Imports no Polars, so that a front end can read it at start."""

from __future__ import annotations

import msgspec


class LiveSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Choices of the live path; every field has a default that suits a local disk and up to some 10,000 files.

    ``poll``: None decides per root (network mounts are polled), True always scans on a timer, False trusts events
    (and still scans every ``scan_interval_s`` seconds, since events get lost). ``debounce_ms`` and ``step_ms`` bound how
    long events are gathered. ``settle_s``: a file quiet for so long is taken to be finished for now: its last record without
    a line end is read, a document that does not parse becomes a problem. ``block_mb``: logs are read in pieces of this
    size. ``max_unpacked_mb`` and ``max_ratio`` stop decompression bombs; ``max_document_mb`` bounds files that must be
    in memory at once; ``max_record_mb`` one record of a log. ``ignore``: further shell patterns of file and directory
    names that are not looked at. ``cache_dir`` empty means the user's cache folder. ``raise_reader_errors`` lets a
    reader's programming error through (tests) instead of turning it into a problem.
    """

    poll: bool | None = None
    scan_interval_s: float = 2.0
    debounce_ms: int = 50
    step_ms: int = 10
    settle_s: float = 2.0
    follow_symlinks: bool = True
    ignore: tuple[str, ...] = ()
    block_mb: int = 64
    max_unpacked_mb: int = 1024
    max_ratio: int = 500
    max_document_mb: int = 1024
    max_record_mb: int = 256
    cache: bool = True
    cache_dir: str = ""
    cache_max_mb: int = 1024
    cache_min_mb: float = 5.0
    raise_reader_errors: bool = False
