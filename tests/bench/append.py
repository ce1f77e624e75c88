"""One megabyte of history appended: from the write to the new number, and to the bytes on a terminal that show it.

Two histories, each of about 1 GB or of one huge job: many finished jobs of which some grow in turn, and one running job
of 22,000 tasks. The first figures are the engine's, through its own watch of the folder; the others are those of the
dashboard on a pseudo-terminal, until its first bytes after the write (idle, it writes none). ``LOADLENS_BENCH_FILES`` sets
the number of finished jobs, ``LOADLENS_BENCH_APPENDS`` (at most 48) how often each history grows for each of the two measures. A
megabyte ends where it ends, mostly within a line.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.view import VIEW
from engine.live.options import LiveSettings
from engine.live.session import Session
from sample_data.job_heuristics import writer
from sample_data.job_heuristics.plans import CLUSTER, Shape, make
from tests.bench.job_heuristics import LARGE, many
from tests.bench.line import Line
from tests.tui.terminal import Terminal

FILES = int(os.environ.get("LOADLENS_BENCH_FILES", "14000"))
MB = 1 << 20
JOBS = 14
"""Jobs that grow in turn, each by some 15 MB."""
PAUSE_S = 0.15
"""Between two appends: each is measured alone."""

Appends = Iterator[Callable[[], None]]


def run() -> list[Line]:
    """Both histories, engine and screen."""
    lines: list[Line] = []
    at_most = int(os.environ.get("LOADLENS_BENCH_APPENDS", "45"))
    for name, begin in ((f"one of {FILES:,} jobs", _many), ("a job of 22,000 tasks", _one)):
        with tempfile.TemporaryDirectory(prefix="loadlens-bench-") as folder:
            root = Path(folder) / "history"
            root.mkdir()
            appends = begin(root)
            number = 120.0 if begin is _many and FILES <= 3000 else 250.0
            for measure, label, targets in ((_numbers, "number", (number, 0.0)), (_screen, "screen", (0.0, 400.0))):
                took = sorted(1000 * one for one in measure(root, islice(appends, at_most)))
                for share, target in zip((0.5, 0.99), targets, strict=True):
                    value = took[min(len(took) - 1, int(share * len(took)))]
                    note = "target" if target else "no target of its own"
                    label_ = f"1 MB to {name}: to the {label}, p{share * 100:.0f} of {len(took)}"
                    lines.append(Line(label_, value, "ms", target or None, note=note))
    return lines


def _write(path: Path, data: bytes) -> Callable[[], None]:
    def append() -> None:
        with path.open("ab", buffering=0) as file:
            file.write(data)

    return append


def _many(root: Path) -> Appends:
    """Finished jobs, and some of which the first megabyte is there."""
    many(root, FILES)
    job = make(Shape("grows", "bob", "etl", maps=2_200, reduces=10, slots=40), 900, CLUSTER + 10**9, 1)
    text, own = writer.text(job), job.id.removeprefix("job_")
    for number in range(JOBS):
        (root / job.file_name.replace(own, _other(own, number))).write_bytes(_text(text, own, number)[:MB])
    return _growing(root, job.file_name, text, own)


def _other(own: str, number: int) -> str:
    """Another id of the same length."""
    return own.replace("_0900", f"_{900 + number:04d}")


def _text(text: bytes, own: str, number: int) -> bytes:
    return text.replace(own.encode(), _other(own, number).encode())


def _growing(root: Path, name: str, text: bytes, own: str) -> Appends:
    for number in range(JOBS):
        mine, path = _text(text, own, number), root / name.replace(own, _other(own, number))
        for at in range(MB, len(mine) - MB, MB):
            yield _write(path, mine[at : at + MB])


def _one(root: Path) -> Appends:
    """One huge job of which a third is there."""
    job = make(LARGE, 1, CLUSTER + 1000, 1)
    text, path = writer.text(job), root / job.file_name
    begin = len(text) // 3
    path.write_bytes(text[:begin])
    (root / f"{job.id}_conf.xml").write_bytes(writer.conf_xml(job))
    return (_write(path, text[at : at + MB]) for at in range(begin, len(text) - MB, MB))


def _numbers(root: Path, appends: Appends) -> Iterator[float]:
    """Seconds from each write until the result with it is there."""
    session = Session([root], [VIEW], settings=LiveSettings(cache=False))
    session.scan()
    session.compute(VIEW.name, JobParameters())
    stop, ready = threading.Event(), threading.Event()
    done = 0.0

    def changed(names: frozenset[str]) -> None:
        nonlocal done
        session.compute(VIEW.name, JobParameters())
        done = time.perf_counter()
        ready.set()

    thread = threading.Thread(target=session.watch, args=(changed, stop))
    thread.start()
    time.sleep(1.0)
    try:
        for append in appends:
            ready.clear()
            begun = time.perf_counter()
            append()
            ready.wait(30)
            yield done - begun
            time.sleep(PAUSE_S)
    finally:
        stop.set()
        thread.join()
        session.close()


def _screen(root: Path, appends: Appends) -> Iterator[float]:
    """Seconds from each write until the terminal was told of it."""
    home = root.parent
    with Terminal(["-m", "tui", str(root), "--view", "job-heuristics"], home, (160, 50)) as t:
        t.see("GB", 300)
        t.quiet(3.0, 300)
        for append in appends:
            before, seen = len(t.output), len(t.arrived)
            begun = time.monotonic()
            append()
            t.until(lambda before=before: len(t.output) > before + 20, 30)  # type: ignore[misc]
            size = 0
            for moment, count in t.arrived[seen:]:
                size += count
                if size > 20:
                    yield moment - begun
                    break
            t.quiet(0.25, 30)
        t.send(b"q")
