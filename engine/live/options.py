"""Choices of the live path. Free of Polars, so that settings can be read before anything heavy is loaded."""

from __future__ import annotations

from typing import Annotated

from engine.core.parameters import Parameters, option


class LiveSettings(Parameters, frozen=True, kw_only=True):
    """Section ``[live]``: how files are found, followed and cached."""

    poll: Annotated[
        bool | None,
        option("Look on a timer instead of relying on file events; not set: decided per root by its file system"),
    ] = None
    scan_interval_s: Annotated[
        float, option("Look at every root at least this often, whatever events say", unit="s", low=0.05, high=3600)
    ] = 2.0
    debounce_ms: Annotated[int, option("Longest wait for a burst of events to end", unit="ms", low=1, high=10_000)] = 50
    step_ms: Annotated[int, option("Quiet time that ends a burst of events", unit="ms", low=1, high=10_000)] = 1
    settle_s: Annotated[
        float, option("A file this long unchanged is taken as it is, half-written or not", unit="s", low=0.0, high=3600)
    ] = 3.0
    follow_symlinks: Annotated[
        bool, option("Follow symbolic links out of the folders given, too; those within them are always followed")
    ] = False
    max_files: Annotated[int, option("Files that are looked at; further ones are a problem", low=1)] = 250_000
    max_depth: Annotated[int, option("Levels of folders below one given; deeper ones are a problem", low=1)] = 64
    ignore: Annotated[tuple[str, ...], option("Name patterns to leave out, beside temporary files and dot files")] = ()
    max_file_mb: Annotated[int, option("Documents larger than this are not read", unit="MB", low=1)] = 1024
    max_unpacked_mb: Annotated[int, option("A compressed file is unpacked to at most this size", unit="MB", low=1)] = (
        1024
    )
    memory_mb: Annotated[
        int,
        option(
            "Memory this program may take; rows beyond it go to disk or are left out with a note, and a file that needs more "
            "to be read is given up; 0: half of the machine's or container's",
            unit="MB",
            low=0,
        ),
    ] = 0
    cache: Annotated[
        bool, option("Keep parsed files on disk, so that a second start costs little more than a scan")
    ] = True
    cache_dir: Annotated[str, option("Folder of that cache; empty is the usual one")] = ""
    cache_max_mb: Annotated[int, option("Size of that cache; the oldest entries go first", unit="MB", low=0)] = 1024
    cache_min_mb: Annotated[float, option("Inputs smaller than this are not cached", unit="MB", low=0.0)] = 5.0
    workers: Annotated[
        int,
        option(
            "Processes that read large inputs; 0: as many as there are processors; 1: none beside this", low=0, high=256
        ),
    ] = 0
