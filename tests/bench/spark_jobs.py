"""Timing of Spark applications: the event log of 80,000 tasks, cold and growing.

The floor is reading and decoding each of its lines with orjson (``uv run --with orjson python -m tests.bench spark_jobs``), or
with msgspec where orjson is not installed; both take about as long. The peer is Spark's own history server, which replays the
same log, where Java and PySpark are there (``uv sync --group spark``).
"""

from __future__ import annotations

import importlib.util
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.view import VIEW
from engine.live.options import LiveSettings
from engine.live.session import Session
from sample_data.job_heuristics import spark_log
from sample_data.job_heuristics.spark_log import AppPlan, StagePlan
from tests.bench import _history_server
from tests.bench.job_heuristics import report
from tests.bench.line import Line

APP = "application_1760000000000_0777"
LARGE = AppPlan(
    "large", "ann", "etl",
    tuple(
        (StagePlan(f"scan {k}", 2000, 8.0, input_mb=64, shuffle_write_mb=20, failing=0.01),
         StagePlan(f"reduce {k}", 2000, 6.0, shuffle_read_mb=20, output_mb=20, hot=2, hot_factor=8))
        for k in range(20)
    ),
    executors=100, cores=4,
)  # fmt: skip
MB = 1 << 20
APPENDS = 12


def spent(work: Callable[[], object]) -> float:
    """Processor seconds of a call, with those of the processes that it waited for."""

    def now() -> float:
        own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime

    begin = now()
    work()
    return now() - begin


def floor(path: Path) -> None:
    """Read and decode every line."""
    decode: Callable[[bytes], Any] = msgspec.json.decode
    if importlib.util.find_spec("orjson"):
        decode = importlib.import_module("orjson").loads
    with path.open("rb") as file:
        for line in file:
            decode(line)


def read(root: Path) -> None:
    """Read and judge what is below ``root``, in this process."""
    session = Session([root], [VIEW], settings=LiveSettings(cache=False, workers=1))
    session.scan(final=True)
    session.compute(VIEW.name, JobParameters())
    session.close()


def appended(root: Path, path: Path, data: bytes) -> list[float]:
    """Seconds from each of some appends of 1 MB until the jobs are computed with it."""
    session = Session([root], [VIEW], settings=LiveSettings(cache=False))
    session.scan()
    session.compute(VIEW.name, JobParameters())
    took = []
    for at in range(0, APPENDS * MB, MB):
        with path.open("ab") as file:
            file.write(data[at : at + MB])
        begin = time.perf_counter()
        session.scan()
        session.compute(VIEW.name, JobParameters())
        took.append(time.perf_counter() - begin)
    session.close()
    return took


def peer(root: Path, data: bytes, cold: float) -> list[Line]:
    """Compare with the history server's replay of the same log, and of another one after it."""
    if why := _history_server.missing():
        return [Line("Spark's history server", float("nan"), "s", note=f"not run: {why} is missing")]
    other = root / APP.replace("0777", "0778")
    other.write_bytes(data.replace(APP.encode(), other.name.encode()))
    try:
        first, second = _history_server.replayed(root)
    finally:
        other.unlink()
    return [
        Line("the same against Spark's history server: its first log", cold, "s", first, note="its processor time"),
        Line("the same against Spark's history server: its second log", cold, "s", second, note="warm virtual machine"),
    ]


def run() -> list[Line]:
    """All lines of this bench."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "logs"
        root.mkdir()
        path = root / APP
        data = spark_log.text(spark_log.events(LARGE, APP, 1_760_000_000_000))
        path.write_bytes(data)
        size = f"{len(data) / 1e6:.0f} MB, 80,000 tasks"
        least = min(spent(lambda: floor(path)) for _ in range(2))
        cold = min(spent(lambda: read(root)) for _ in range(2))
        wall = min(report(root) for _ in range(2))
        begin = time.perf_counter()
        floor(path)
        plain = time.perf_counter() - begin
        lines = [
            Line(f"read and judge, {size}: processor time", cold, "s", least, note="decoding every line; target 3"),
            Line(f"report, {size}, all processes from their start", wall, "s", plain, note="decoding every line"),
        ]
        lines += peer(root, data, cold)
        path.unlink()
        growing = root / f"{APP}.inprogress"
        growing.write_bytes(data[: -(APPENDS + 1) * MB])
        took = sorted(appended(root, growing, data[-(APPENDS + 1) * MB :]))
        lines.append(
            Line(f"1 MB more of it, p50 of {len(took)}", 1000 * took[len(took) // 2], "ms", 250.0, note="target")
        )
    return lines
