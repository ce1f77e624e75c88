"""A large answer of Prometheus: CPU time and memory to decode it, to read it, and of a whole report of broker load.

Each figure is of a process of its own: its CPU time, and how much its memory grew beyond the file's bytes. Time grows with the
file's size if the figures of two sizes are in their proportion. ``LOADLENS_BENCH_FEED_MB`` lists the sizes in MB (125,500).
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from engine.broker_load.reading.metric_scrape import MetricScrape
from engine.broker_load.tables.inputs import METRICS
from engine.core.reading import Source
from engine.core.tables import Parts
from tests.bench.line import Line

SIZES = tuple(int(text) for text in os.environ.get("LOADLENS_BENCH_FEED_MB", "125,500").split(","))
AT = 1_700_000_000
STEP_S = 60
POINTS = 10_080
"""A week of scrapes, minute by minute."""
BROKERS, PARTITIONS = 6, 3
MB = 1 << 20


class Series(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class Data(msgspec.Struct):
    result: list[Series]


class Answer(msgspec.Struct):
    data: Data


def write(path: Path, megabytes: int) -> int:
    """Write an answer of about that size: a week of counters by broker and topic. Returns the number of points."""
    written, number = 0, 0
    with path.open("wb") as file:
        file.write(b'{"status":"success","data":{"resultType":"matrix","result":[')
        while written < megabytes * MB:
            topic, broker = f"t{number // BROKERS:05d}", number % BROKERS
            labels = {
                "__name__": "kafka_server_brokertopicmetrics_bytesin_total",
                "instance": f"b{broker}:9404",
                "topic": topic,
            }
            values = [[AT + STEP_S * n, f"{1e9 + 61_440.5 * n + number:.1f}"] for n in range(POINTS)]
            text = json.dumps({"metric": labels, "values": values}, separators=(",", ":"))
            written += file.write((("," if number else "") + text).encode())
            number += 1
        file.write(b"]}}")
    return number * POINTS


def decode_loosely(data: bytes) -> None:
    """Decode as Python's own decoder does."""
    json.loads(data)


def decode_typed(data: bytes) -> None:
    """Decode into typed structures: the least that any reader can do."""
    msgspec.json.decode(data, type=Answer)


def read(data: bytes) -> None:
    """Read it as broker load does."""
    rows = MetricScrape().read(Source("/m/a.json", "a.json", 0, len(data)), data, None, True).rows["metrics"]
    parts = rows.frames() if isinstance(rows, Parts) else [METRICS.frame(rows)]
    assert sum(part.height for part in parts)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def child(what: str, path: Path) -> None:
    """Do one thing in this process and print its CPU seconds and how its memory grew, in MB."""
    work = {"json.loads": decode_loosely, "typed": decode_typed, "read": read}[what]
    data = path.read_bytes()
    before, begin = peak_mb(), time.process_time()
    work(data)
    print(json.dumps([time.process_time() - begin, peak_mb() - before]))


def measure(what: str, path: Path) -> tuple[float, float]:
    done = subprocess.run([sys.executable, "-m", "tests.bench.feeds", what, str(path)], capture_output=True, check=True)
    seconds, megabytes = json.loads(done.stdout)
    return seconds, megabytes


def report(folder: Path) -> tuple[float, float]:
    """CPU seconds and peak memory (MB) of a whole report."""
    command = [sys.executable, "-m", "tui", "report", "broker-load", str(folder), "--no-cache", "--table", "brokers"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def run() -> list[Line]:
    lines: list[Line] = []
    for size in SIZES:
        with tempfile.TemporaryDirectory(prefix="loadlens-bench-") as folder:
            path = Path(folder) / "in" / "kafka.json"
            path.parent.mkdir()
            points = write(path, size)
            loose, typed = (measure(what, path) for what in ("json.loads", "typed"))
            own = measure("read", path)
            whole = report(path.parent)
        name = f"{size} MB, {points / 1e6:.1f} million points"
        lines += [
            Line(f"{name}: json.loads", loose[0], "s", note=f"{loose[1]:,.0f} MB beside the file"),
            Line(f"{name}: decoded into typed structures", typed[0], "s", note=f"{typed[1]:,.0f} MB beside the file"),
            Line(f"{name}: the reader", own[0], "s", 3 * loose[0], note=f"{own[1]:,.0f} MB beside the file; "
                 f"{own[0] / loose[0]:.2g} times json.loads, {own[0] / typed[0]:.2g} times the typed decoding"),
            Line(f"{name}: report, CPU", whole[0], "s",
                 note=f"{whole[1]:,.0f} MB at most, {whole[1] * MB / points:,.0f} bytes a point"),
        ]  # fmt: skip
    return lines


if __name__ == "__main__":
    child(sys.argv[1], Path(sys.argv[2]))
