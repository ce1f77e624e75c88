"""Plays a recording into a folder, at the pace at which it was recorded."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from engine.recording.layout import BadRecording, Entry, entries, unpacked

log = logging.getLogger(__name__)

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)  # steps of ``faster``
NEIGHBOUR = ".loadlens.part"  # temporary name of a file until it is renamed
LOOK_S = 0.1  # seconds between two looks at the clock at most, while nothing is due


class Player(threading.Thread):
    """Writes the files of a recording below ``target`` (a folder of its own), and tells what time it is there.

    ``target`` gets folders and regular files only, named by checked paths; ``limit`` (bytes) and ``most`` (files, and as
    many folders) bound what is written. ``paused`` holds the recording. ``problem`` says why it ended early, or empty.
    ``prepare`` writes what was there at the beginning.
    """

    def __init__(self, file: BinaryIO, target: Path, *, limit: int, most: int, speed: float = 1.0) -> None:
        """Raises BadRecording, OSError: the file does not begin as a recording does."""
        super().__init__(name="player", daemon=True)
        self.target = target
        self.speed = speed
        self.problem = ""
        self.ended = False
        self.paused = False
        self._limit, self._most = limit, most
        self._written = 0
        self._files: set[str] = set()
        self._folders: set[Path] = set()
        self._stop_asked = threading.Event()
        self._lock = threading.Lock()
        self._prepared = False
        self._entries: Iterator[tuple[Entry, bytes]] = entries(file)
        first, _ = next(self._entries, (None, b""))
        if first is None or first.kind != "begin":
            raise BadRecording("this recording holds nothing")
        self._moment_ms = float(first.at_ms)
        self._since = time.monotonic()
        self.roots = self._make_roots(first.roots)

    def _make_roots(self, names: tuple[str, ...]) -> list[Path]:
        """Make the folders that were watched; return all roots."""
        roots = []
        for name in names[: self._most]:
            path = self.target / unpacked(name)
            folder = path if name.endswith(("/", "%2F")) else path.parent
            if not self._within(folder):
                raise BadRecording(f"it watches more than {self._most:,} folders")
            folder.mkdir(parents=True, exist_ok=True)
            roots.append(path)
        return roots

    def _within(self, folder: Path) -> bool:
        """Whether ``folder`` and those above it, which may have to be made, are no more than may be written."""
        while folder != self.target and folder not in self._folders:
            self._folders.add(folder)
            folder = folder.parent
        return len(self._folders) <= self._most

    # -- time -----------------------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return the moment of the recording that is played (epoch ms)."""
        return int(self._moment_ms)

    def faster(self, by: int) -> float:
        """Raise the speed by ``by`` steps; return it."""
        place = min(range(len(SPEEDS)), key=lambda index: abs(SPEEDS[index] - self.speed))
        self.speed = SPEEDS[min(max(place + by, 0), len(SPEEDS) - 1)]
        return self.speed

    def _advance(self) -> float:
        """Advance by the time since the last call; return the moment (epoch ms)."""
        now = time.monotonic()
        if not self.paused:
            self._moment_ms += (now - self._since) * 1000 * self.speed
        self._since = now
        return self._moment_ms

    # -- playing ------------------------------------------------------------------------------------------------------------

    def prepare(self, view: str = "") -> None:
        """Write the files that were there at the beginning. If ``view`` is empty (all views), begin to play."""
        with self._lock:
            if not self._prepared:
                self._prepared = True
                begin = int(self._moment_ms)
                for entry, content in self._safely():
                    if entry.at_ms > begin:
                        self._entries = chain([(entry, content)], self._entries)
                        break
                    self._apply(entry, content)
            if not view and self.ident is None and not self._stop_asked.is_set():
                self._since = time.monotonic()
                self.start()

    def run(self) -> None:
        """Write what falls due until the recording ends or ``stop`` is called."""
        last_ms = self._moment_ms
        for entry, content in self._safely():
            while (left_ms := entry.at_ms - self._advance()) > 0:
                if self._stop_asked.wait(min(left_ms / 1000 / self.speed, LOOK_S)):
                    return
            with self._lock:
                if self._stop_asked.is_set():
                    return
                self._apply(entry, content)
            last_ms = max(last_ms, entry.at_ms)
        self._moment_ms, self.ended = last_ms, True

    def stop(self) -> None:
        """Stop writing; waits for a write under way."""
        self._stop_asked.set()
        if self._lock.acquire(timeout=5):
            self._lock.release()

    def _safely(self) -> Iterator[tuple[Entry, bytes]]:
        """Yield the remaining entries; any error of the file or the disk ends them."""
        try:
            while (
                not self._stop_asked.is_set() and not self.problem and (found := next(self._entries, None)) is not None
            ):
                yield found
        except (BadRecording, OSError) as error:
            self.problem = (error.strerror if isinstance(error, OSError) else None) or str(error)
        if self.problem:
            log.warning("the recording ended early: %s", self.problem)

    def _apply(self, entry: Entry, content: bytes) -> None:
        """Apply one change. A change that fails is skipped; one beyond the limits ends the replay."""
        self._written += len(content)
        try:
            fits = self._written <= self._limit
            if fits and entry.kind not in ("begin", "end"):
                name = unpacked(entry.path)
                path = self.target / name
                self._files.add(name)
                fits = len(self._files) <= self._most and self._within(path.parent)
                if fits:
                    self._change(path, entry, content)
            if not fits:
                self.problem = f"it holds more than {self._limit >> 20:,} MB, or than {self._most:,} files or folders"
        except (BadRecording, ValueError) as error:
            log.warning("a change was left out: %s", error)
        except OSError as error:
            log.warning("%s: %s", entry.path, error)
            if error.errno is not None and shutil.disk_usage(self.target).free < len(content):
                self.problem = error.strerror or str(error)

    @staticmethod
    def _change(path: Path, entry: Entry, content: bytes) -> None:
        """Write, append to or remove one file. Raises OSError, ValueError."""
        if entry.kind == "remove":
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        place = path.with_name(NEIGHBOUR) if entry.kind == "replace" else path  # the live path leaves such names out
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(place, flags, 0o600), "wb") as file:  # noqa: PTH123  (a descriptor)
            file.write(content)
        if not entry.more:
            os.utime(place, ns=(entry.modified_ns, entry.modified_ns))
        if entry.kind == "replace" and not entry.more:
            place.replace(path)
