"""The live path: scanning, reading many files, starting from the cache, and the time from a write to new inputs."""

from __future__ import annotations

import gc
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from engine.core.reading import Reading, Source
from engine.core.tables import Column, Table
from engine.live.files.scan import Scanner
from engine.live.options import LiveSettings
from engine.live.session import Session
from tests.bench.line import Line, best

ROWS = Table(
    "rows",
    "Rows of the bench.",
    (Column("name", pl.String, "text"), Column("a", pl.Int64, "number"), Column("b", pl.Int64, "number")),
)


class Csv:
    """A log read by Polars: ``name,a,b`` lines."""

    id, title, append, version, tables = "csv", "csv", True, 1, (ROWS,)

    def recognise(self, name: str, head: bytes) -> bool:
        return name.endswith(".csv")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        end = data.rfind(b"\n") + 1
        if not end:
            return Reading()
        frame = pl.read_csv(data[:end], has_header=False, schema=ROWS.schema)
        return Reading({"rows": frame}, consumed=end)


class Cheap:
    """A document whose reader does next to nothing: what remains is the store's own cost."""

    id, title, append, version, tables = "cheap", "cheap", False, 1, (ROWS,)

    def recognise(self, name: str, head: bytes) -> bool:
        return name.endswith(".bin")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        return Reading({"rows": {"name": [source.name] * 10, "a": list(range(10)), "b": [len(data)] * 10}})


class View:
    title, fail_on, parameters, tables = "bench", "severe", None, ()

    def __init__(self) -> None:
        self.name = "bench"
        self.kinds = (Csv(), Cheap())


@contextmanager
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="loadlens-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def session(root: Path, **changes: Any) -> Session:
    return Session([root], [View()], settings=LiveSettings(**{"cache": False, **changes}))  # type: ignore[list-item]


def run() -> list[Line]:
    return [*scanning(), *many_files(), *append_latency(), *on_all_cores()]


def scanning(count: int = 10_000) -> list[Line]:
    with folder() as root:
        for number in range(count):
            (root / f"{number}.csv").write_bytes(b"x,1,2\n")
        floor = best(lambda: [entry.stat() for entry in os.scandir(root)])
        scanner = Scanner([str(root)])
        scanner.scan()
        full = best(scanner.scan, 5)
        live = session(root)
        live.scan(final=True)
        took = []
        for number in range(50):
            path = root / f"{number}.csv"
            with path.open("ab") as file:
                file.write(b"y,1,2\n")
            begin = time.perf_counter()
            assert live.look({str(path)})
            took.append(time.perf_counter() - begin)
        return [
            Line("scan 10,000 files, nothing changed", full * 1e3, "ms", floor * 1e3, note="bare scandir + stat"),
            Line("  one hint in that tree to new inputs, p50", statistics.median(took) * 1e3, "ms", 5.0, note="budget"),
        ]


def many_files(count: int = 5_000, size: int = 71_400) -> list[Line]:
    with folder() as base:
        root = base / "root"
        root.mkdir()
        data = os.urandom(size)
        for number in range(count):
            (root / f"{number}.bin").write_bytes(number.to_bytes(4, "big") + data)
        old = time.time() - 60
        for path in root.iterdir():
            os.utime(path, (old, old))

        def bare() -> None:
            for entry in os.scandir(root):
                fd = os.open(entry.path, os.O_RDONLY)
                os.read(fd, entry.stat().st_size + 1)
                os.close(fd)

        floor = best(bare)
        plain = best(lambda: session(root).scan(final=True), 2)
        cached = {"cache": True, "cache_dir": str(base / "cache"), "cache_min_mb": 1.0}
        first = session(root, **cached)
        first.scan(final=True)
        first.close()
        gc.collect()

        def warm() -> None:
            live = session(root, **cached)
            live.scan(final=True)
            assert live.inputs("bench").table("rows").height == 10 * count and live.status.cached == count

        again = best(warm, 2)
        name = f"{count} files of 70 KB, reader that does nothing"
        return [
            Line(name, plain, "s", floor, note="open + read of the same files"),
            Line("  overhead beyond reading", plain - floor, "s", 0.3, note="budget"),
            Line("  from the cache", again, "s", 0.5, note="budget"),
        ]


def append_latency(size: int = 1 << 30, rounds: int = 40) -> list[Line]:
    """1 MB appended to a log of ``size`` bytes, watched by events."""
    with folder() as root:
        path = root / "history.csv"
        block = b"".join(b"host-%06d,%d,%d\n" % (number % 5000, number, number * 7) for number in range(45_000))
        with path.open("wb") as file:
            for _ in range(size // len(block)):
                file.write(block)
        os.sync()  # or the writing back is measured, too
        begin = time.perf_counter()
        with path.open("rb") as file:
            while data := file.read(len(block) * 64):
                pl.read_csv(data, has_header=False, schema=ROWS.schema)
        floor = time.perf_counter() - begin
        more = block[: block.rfind(b"\n", 0, 1 << 20) + 1]
        live = session(root)
        begin = time.perf_counter()
        live.scan(final=True)
        first = time.perf_counter() - begin
        ready = threading.Event()
        stop = threading.Event()

        def changed(names: frozenset[str]) -> None:
            live.inputs("bench").table("rows")
            ready.set()

        thread = threading.Thread(target=live.watch, args=(changed, stop))
        thread.start()
        took = []
        try:
            time.sleep(0.5)
            for _ in range(rounds):
                height = live.inputs("bench").table("rows").height
                with path.open("ab", buffering=0) as file:
                    begin = time.perf_counter()
                    file.write(more)
                ready.clear()
                while live.inputs("bench").table("rows").height == height:
                    ready.wait(5)
                    ready.clear()
                took.append(time.perf_counter() - begin)
                time.sleep(0.1)
        finally:
            stop.set()
            thread.join()
        took.sort()
        if os.environ.get("LOADLENS_BENCH_ALL"):
            print([round(one * 1e3) for one in took])
        return [
            Line("first reading of 1 GB of CSV", first, "s", floor, note="read and read_csv alone, in blocks"),
            Line("1 MB appended to it, to new inputs, p50", statistics.median(took) * 1e3, "ms", 30.0, note="budget"),
            Line("  p99", took[int(len(took) * 0.99)] * 1e3, "ms", 60.0, note="budget"),
        ]


def on_all_cores() -> list[Line]:
    """A whole report over 5,000 histories, by the number of processes that read."""
    from tests.bench import job_heuristics

    lines = []
    with folder() as base:
        size = job_heuristics.many(base / "many")
        alone = None
        for workers in (1, 2, 4):
            config = base / f"{workers}.toml"
            config.write_text(f"[live]\nworkers = {workers}\n")
            took = best(partial(job_heuristics.report, base / "many", config=config))
            alone = took if alone is None else alone
            name = f"report over {size / 1e6:.0f} MB, live.workers = {workers}"
            lines.append(Line(name, took, "s", alone, note="one process"))
    return lines
