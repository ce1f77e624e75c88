"""A view for the tests of the live path: one log kind, one document kind, and a way to say what a fresh start reads."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from engine.core.parameters import Parameters
from engine.core.reading import Problem, Reading, Source
from engine.core.tables import Column, Table
from engine.core.view import Result
from engine.live.session import LiveSettings, Session

LINES = Table(
    "lines",
    "One row per log line.",
    (
        Column("key", pl.String, "first field"),
        Column("value", pl.Int64, "second field"),
        Column("number", pl.Int64, "line number, from the state"),
    ),
)
DOCS = Table(
    "docs",
    "One row per value of a document.",
    (Column("doc", pl.String, "its name"), Column("value", pl.Int64, "one value"), Column("place", pl.Int64, "index")),
)


class Calm:
    """The part of a looker that has nothing to do ahead, nothing that is due and no roots."""

    def idle(self) -> bool:
        return False

    def due(self) -> float | None:
        return None

    def cost_s(self) -> float:
        return 0.0

    def identities(self) -> dict[str, tuple[int, int] | None]:
        return {}


class Log:
    """``L|key|value`` lines."""

    id, title, append, version, tables = "log", "a log", True, 1, (LINES,)

    def __init__(self) -> None:
        self.reads: list[tuple[str, int, int, bool]] = []

    def recognise(self, name: str, head: bytes) -> bool:
        return head.startswith(b"L|") and ".secret" not in name

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        self.reads.append((source.name, source.offset, len(data), final))
        end = len(data) if final else data.rfind(b"\n") + 1
        reading = Reading(consumed=end)
        count = (state or {"lines": 0})["lines"]
        keys, values, numbers = [], [], []
        for raw in data[:end].splitlines():
            count += 1
            fields = raw.decode("utf-8", "replace").split("|")
            if fields == ["L", "boom", "0"]:
                raise RuntimeError("a mistake in the reader")
            if len(fields) != 3 or not fields[2].lstrip("-").isdigit():
                reading.problems.append(Problem.at(source.path, "bad-record", "not a line", line=count))
                continue
            keys.append(fields[1])
            values.append(int(fields[2]))
            numbers.append(count)
        reading.rows = {"lines": {"key": keys, "value": values, "number": numbers}}
        reading.state = {"lines": count}
        return reading


class Doc:
    """``{"doc": name, "values": [...]}`` files."""

    id, title, append, version, tables = "doc", "a document", False, 1, (DOCS,)

    def __init__(self) -> None:
        self.reads: list[tuple[str, int, bool]] = []

    def recognise(self, name: str, head: bytes) -> bool:
        return head.startswith(b'{"doc"') or name.endswith(".doc")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        self.reads.append((source.name, len(data), final))
        try:
            found = json.loads(data)
            values = found["values"]
        except (ValueError, KeyError):
            return Reading(complete=False, problems=[Problem.at(source.path, "cut-file", "does not parse")])
        rows = {"doc": [found["doc"]] * len(values), "value": values, "place": list(range(len(values)))}
        return Reading({"docs": rows}, consumed=len(data))


class Choices(Parameters, frozen=True, kw_only=True):
    """None."""


class FakeView:
    """A sixth view."""

    title, parameters, tables, fail_on = "Fake", Choices, (), "severe"

    def __init__(self, name: str = "fake") -> None:
        self.name = name
        self.log = Log()
        self.doc = Doc()
        self.kinds = (self.log, self.doc)

    def compute(self, inputs: Any, parameters: Any, context: Any) -> Result:
        total = int(inputs.table("lines")["value"].sum())
        context.memo.state("totals", list).append(total)
        return Result(self.name, {"total": total, "version": inputs.version}, {})

    def upstream(self, result: Result, parameters: Any) -> str | None:
        return None


def line(key: object, value: int) -> bytes:
    return f"L|{key}|{value}\n".encode()


def doc(name: str, *values: int) -> bytes:
    return json.dumps({"doc": name, "values": values}).encode()


def settings(**changes: Any) -> LiveSettings:
    """Quick ones, without a cache."""
    base: dict[str, Any] = {"cache": False, "settle_s": 0.05, "scan_interval_s": 0.1, "debounce_ms": 20, "step_ms": 5}
    return LiveSettings(**{**base, **changes})


def session(*roots: Path, view: FakeView | None = None, strict: bool = True, **changes: Any) -> Session:
    return Session(roots, [view or FakeView()], settings=settings(**changes), strict=strict)


def rows(live: Session, view: str = "fake", *, stale: bool = True) -> dict[str, list[tuple[Any, ...]]]:
    """Content of a view's inputs, independent of file ids and the order of files; without ``stale`` only of files that
    are as they are on disk."""
    inputs = live.inputs(view)
    out = {}
    wanted = {number for number, info in inputs.files.items() if stale or not info.stale}
    for name in ("lines", "docs"):
        frame = inputs.table(name)
        at = frame.columns.index("file")
        found = [(row[at], (*row[:at], *row[at + 1 :])) for row in frame.iter_rows()]
        assert {file for file, _ in found} <= set(inputs.files), "rows of unknown files"
        out[name] = sorted(row for file, row in found if file in wanted)
    return out


def fresh(*roots: Path, **changes: Any) -> dict[str, list[tuple[Any, ...]]]:
    """What a new session reads there in one look."""
    live = session(*roots, **changes)
    live.scan(final=True)
    return rows(live)


def until(condition: Callable[[], bool], deadline_s: float = 30.0) -> None:
    """Wait for it. The promise are five seconds; a machine that is busy with other things may take longer."""
    begin = time.monotonic()
    while not condition():
        waited = time.monotonic() - begin
        assert waited < deadline_s, "did not converge"
        time.sleep(min(max(waited / 10, 0.005), 0.05))  # asking is work, too: it takes time from what is waited for


def values(live: Session) -> list[int]:
    """The second fields of all lines."""
    return [row[1] for row in rows(live)["lines"]]


def keys(live: Session) -> list[str]:
    """The first fields of all lines."""
    return [row[0] for row in rows(live)["lines"]]


def docs(live: Session) -> list[tuple[Any, ...]]:
    """The rows of all documents."""
    return rows(live)["docs"]


def kinds(live: Session) -> set[str]:
    """The kinds of the problems there are."""
    return {problem.kind for problem in live.inputs("fake").problems}


def view_of(live: Session) -> FakeView:
    """The session's view, with what it was asked to read."""
    found = live.views["fake"]
    assert isinstance(found, FakeView)
    return found


def pack(data: bytes, ending: str) -> bytes:
    import gzip

    import zstandard

    return gzip.compress(data) if ending == ".gz" else zstandard.ZstdCompressor().compress(data)


def alive(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
