"""Give one input to one reader and check what must hold for any bytes."""

from __future__ import annotations

import random
import re
import time
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from engine.core.reading import FileKind, Problem, Source, clean
from engine.core.tables import height_of
from engine.core.view import FILE
from engine.live.store import BadRows, Store
from tests.fuzz.mutations import TEXTS, mutate
from tests.fuzz.pieces import of_any_pieces
from tests.fuzz.samples import Sample

NAMES = (
    "",
    "a",
    "x.json",
    "9" * 30 + ".prom",
    "\x1b[31m",
    "x-1795217883.csv",
    "x" * 250,
    "job_1_1_conf.xml",
    "2024-13-45.log",
)
"""Odd names of files."""
TIMES = (1_700_000_000_000, 1_700_000_000_000, 0, -1, 253_402_300_800_000, 2**62)
"""Modification times, epoch ms."""
DIRTY = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
"""Characters that no text from a reader may contain."""
BATCH = 32
"""Number of inputs whose rows are made into frames together."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What an input did: ``sort`` (``raises``, ``rows``, ``text``, …), and ``what`` exactly, equal for equal mistakes."""

    sort: str
    what: str
    index: int
    name: str
    data: bytes
    other: bytes | None = None


class Broken(Exception):
    """A reader that breaks its contract."""

    def __init__(self, sort: str, what: str) -> None:
        super().__init__(what)
        self.sort, self.what = sort, what


@dataclass(frozen=True, slots=True)
class Input:
    """A file to be read: name, bytes, time, and (logs) the places at which it is read so far."""

    name: str
    data: bytes
    mtime_ms: int = TIMES[0]
    stops: tuple[int, ...] = ()


def make(rng: random.Random, samples: Sequence[Sample]) -> Input:
    """Damage a sample."""
    name, data = rng.choice(samples)
    data = mutate(rng, data, [other for _, other in samples])
    if rng.random() < 0.05:
        name = clean(rng.choice((*NAMES, rng.choice(TEXTS).decode("utf-8", "surrogateescape"))))
    stops = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 0, 1, 3))))
    return Input(name, data, rng.choice(TIMES), tuple(stops))


def read(kind: FileKind, given: Input) -> list[tuple[dict[str, Any], list[Problem]]]:
    """Read ``given`` as a session does: a log from stop to stop, a document unsettled and settled.

    Returns rows and problems of each reading that counts. Raises Broken.
    """
    if kind.append:
        return _read_log(kind, given)
    _call(kind, given, given.data, None, 0, False)
    reading = _call(kind, given, given.data, None, 0, True)
    return [(reading.rows if reading.complete else {}, reading.problems)]


def _read_log(kind: FileKind, given: Input) -> list[tuple[dict[str, Any], list[Problem]]]:
    found = []
    state, at = None, 0
    for stop in (*given.stops, len(given.data)):
        reading = _call(kind, given, given.data[at:stop], state, at, False)
        if not 0 <= reading.consumed <= stop - at:
            raise Broken("rows", f"consumed {reading.consumed} of {stop - at} bytes")
        if reading.consumed:
            found.append((reading.rows, reading.problems))
            state, at = _copied(reading.state), at + reading.consumed
        elif any(height_of(rows) for rows in reading.rows.values()):
            raise Broken("rows", "rows without consuming their bytes")
    if at < len(given.data):
        reading = _call(kind, given, given.data[at:], state, at, True)
        found.append((reading.rows, reading.problems))
    return found


def _copied(state: Any) -> Any:
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(state))
    except (TypeError, ValueError, OverflowError) as error:
        raise Broken("state", f"its state cannot be kept: {type(error).__name__}: {error}"[:120]) from error


