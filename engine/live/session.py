"""Session: roots and views in, immutable inputs and results out. The one object that front ends hold."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from engine.inputs import FILE, FileInfo, Inputs
from engine.live.options import LiveSettings
from engine.live.status import RootStatus, Status
from engine.problems import Problem, fold
from engine.reading import HEAD, Source
from engine.result import Result
from engine.view import Context, View

__all__ = ["LiveSettings", "Session", "Status", "wall_clock"]


def wall_clock() -> int:
    """The time of day in epoch milliseconds."""
    return time.time_ns() // 1_000_000


class Session:
    """What is below some roots, as the inputs of some views, kept up to date.

    ``scan`` looks once; ``watch`` keeps looking until told to stop. Both may run in another thread than ``inputs`` and
    ``compute``: snapshots are immutable. The views are given; this module knows none.
    """

    def __init__(
        self,
        roots: Sequence[str | Path],
        views: Sequence[View],
        *,
        settings: LiveSettings | None = None,
        now_ms: Callable[[], int] = wall_clock,
    ) -> None:
        self.roots = tuple(Path(root).expanduser().absolute() for root in roots)
        self.views = {view.name: view for view in views}
        self.settings = settings or LiveSettings()
        self._now_ms = now_ms
        self._inputs = {name: self._empty(view) for name, view in self.views.items()}
        self._seen: object = None
        self._lock = threading.RLock()
        self._compute_locks = {name: threading.Lock() for name in self.views}
        self._memos: dict[str, dict[Any, Any]] = {name: {} for name in self.views}
        self._scans = 0
        self._ids = 0

    @staticmethod
    def _empty(view: View) -> Inputs:
        frames = {
            table.name: table.empty().with_columns(pl.lit(None, dtype=pl.UInt32).alias(FILE))
            for kind in view.kinds
            for table in kind.tables
        }
        return Inputs(0, {}, (), frames.__getitem__)

    def scan(self, *, final: bool = False, progress: Callable[[float, str], None] | None = None) -> frozenset[str]:
        """Look at all roots once and read what is new; returns the names of the views whose inputs changed.

        ``final``: a one-shot report: nothing will follow, so last records without a line end are taken at once.
        ``progress`` is told a fraction 0-1 and what is being read.
        """
        with self._lock:
            paths = sorted(
                p
                for root in self.roots
                for p in ([root] if root.is_file() else root.rglob("*"))
                if p.is_file() and not p.name.startswith(".")
            )
            seen = [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in paths]
            self._scans += 1
            if seen == self._seen:
                return frozenset()
            self._seen = seen
            for name, view in self.views.items():
                files: dict[int, FileInfo] = {}
                problems: list[Problem] = []
                parts: dict[str, list[pl.DataFrame]] = {}
                version = self._inputs[name].version + 1
                for path in paths:
                    data = path.read_bytes()
                    stat = path.stat()
                    source = Source(str(path), path.name, stat.st_mtime_ns // 1_000_000, stat.st_size)
                    for kind in view.kinds:
                        for table in kind.tables:
                            parts.setdefault(
                                table.name,
                                [table.empty().with_columns(pl.lit(None, dtype=pl.UInt32).alias(FILE))],
                            )
                        if not kind.recognise(path.name, data[:HEAD]):
                            continue
                        reading = kind.read(source, data, None, True)
                        self._ids += 1
                        problems += reading.problems
                        root = next((r for r in self.roots if path.is_relative_to(r)), path.parent)
                        files[self._ids] = FileInfo(
                            self._ids, str(path), str(path.relative_to(root)) or path.name, kind.id, source.mtime_ms,
                            source.size, version,
                        )  # fmt: skip
                        tables = {table.name: table for table in kind.tables}
                        for key, rows in reading.rows.items():
                            frame = tables[key].frame(rows)
                            parts[key].append(frame.with_columns(pl.lit(self._ids, dtype=pl.UInt32).alias(FILE)))
                frames = {key: pl.concat(many) for key, many in parts.items()}
                self._inputs[name] = Inputs(version, files, fold(problems), frames.__getitem__)
            return frozenset(self.views)

    def watch(self, changed: Callable[[frozenset[str]], None], stop: threading.Event) -> None:
        """Keep the inputs up to date until ``stop`` is set; blocks, so run it in a thread. Never raises.

        ``changed`` is called (in this thread) with the names of the views whose inputs changed.
        """
        while not stop.wait(self.settings.scan_interval_s):
            names = self.scan()
            if names:
                changed(names)

    def inputs(self, view: str) -> Inputs:
        """The newest snapshot of ``view``'s inputs. Raises KeyError for a view the session does not have."""
        return self._inputs[view]

    def compute(
        self,
        view: str,
        parameters: Any,
        *,
        at_ms: int | None = None,
        now_ms: int | None = None,
        stop: Callable[[], bool] = lambda: False,
        progress: Callable[[float, str], None] = lambda fraction, text: None,
        inputs: Inputs | None = None,
    ) -> Result:
        """``view``'s result for ``parameters`` over its newest inputs (or over an older snapshot, ``inputs``).

        One computation per view at a time; they share a memo. Raises Cancelled when ``stop`` says so, NoInput when
        there is nothing to compute on, KeyError for an unknown view.
        """
        with self._compute_locks[view]:
            context = Context(
                now_ms=self._now_ms() if now_ms is None else now_ms,
                at_ms=at_ms,
                memo=self._memos[view],
                stop=stop,
                progress=progress,
            )
            context.check()
            return self.views[view].compute(self.inputs(view) if inputs is None else inputs, parameters, context)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the live path itself: unreadable files, missing roots, a failing watch."""
        return tuple(
            Problem.at(str(root), "missing-root", "there is no such file or folder")
            for root in self.roots
            if not root.exists()
        )

    @property
    def status(self) -> Status:
        """What the live path is doing, for a status line."""
        return Status(
            roots=tuple(RootStatus(str(root), "polling") for root in self.roots),
            files=len(self._seen) if isinstance(self._seen, list) else 0,
            recognised={name: len(inputs.files) for name, inputs in self._inputs.items()},
            scans=self._scans,
        )

    def close(self) -> None:
        """End background work. The snapshots stay usable."""
