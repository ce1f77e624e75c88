"""Timing of job heuristics: one job of 22,000 tasks, 5,000 histories of 70 KB, and 1 MB appended to one of many.

Upstream (Java, 2 cores, fact sheet section 14): 3.1-7 s for the large job as text (median 4.7 s whole process), 0.8 s
best when warm from binary. Budgets: 1.0 s cold, 0.1 s warm, 2.5 s for the 5,000, 25 ms for the append.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.inputs import FileInfo, Inputs
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.view import VIEW
from engine.live.store import Store
from engine.reading import Source
from engine.view import Context
from sample_data.job_heuristics import writer
from sample_data.job_heuristics.plans import CLUSTER, Shape, make
from tests.bench.line import Line, best

FILES = 5_000
LARGE = Shape("large", "ann", "etl", maps=20_000, reduces=2_000, slots=800, spread=0.5)
SMALL = Shape("small", "ann", "etl", maps=9, reduces=1, spread=0.3)


def large(folder: Path, *, binary: bool) -> int:
    """Write the job of 22,000 tasks; its size in bytes."""
    job = make(LARGE, 1, CLUSTER + 1000, 1)
    data = writer.binary(job) if binary else writer.text(job)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / job.file_name).write_bytes(data)
    (folder / f"{job.id}_conf.xml").write_bytes(writer.conf_xml(job))
    return len(data)


def many(folder: Path, count: int = FILES) -> int:
    """Write ``count`` histories of about 70 KB; their size in bytes."""
    plans = [make(SMALL, n + 1, CLUSTER + 1000 * n, n) for n in range(20)]
    texts = [writer.text(job) for job in plans]
    total = 0
    for i in range(count):
        job, text = plans[i % 20], texts[i % 20]
        old, new = str(CLUSTER), str(CLUSTER + i // 20)
        place = folder / f"{i // 1000:06d}"
        place.mkdir(parents=True, exist_ok=True)
        (place / job.file_name.replace(old, new)).write_bytes(text.replace(old.encode(), new.encode()))
        total += len(text)
    return total


def report(folder: Path) -> float:
    """Seconds of a whole ``report`` process without the cache of parsed files."""
    words = ["report", "job-heuristics", str(folder), "--no-cache", "--table", "jobs", "--format", "csv"]
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "tui", *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


class Loaded:
    """Files read into a store, as the session does it."""

    def __init__(self, folder: Path) -> None:
        self.store = Store({t.name: t for k in VIEW.kinds for t in k.tables}.values())
        self.infos: dict[int, FileInfo] = {}
        self.version = 1
        gc.disable()
        for number, path in enumerate(sorted(p for p in folder.rglob("*") if p.is_file()), 1):
            self.read(number, path, path.read_bytes(), 0, None)
        gc.enable()
        self.store.flush()

    def read(self, number: int, path: Path, data: bytes, offset: int, state: Any) -> Any:
        """Read (more of) one file."""
        kind = next(k for k in VIEW.kinds if k.recognise(path.name, data[:8192]) or offset)
        reading = kind.read(Source(str(path), path.name, 0, len(data), offset), data, state, False)
        self.store.put(number, reading.rows, self.store.check(reading.rows))
        self.infos[number] = FileInfo(number, str(path), path.name, kind.id, 0, len(data), self.version)
        return reading

    def inputs(self) -> Inputs:
        """The snapshot."""
        return Inputs(self.version, dict(self.infos), (), self.store.snapshot())


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    begin = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - begin)


def run() -> list[Line]:
    """All lines of this bench."""
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        size = large(root / "text", binary=False)
        took = best(lambda: report(root / "text"))
        lines.append(Line(f"report, 22,000 tasks, text {size / 1e6:.0f} MB", took, "s", 4.7, note="upstream's median"))
        size = large(root / "binary", binary=True)
        took = best(lambda: report(root / "binary"))
        lines.append(Line(f"report, 22,000 tasks, binary {size / 1e6:.0f} MB", took, "s", 2.8, note="upstream's best"))
        loaded = Loaded(root / "text")
        context = Context(0)
        inputs = loaded.inputs()
        VIEW.compute(inputs, JobParameters(), context)
        modes = iter(("seed", "upstream") * 10)
        took = min(timed(lambda: VIEW.compute(inputs, JobParameters(mode=next(modes)), context)) for _ in range(6))
        lines.append(Line("recompute, 22,000 tasks, other rules", took, "ms", 100.0, note="budget"))
        size = many(root / "many")
        took = best(lambda: report(root / "many"), 2)
        lines.append(Line(f"report, {FILES:,} histories, {size / 1e6:.0f} MB", took, "s", 2.5, note="budget"))
        lines.append(append(root / "many"))
    return lines


def append(folder: Path) -> Line:
    """1 MB appended to one of many histories: reading and computing it, median of some."""
    loaded = Loaded(folder)
    context = Context(0)
    VIEW.compute(loaded.inputs(), JobParameters(), context)
    job = make(Shape("grows", "bob", "etl", maps=1_500, reduces=10, slots=40), 999, CLUSTER + 10**9, 1)
    text = writer.text(job)
    head, path, number = text[: 2**20], folder / "job_9_9.jhist", 10**6
    loaded.version += 1
    reading = loaded.read(number, path, head, 0, None)
    at, state = reading.consumed, reading.state
    loaded.store.flush()
    VIEW.compute(loaded.inputs(), JobParameters(), context)
    took = []
    while at + 2**20 < len(text) and len(took) < 7:
        piece = text[at : at + 2**20]

        def step(piece: bytes = piece, at: int = at, state: Any = state) -> Any:
            loaded.version += 1
            reading = loaded.read(number, path, piece, at, state)
            loaded.store.flush()
            VIEW.compute(loaded.inputs(), JobParameters(), context)
            return reading

        begin = time.perf_counter()
        reading = step()
        took.append(1000 * (time.perf_counter() - begin))
        at, state = at + reading.consumed, reading.state
    return Line("1 MB appended to one of many histories", sorted(took)[len(took) // 2], "ms", 25.0, note="budget, p50")
