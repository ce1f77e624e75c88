"""Job heuristics of many histories on a local Spark of two executors, beside the engine alone: processor time, calls, rows.

Needs PySpark (``uv sync --group spark``) and Java, else it measures nothing. ``LOADLENS_BENCH_HISTORIES`` sets the number of
histories of 70 KB beside one of 150 MB. Executors have 1 GB. References are the goals.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from engine.core.view import Result
from engine.job_heuristics.fleet.run import batches
from engine.job_heuristics.fleet.run import run as fleet_run
from engine.job_heuristics.fleet.tables import PER_JOB
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.view import VIEW
from engine.live.options import LiveSettings
from engine.live.session import Session
from sample_data.job_heuristics import writer
from sample_data.job_heuristics.plans import CLUSTER, make
from tests.bench.job_heuristics import SMALL, large, many
from tests.bench.line import Line

HISTORIES = int(os.environ.get("LOADLENS_BENCH_HISTORIES", "20000"))
NOW = 1_800_000_000_000


@dataclass(frozen=True)
class Counted(batches.Work):
    """Work of which each call leaves a file; with ``kill`` the first process ends in its first call."""

    folder: str = ""
    kill: bool = False

    def _compute(self, files: Any) -> Iterator[Any]:
        marker = Path(self.folder, "killed")
        if self.kill and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        descriptor, _ = tempfile.mkstemp(dir=self.folder, prefix="call-")
        os.close(descriptor)
        yield from super()._compute(files)


def _all() -> list[Line]:
    with tempfile.TemporaryDirectory(prefix="loadlens-bench-") as name:
        root = Path(name) / "histories"
        root.mkdir()
        size = many(root, HISTORIES) + large(root, binary=False) + _configurations(root)
        begin = time.process_time()
        local = _local(root)
        alone = time.process_time() - begin
        whole, calls, rows = _on_spark(root, Path(name) / "out", kill=False)
        different = sum(not _same(local, Path(name) / "out", table.name) for table in PER_JOB)
        killed, _, _ = _on_spark(root, Path(name) / "again", kill=True)
        parts = size // batches.BATCH + 1
        total = sum(whole.values())
        about = ", ".join(f"{what} {seconds:.0f} s" for what, seconds in whole.items())
        what = f"{rows:,} histories, {size / 1e9:.2f} GB"
        return [
            Line(f"{what}: engine alone", alone, "s of processor"),
            Line("the same on Spark", total, "s of processor", 2.2 * alone, note=f"goal; {about}"),
            Line("its Python part", whole.get("Python", 0.0), "s of processor", alone, note="goal"),
            Line("with a worker that is killed", sum(killed.values()), "s of processor", 1.5 * total, note="goal"),
            Line("calls of the engine", calls, "", size / (48 << 20) + max(parts, 4), note="goal"),
            Line("tables that differ", different, "", note="goal: 0"),
        ]


def run() -> list[Line]:
    """All measurements, or why there are none."""
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        return [Line("PySpark or Java is not installed", 0, "")]
    return _all()


def _configurations(root: Path) -> int:
    """Write a configuration beside each history; their size in bytes."""
    size = 0
    for number, history in enumerate(sorted(root.rglob("*.jhist"))):
        job = history.name.split("-")[0]
        conf = history.with_name(f"{job}_conf.xml")
        if not conf.exists():
            plan = PLANS[number % len(PLANS)]
            size += conf.write_bytes(writer.conf_xml(plan).replace(plan.id.encode(), job.encode()))
    return size


PLANS = [make(SMALL, number + 1, CLUSTER + 1000 * number, number) for number in range(20)]


def _local(root: Path) -> Result:
    session = Session([root], [VIEW], settings=LiveSettings(cache=False, workers=1))
    session.scan(final=True)
    result = session.compute(VIEW.name, JobParameters(), now_ms=NOW)
    session.close()
    return result


def _same(local: Result, out: Path, name: str) -> bool:
    written = pl.read_parquet(out / f"table={name}" / "*.parquet", hive_partitioning=False)
    rows = local.table(name)
    return written.sort(written.columns[:2]).equals(rows.sort(rows.columns[:2]))


def _on_spark(root: Path, out: Path, *, kill: bool) -> tuple[dict[str, float], int, int]:
    """Seconds of processor by kind of process, calls of the engine, and jobs."""
    import pyspark
    from pyspark.sql import SparkSession

    os.environ |= {
        "SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(Path(__file__).parents[2]),
    }  # fmt: skip
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    builder: Any = SparkSession.builder.master("local-cluster[2,1,1024]").appName("loadlens bench")
    for key, value in {
        "spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": quick, "spark.executor.extraJavaOptions": quick, "spark.network.timeout": "900s",
    }.items():  # fmt: skip
        builder = builder.config(key, value)
    calls = Path(tempfile.mkdtemp(dir=out.parent))
    with _measured() as seconds:
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        work = partial(Counted, folder=str(calls), kill=kill)
        outcome = fleet_run.run(
            spark, fleet_run.Order(VIEW, [str(root)], str(out), JobParameters(), NOW), make_work=work
        )
        gateway = spark.sparkContext._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
        SparkSession._instantiatedSession = None
        type(spark.sparkContext)._gateway = type(spark.sparkContext)._jvm = None
    return seconds, len(list(calls.glob("call-*"))), outcome.rows["jobs"]


@contextmanager
def _measured() -> Iterator[dict[str, float]]:
    """Processor time of all processes below this one, looked at twice a second; and of this one."""
    seen: dict[int, tuple[str, float]] = {}
    ended = threading.Event()
    seconds: dict[str, float] = {}

    def look() -> None:
        while not ended.wait(0.5):
            for process, (what, used) in _below(os.getpid()).items():
                seen[process] = what or seen.get(process, ("driver", 0.0))[0], used

    thread = threading.Thread(target=look, daemon=True)
    begin = time.process_time()
    thread.start()
    try:
        yield seconds
    finally:
        ended.set()
        thread.join()
        seconds["here"] = time.process_time() - begin
        for what, used in seen.values():
            seconds[what] = seconds.get(what, 0.0) + used


def _below(top: int) -> dict[int, tuple[str, float]]:
    """The processes below ``top``: its command (none for one that ends), and its processor time."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    tick = os.sysconf("SC_CLK_TCK")
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(place.name)], used[int(place.name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / tick
    found = {}
    for process in parents:
        above = process
        while above in parents and above != top:
            above = parents[above]
        if above != top or process == top:
            continue
        try:
            words = Path(f"/proc/{process}/cmdline").read_text()
        except OSError:
            continue
        kind = "Python" if "python" in words.split("\0")[0] else "executors" if "ExecutorBackend" in words else "driver"
        found[process] = (kind if words else "", used[process])
    return found