def _call(kind: FileKind, given: Input, data: bytes, state: Any, offset: int, final: bool) -> Any:
    source = Source(f"/root/{given.name}", given.name, given.mtime_ms, len(given.data), offset)
    try:
        reading = kind.read(source, data, state, final)
    except (Exception, pl.exceptions.PanicException) as error:
        if isinstance(error, MemoryError):
            raise Broken("memory", where(error)) from error
        raise Broken("raises", where(error)) from error
    for problem in reading.problems:
        if not isinstance(problem, Problem) or problem.path != source.path or problem.count < 1:
            raise Broken("problem", f"{problem!r}"[:120])
        if clean(problem.reason, 400) != problem.reason:
            raise Broken("text", f"a reason that is not cleaned, kind {problem.kind}")
    return reading


def where(error: BaseException) -> str:
    """Return type and place of an error: that of its last line in this repository, or of the last at all."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/engine/" in frame.filename] or frames
    return f"{type(error).__name__} at {Path(own[-1].filename).name}:{own[-1].lineno} in {own[-1].name}"


def without(frame: pl.DataFrame, columns: Collection[str]) -> pl.DataFrame:
    """Return ``frame`` without some columns, as ``drop`` does, which plans a query each time."""
    return pl.DataFrame([column for column in frame if column.name not in columns])


class Attempts:
    """Inputs given to ``kind`` one after the other; ``failures`` gathers what they did."""

    def __init__(self, kind: FileKind, samples: Sequence[Sample], seed: str) -> None:
        self.failures: list[Failure] = []
        self.bytes = 0
        self.cpu_s = 0.0
        self._kind, self._samples, self._seed = kind, samples, seed
        self._tables = {table.name: table for table in kind.tables}
        self._gathered: list[tuple[int, Input, dict[str, Any]]] = []
        # Separators of keys are in the rows of good files, too.
        self._joints: dict[tuple[str, str], set[str]] = {}
        for sample in samples:
            for rows, _ in read(kind, Input(*sample)):
                for name in rows:
                    for column, found in self._dirty(name, self.frame(name, [rows])).items():
                        self._joints.setdefault((name, column), set()).update(found)

    def run(
        self, index: int, *, extra: Callable[[random.Random, int], Failure | None] | None = None, split: bool = True
    ) -> None:
        """Try input ``index``. ``extra``: another trial of the same kind, in its place. ``split``: compare a log that is read in
        parts with the same log read at once."""
        rng = random.Random(f"{self._seed} {index}")
        if extra is not None:
            failure = extra(rng, index)
            self.failures += [failure] if failure is not None else []
            return
        given = make(rng, self._samples)
        begin = time.process_time()
        try:
            found = read(self._kind, given)
            if split and self._kind.append and given.stops:
                self._same_in_one_go(given, found)
        except Broken as broken:
            self.failures.append(Failure(broken.sort, broken.what, index, given.name, given.data))
            found = []
        self.cpu_s += time.process_time() - begin
        self.bytes += len(given.data)
        self._gathered += [(index, given, rows) for rows, _ in found if rows]
        if len(self._gathered) >= BATCH:
            self.flush()

    def _same_in_one_go(self, given: Input, found: list[tuple[dict[str, Any], list[Problem]]]) -> None:
        """Raise Broken if ``given`` gives other rows when it is read at once."""
        whole = read(self._kind, Input(given.name, given.data, given.mtime_ms))
        parts, once = (
            of_any_pieces({name: self.frame(name, [rows for rows, _ in each]) for name in self._tables})
            for each in (found, whole)
        )
        for name in self._tables:
            if not parts[name].equals(once[name]):
                raise Broken("split", f"other rows of {name} when it is read in parts")

    def frame(self, name: str, readings: Sequence[dict[str, Any]]) -> pl.DataFrame:
        """Return all rows of one table. Raises Broken if they do not fit."""
        if name not in self._tables:
            raise Broken("rows", f"rows of an undeclared table {name}")
        store = Store([self._tables[name]])
        try:
            for number, rows in enumerate(({name: each[name]} for each in readings if name in each), 1):
                store.put(number, rows, store.check(rows))
        except BadRows as error:
            raise Broken("rows", f"{error}"[:120]) from error
        for error in store.flush().values():
            raise Broken("rows", f"{type(error).__name__}: {error}"[:120])
        return without(store.snapshot()(name), {FILE})

    def flush(self) -> None:
        """Make frames of all rows; look whether their texts are clean."""
        gathered, self._gathered = self._gathered, []
        try:
            self._check([rows for _, _, rows in gathered])
        except Broken:
            for index, given, rows in gathered:
                try:
                    self._check([rows])
                except Broken as broken:
                    self.failures.append(Failure(broken.sort, broken.what, index, given.name, given.data))

    def _dirty(self, name: str, frame: pl.DataFrame) -> dict[str, set[str]]:
        """Return by column the characters that no text may hold."""
        return {
            column: set(re.findall(DIRTY, "".join(text for text in frame[column] if text)))
            for column, dtype in frame.schema.items()
            if dtype == pl.String and column != "tenant_written"  # hashed as it is written, never shown
        }

    def _check(self, readings: Sequence[dict[str, Any]]) -> None:
        for name in {name for rows in readings for name in rows}:
            frame = self.frame(name, readings)
            for column, found in self._dirty(name, frame).items():
                if found - self._joints.get((name, column), set()):
                    raise Broken("text", f"text that is not cleaned in {name}.{column}")


# -- time by size ----------------------------------------------------------------------------------------------


RUNS = (
    b" ", b"[", b'{"a":', b"(", b"'", b'"', b",", b"\\", b"0", b"\n", b"#", b"-", b"a", b"a,", b"a b ", b"<a>", b"=", b".",
    b"\t", b"\r",
)  # fmt: skip
"""What an input is filled up with, beside parts of itself."""
SLOW_S = 0.15
"""Seconds of processor time below which no growth is judged."""
QUADRATIC = 9.0
"""Times as long for four times as much: 4 is linear, 16 quadratic."""


def stretched(kind: FileKind, samples: Sequence[Sample], rng: random.Random, index: int) -> Failure | None:
    """Grow an input four times and again, by a run of something in it: time must grow as it does."""
    name, data = rng.choice(samples)
    at = rng.randrange(len(data) + 1)
    lines = [line for line in data.splitlines(keepends=True)[:300] if line.strip()]
    begin = rng.randrange(len(data) + 1)
    run = rng.choice(
        (rng.choice(RUNS), data[begin : begin + rng.randrange(1, 40)] or b" ", rng.choice(lines or [b"\n"]))
    )
    if run in lines:
        at = data.find(run) + len(run)
    counted = rng.random() < 0.5 and re.search(rb"\d+", run) is not None

    def grown(size: int) -> bytes:
        times = max(1, size // len(run))
        middle = b"".join(re.sub(rb"\d+", b"%d" % n, run, count=1) for n in range(times)) if counted else run * times
        return data[:at] + middle + data[at:]

    took: list[float] = []
    for size in (4 << 10, 16 << 10, 64 << 10, 256 << 10):
        given = Input(name, grown(size))
        took.append(_seconds(kind, given))
        if len(took) > 1 and took[-1] > SLOW_S and took[-1] > QUADRATIC * took[-2]:
            again = min(_seconds(kind, given), took[-1])
            less = min(took[-2], _seconds(kind, Input(name, grown(size // 4))))
            more = _seconds(kind, Input(name, grown(size * 2)))  # not so where only smaller ones are refused at once
            if more > QUADRATIC**0.5 * again and again > max(SLOW_S, QUADRATIC * less):
                how = "counted run" if counted else "run"
                what = f"{how} of {run[:16]!r}: {less:.2f} s for {size >> 12} KB, {again:.2f} s for 4 times that"
                return Failure("super-linear", what, index, name, grown(size // 4))
        if took[-1] > 0.6:
            break
    return None


def _seconds(kind: FileKind, given: Input) -> float:
    begin = time.process_time()
    try:
        read(kind, given)
    except Broken:
        pass
    return time.process_time() - begin
