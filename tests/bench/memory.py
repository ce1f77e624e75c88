"""Memory of broker load as scrapes come, one a minute: ``python -m tests.bench.memory [brokers partitions [scrapes ...]]``.

The rows of each scrape go into a store as in the live program; the view is computed after every tenth. Prints what the process
holds (RSS) after each of ``scrapes`` and the most it has held, and the ratios to the first of them.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.tables.inputs import INPUTS
from engine.broker_load.view import VIEW
from engine.core.incremental import Memo
from engine.core.view import FILE, Context, FileInfo, Inputs
from engine.live.store import RowFiles, Store
from tests.bench.broker_load import START_MS, synthetic
from tests.bench.line import Line

SCRAPES = (60, 600)
EVERY = 10
"""Scrapes after which the view is computed."""


def resident() -> int:
    """Return the bytes that this process holds now, after freed memory was returned."""
    with contextlib.suppress(OSError):
        time.sleep(1.5)  # Polars' allocator gives memory back after a while
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure(brokers: int, partitions: int, scrapes: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Return per number of scrapes the bytes held, and the most held until then."""
    tables = synthetic(brokers, partitions, 20)
    rng = np.random.default_rng(5)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        store = Store(INPUTS, RowFiles(lambda: Path(folder)), 1 << 30)
        store.put_frame("topology", tables["topology"], frozenset([1]))
        store.put_frame("capacity", tables["capacity"], frozenset([2]))
        infos = {n: FileInfo(n, f"f{n}", f"f{n}", "bench", 0, 0, 1) for n in (1, 2)}
        memo = Memo()
        first = tables["metrics"].drop(FILE)
        for place in range(1, max(scrapes) + 1):
            rows = first.with_columns(
                pl.lit(START_MS + 60_000 * place).alias("time_ms"),
                pl.col("value") * pl.Series(rng.uniform(0.9, 1.1, first.height)),
            )
            store.put(place + 2, {"metrics": rows}, rows.height)
            assert not store.flush()
            infos[place + 2] = FileInfo(place + 2, f"f{place}", f"f{place}", "bench", 0, 0, place)
            if place % EVERY == 0 or place in scrapes:
                snapshot = store.snapshot()
                inputs = Inputs(place, infos.copy(), (), snapshot, snapshot.of, _parts=snapshot.parts)
                VIEW.compute(inputs, BrokerLoadParameters(), Context(now_ms=0, memo=memo))
            if place in scrapes:
                del rows
                most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
                found.append((place, resident(), most))
                print(f"{place} scrapes: {found[-1][1] >> 20} MB, at most {most >> 20} MB", file=sys.stderr, flush=True)
    return found


def run() -> list[Line]:
    """Measure a cluster of 20 brokers × 5,000 partitions, in a process of its own."""
    answer = subprocess.run(
        [sys.executable, "-m", "tests.bench.memory"], stdout=subprocess.PIPE, check=True, text=True
    ).stdout.split()
    first, last = float(answer[0]), float(answer[-1])
    name = "broker load, 20 × 5,000 × RF 3: memory after {} scrapes"
    return [
        Line(name.format(SCRAPES[0]), first, "MB"),
        Line(name.format(SCRAPES[1]), last, "MB", first, note="at most twice as much asked"),
    ]


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    size = (given[0], given[1]) if len(given) > 1 else (20, 5_000)
    for _, held, _ in measure(*size, tuple(given[2:]) or SCRAPES):
        print(held >> 20)
