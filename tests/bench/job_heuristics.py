"""Timing of job heuristics: one job of 22,000 tasks, and 5,000 histories of 70 KB.

Each figure stands beside its target and, where there is one, beside upstream's (Java, 2 cores: 3.1-7 s for the large
job as text, median 4.7 s for the whole process; 0.8 s when warm, from binary; 2.8 s cold) or a physical floor.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.core.reading import Source
from engine.core.view import Context, FileInfo, Inputs
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.view import VIEW
from engine.live.store import Store
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


def report(folder: Path, cache: Path | None = None, config: Path | None = None) -> float:
    """Seconds of a whole ``report`` process, without the cache of parsed files unless its folder is given.

    As installed: with byte code, which is made beside ``folder`` so that the source tree stays clean.
    """
    words = ["report", "job-heuristics", str(folder), "--table", "jobs", "--format", "csv"]
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder.parent / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if config is not None:
        words += ["--config", str(config)]
    if cache is None:
        words.append("--no-cache")
    else:
        environment["XDG_CACHE_HOME"] = str(cache)
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "tui", *words], check=True, stdout=subprocess.DEVNULL, env=environment, timeout=300
    )
    return time.perf_counter() - begin


def read_all(folder: Path) -> None:
    """Read every file and do nothing with it: the floor of a cold report."""
    for path in folder.rglob("*.jhist"):
        path.read_bytes()


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

    def line(name: str, measured: float, unit: str, target: float, *others: tuple[float, str]) -> None:
        lines.append(Line(name, measured, unit, target, note="target"))
        lines.extend(Line("  the same", measured, unit, other, note=note) for other, note in others)

    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        size = large(root / "text", binary=False)
        took = best(lambda: report(root / "text"))
        line(f"report, 22,000 tasks, text {size / 1e6:.0f} MB", took, "s", 1.0, (4.7, "upstream's median"))
        size = large(root / "binary", binary=True)
        took = best(lambda: report(root / "binary"))
        line(f"report, 22,000 tasks, binary {size / 1e6:.0f} MB", took, "s", 1.0, (2.8, "upstream's best, cold"))
        loaded = Loaded(root / "text")
        context = Context(0)
        inputs = loaded.inputs()
        VIEW.compute(inputs, JobParameters(), context)
        modes = iter(("seed", "upstream") * 10)
        took = min(timed(lambda: VIEW.compute(inputs, JobParameters(mode=next(modes)), context)) for _ in range(6))
        line("recompute, 22,000 tasks, other rules", took, "ms", 100.0, (800.0, "upstream, warm, from binary"))
        size = many(root / "many")
        old = time.time() - 60
        for path in (root / "many").rglob("*.jhist"):
            os.utime(path, (old, old))  # settled: what was written just now is not kept in the cache
        os.sync()  # what is being written to the disk meanwhile takes processor time
        floor = best(lambda: read_all(root / "many"), 2)
        took = best(lambda: report(root / "many"), 3)
        line(f"report, {FILES:,} histories, {size / 1e6:.0f} MB", took, "s", 2.5, (floor, "reading the bytes alone"))
        report(root / "many", root / "cache")
        took = best(lambda: report(root / "many", root / "cache"), 2)
        line("report, the same from the cache", took, "s", 0.5)
    return lines
