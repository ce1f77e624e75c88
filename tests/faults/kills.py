"""``python -m tests.faults.kills``: kill processes in the middle of writing state and cache, and look at what they leave.

A writer saves again and again; after a random moment it gets SIGKILL. Then another process must find a state or a cache that one
of the saves wrote, whole, and after its own save nothing may lie beside it. The exit code is 1 if anything was found.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from engine.live.cache.cache_session import Cache
from engine.live.cache.manifest import Unread
from engine.live.options import LiveSettings
from engine.own_files.settings import State

LONGEST_S = 0.012
"""Seconds that a writer writes at most before it is killed: several saves."""


class StateFile:
    """The dashboard's choices: a number and as many entries, so that half a file would show."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "state"
        self.path = self.folder / "state.toml"

    def write(self, number: int) -> None:
        """Save state ``number``."""
        state = State(self.path)
        state.values = {"number": number, "tables": {f"table-{index}": {"sort": "x" * 50} for index in range(number)}}
        assert state.save()

    def check(self) -> None:
        """Raise AssertionError unless the state is whole."""
        state = State(self.path)
        assert len(state.get("tables", default={})) == state.get("number"), "state is damaged"

    def expected(self) -> set[str]:
        """Return the names of the files that there may be."""
        return {"state.toml"}


class CacheFolder:
    """The rows of one root and view: a segment and a manifest that say the same number."""

    def __init__(self, folder: Path) -> None:
        self.cache = Cache(LiveSettings(cache_dir=str(folder)))
        self.folder = folder / "parsed" / "of-a-root"

    def write(self, number: int) -> None:
        """Save ``number`` rows."""
        frame = pl.DataFrame({"file": range(number)})
        unread = [Unread(b"%d" % index, (0,) * 5, 0, 0, "", "") for index in range(number)]
        assert self.cache.save(
            self.folder, [], unread, {}, [(uuid.uuid4().hex, {"rows": [frame], "more": [frame, frame]})]
        )

    def check(self) -> None:
        """Raise AssertionError unless manifest and segment agree."""
        manifest = self.cache.load(self.folder)
        assert manifest is not None, "manifest is damaged"
        (segment,) = manifest.segments
        found = self.cache.rows(self.folder, manifest, segment)
        assert found is not None, "segment is damaged"
        parts = [(table, frame.height) for table, frame in found.parts]
        assert sorted(parts) == [(table, len(manifest.unread)) for table in ("more", "more", "rows")], (
            "rows of another save"
        )

    def expected(self) -> set[str]:
        """Return the names of the files that there may be."""
        manifest = self.cache.load(self.folder)
        assert manifest is not None
        parts = ("rows.0", "more.0", "more.1")
        return {"manifest", "lock", *(f"{name}.{part}.parquet" for name in manifest.segments for part in parts)}


KINDS: dict[str, Callable[[Path], StateFile | CacheFolder]] = {"state": StateFile, "cache": CacheFolder}


def write_on(kind: str, folder: Path, seed: int, begun: Any) -> None:
    """Save again and again, until killed."""
    target, numbers = KINDS[kind](folder), random.Random(seed)
    target.write(1)
    begun.set()
    while True:
        target.write(numbers.randrange(1, 2000))


def run(kind: str, kills: int, seed: int) -> list[str]:
    """Kill ``kills`` writers of ``kind``; return what was wrong after any of them."""
    # Writers are forked by a process that has imported Polars, but made no query: after one, Polars does not survive a fork.
    context, rng, found = multiprocessing.get_context("forkserver"), random.Random(seed), []
    context.set_forkserver_preload(["engine.live.cache.cache_session", "engine.own_files.settings", "tomli_w"])
    with tempfile.TemporaryDirectory() as name:
        target = KINDS[kind](Path(name))
        for number in range(kills):
            begun = context.Event()
            process = context.Process(target=write_on, args=(kind, Path(name), rng.randrange(1 << 30), begun))
            process.start()
            begun.wait()
            time.sleep(rng.random() * LONGEST_S)
            process.kill()
            process.join()
            try:
                target.check()
                target.write(7)
                target.check()
                left = {path.name for path in target.folder.iterdir()} - target.expected()
                assert not left, f"left behind: {left}"
            except (AssertionError, OSError) as error:
                found.append(f"{kind}, kill {number}: {error}")
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500, help="of writers of state, and as many of the cache")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(words)
    wrong = 0
    for kind in KINDS:
        found = run(kind, arguments.kills, arguments.seed)
        print(f"{kind}: {arguments.kills} kills, {len(found)} did harm", *found, sep="\n  ", flush=True)
        wrong += len(found)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
