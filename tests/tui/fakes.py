"""Fake views and a fake session for the dashboard."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Any

import polars as pl

from engine.core.incremental import Memo
from engine.core.parameters import Parameters, option
from engine.core.reading import Problem
from engine.core.tables import Column, Table
from engine.core.view import Context, FileInfo, Headline, Inputs, Result
from engine.live.status import Ignored, Mode, RootStatus, Status
from engine.views import Entry

NOW = 1_767_225_600.0
"""The frozen clock: 2026-01-01T00:00:00Z in epoch seconds."""

NODES = Table(
    "nodes",
    "The nodes.",
    (
        Column("name", pl.String, "Its name.", priority=0),
        Column("state", pl.String, "Its state.", kind="level", priority=0),
        Column("cpu", pl.Float64, "Its CPU.", unit="%", kind="percent", priority=0),
        Column("size", pl.Int64, "Its data.", unit="bytes", kind="bytes", priority=1),
        Column("wait", pl.Float64, "How long it waits.", unit="ms", kind="ms", priority=2),
        Column("seen", pl.Int64, "When it was seen.", kind="time_ms", priority=3),
        Column("note", pl.String, "A remark.", priority=4),
        Column("trend", pl.List(pl.Float64), "Its last values.", kind="spark", priority=2),
        Column("secret", pl.String, "Not shown at first.", hidden=True),
    ),
    key=("name",),
    order=("name",),
)
PARTS = Table("parts", "Parts.", (Column("part", pl.String, "A part.", priority=0),), key=("part",))


class FakeParameters(Parameters, frozen=True, kw_only=True):
    """Choices of the fake views."""

    limit: Annotated[float, option("CPU above it is severe", unit="%", low=0, high=100)] = 90.0
    mode: Annotated[str, option("How to count", choices=("plain", "doubled"))] = "plain"
    fail: Annotated[tuple[str, ...], option("Nodes that are down")] = ()
    deep: Annotated[bool, option("Look deeper")] = False


def frame(rows: int, *, seed: int = 0, limit: float = 90.0) -> pl.DataFrame:
    """Return deterministic nodes."""
    names = [f"node-{i:03}" for i in range(rows)]
    cpu = [((i * 37 + seed * 11) % 1000) / 10 for i in range(rows)]
    return pl.DataFrame(
        {
            "name": names,
            "state": ["severe" if c > limit else "moderate" if c > limit / 2 else "ok" for c in cpu],
            "cpu": cpu,
            "size": [i * 1_000_003 for i in range(rows)],
            "wait": [i * 333.0 if i % 5 else None for i in range(rows)],
            "seen": [int(NOW * 1000) - i * 60_000 for i in range(rows)],
            "note": [f"rack {i % 4}" for i in range(rows)],
            "trend": [[float((i + j) % 9) for j in range(12)] for i in range(rows)],
            "secret": ["x"] * rows,
        },
        schema=NODES.schema,
    )


class FakeView:
    """A view whose result is made by ``make``."""

    kinds = ()
    parameters = FakeParameters
    tables = (NODES, PARTS)
    fail_on = "severe"

    def __init__(self, name: str = "fake-view", title: str = "Fake view") -> None:
        self.name = name
        self.title = title
        self.rows = 40
        self.seed = 0
        self.delay = 0.0
        self.error: BaseException | None = None
        self.frame: pl.DataFrame | None = None
        self.calls: list[tuple[Any, int | None]] = []
        self.notes: tuple[str, ...] = ("mode plain", "window 5 min")
        self.headline = (Headline("total", "42.0 GB", "n = 40, ±2%"), Headline("worst", "97.3%", "", "severe"))

    def compute(self, inputs: Inputs, parameters: FakeParameters, context: Context) -> Result:
        self.calls.append((parameters, context.at_ms))
        begin = time.monotonic()
        while time.monotonic() < begin + self.delay:  # which a test may shorten meanwhile
            context.check()
            time.sleep(0.002)
        if self.error is not None:
            raise self.error
        seed = inputs.version if self.seed < 0 else self.seed
        nodes = self.frame if self.frame is not None else frame(self.rows, seed=seed, limit=parameters.limit)
        nodes = nodes.filter(~pl.col("name").is_in(list(parameters.fail)))
        return Result(
            self.name,
            {"rows": nodes.height},
            {"nodes": nodes, "parts": pl.DataFrame({"part": ["a", "b"]})},
            headline=self.headline,
            notes=self.notes,
            newest_ms=int(NOW * 1000) - 3_000,
            at_ms=context.at_ms,
        )

    def upstream(self, result: Result, parameters: Any) -> str | None:
        return None


@lru_cache
def infos(files: int, stale: int) -> dict[int, FileInfo]:
    """Files by number, the first of them stale."""
    return {i: FileInfo(i, f"/data/{i}", str(i), "fake", int(NOW * 1000), 10, 1, stale=i < stale) for i in range(files)}


class FakeSession:
    """Holds fake views; ``change`` plays a change of files."""

    def __init__(self, views: Sequence[FakeView]) -> None:
        self.views = {view.name: view for view in views}
        self.version = 1
        self.live_problems: tuple[Problem, ...] = ()
        self.read_problems: tuple[Problem, ...] = ()
        self.files = 3
        self.stale = 0
        self.closed = False
        self.mode: Mode = "events"
        self.frozen: list[int] = []
        self._changed: Callable[[frozenset[str]], None] | None = None
        self.watching = threading.Event()

    def scan(self, *, final: bool = False, progress: Callable[[float, str], None] | None = None) -> frozenset[str]:
        if progress is not None:
            progress(0.5, "half")
        return frozenset(self.views)

    def look(self, hints: set[str] | None) -> frozenset[str]:
        return frozenset(self.views)

    def watch(self, changed: Callable[[frozenset[str]], None], stop: threading.Event) -> None:
        self._changed = changed
        self.watching.set()
        stop.wait()

    def change(self) -> None:
        """Play a change of the files."""
        self.version += 1
        assert self.watching.wait(30) and self._changed is not None  # the thread that watches may be late
        self._changed(frozenset(self.views))

    def inputs(self, view: str) -> Inputs:
        self.views[view]
        return Inputs(self.version, infos(self.files, self.stale), self.read_problems)

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
        used = self.inputs(view) if inputs is None else inputs
        self.frozen.append(used.version)
        return self.views[view].compute(used, parameters, Context(int(NOW * 1000), at_ms, Memo(), stop, progress))

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self.live_problems

    @property
    def status(self) -> Status:
        return Status(
            roots=(RootStatus("/data", self.mode),),
            files=self.files,
            ignored=(Ignored("/data/notes.txt", "no view reads it"),),
            ignored_count=1,
        )

    def admit(self, views: Sequence[Any]) -> None:
        self.views |= {view.name: view for view in views}

    def close(self, timeout: float | None = None) -> None:
        self.closed = True


ENTRIES = (
    Entry("first-view", "First view", "fake", "first files"),
    Entry("fake-view", "Fake view", "fake", "fake files"),
)
