"""Where each view ends on one machine: processor time and memory of one result by the size of its inputs.

Each is computed in a process of its own, of which the memory at its peak is taken, inputs included. From two sizes follows what
one more unit takes.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from engine.core.incremental import Memo
from engine.live.options import LiveSettings
from engine.live.session import Session
from engine.views import entry
from tests.bench.line import Line


def _session(view: str, root: Path, **options: Any) -> None:
    chosen = entry(view).load()
    session = Session([root], [chosen], settings=LiveSettings(cache=False, workers=1))
    session.scan(final=True)
    session.compute(view, chosen.parameters(**options))
    session.close()


def histories(count: int) -> None:
    """Job heuristics of histories of 70 KB."""
    from tests.bench.job_heuristics import many

    with tempfile.TemporaryDirectory() as name:
        many(Path(name), count)
        _begin()
        _session("job-heuristics", Path(name))


def scrapes(count: int) -> None:
    """Broker load of 50 brokers with 10,000 partitions, ``count`` scrapes."""
    from tests.bench.broker_load import compute, inputs_of, synthetic

    tables = synthetic(50, 10_000, 20, count)
    _begin()
    compute(inputs_of(tables, ticks=count), Memo())


def intervals(count: int) -> None:
    """Query profile of 1,000 classes, ``count`` intervals."""
    from tests.bench.query_profile import made_table

    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "table.csv").write_bytes(made_table(1000, count))
        _begin()
        _session("query-profile", Path(name))


def runs(count: int) -> None:
    """Run comparison of ``count`` runs on each side, 300 metrics."""
    from tests.bench.run_comparison import JOBS, write_jobs

    with tempfile.TemporaryDirectory() as name:
        write_jobs(Path(name), count, 100)
        _begin()
        _session("run-comparison", Path(name), left=(JOBS[0],), right=(JOBS[1],))


def keys(count: int) -> None:
    """Ring placement of ``count`` keys with fingerprints as CSV, on 200 nodes."""
    from sample_data.ring_placement.make import Cluster

    rng = np.random.default_rng(1)
    tenants = pl.Series([f"tenant-{n:04d}" for n in range(500)])
    datasets = pl.Series([f"namespace-{n % 7}/service-{n:05d}" for n in range(20_000)])
    with tempfile.TemporaryDirectory() as name:
        Path(name, "ring.json").write_bytes(Cluster.fresh(size=200).page())
        for part in range(0, count, PART):
            dataset = pl.Series(rng.integers(0, 20_000, PART))
            rows = pl.DataFrame({
                "tenant": tenants.gather(dataset % 500),
                "dataset": datasets.gather(dataset),
                "bytes_per_s": rng.integers(1, 10_000, PART),
                "fingerprint": [f"{number:016x}" for number in rng.integers(0, 2**63, PART).tolist()],
            })  # fmt: skip
            rows.write_csv(Path(name, f"keys-{part}.csv"))
        _begin()
        _session("ring-placement", Path(name))


def raw_metrics(count: int) -> None:
    """Broker load without a topology, ``count`` raw metrics as CSV of 60 bytes a row."""
    topics = pl.Series([f"orders-and-payments-{n:03d}" for n in range(200)])
    with tempfile.TemporaryDirectory() as name:
        for part in range(0, count, PART):
            at = pl.int_range(part, part + PART, eager=True)
            rows = pl.DataFrame({
                "time_ms": 1_700_000_000_000 + at // 2_400 * 60_000,
                "metric": "TOPIC_BYTES_IN",
                "broker": at // 200 % 12,
                "topic": topics.gather(at % 200),
                "partition": pl.Series([None] * PART, dtype=pl.Int64),
                "value": (at * 7919 % 1_000_003) / 7,
            })  # fmt: skip
            with Path(name, "metrics.csv").open("ab") as file:
                rows.write_csv(file, include_header=not part)
        _begin()
        _session("broker-load", Path(name))


SIZES: tuple[tuple[Callable[[int], None], str, tuple[int, int]], ...] = (
    (histories, "histories", (1_000, 4_000)),
    (scrapes, "scrapes", (6, 30)),
    (intervals, "intervals", (1_000, 4_000)),
    (runs, "runs a side", (30, 120)),
    (keys, "keys", (1_000_000, 4_000_000)),
    (raw_metrics, "rows", (2_000_000, 6_000_000)),
)
PART = 500_000
"""Rows that are written at once: making them must not take more memory than what is measured."""

_since = 0.0


def _begin() -> None:
    global _since
    _since = time.process_time()


def _measured(work: Callable[[int], None], size: int) -> tuple[float, float]:
    """Seconds of processor from ``_begin`` on, and MB at the peak."""
    work(size)
    return time.process_time() - _since, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def run() -> list[Line]:
    """Two sizes of each view."""
    lines = []
    for work, unit, sizes in SIZES:
        found = []
        for size in sizes:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                found.append(pool.submit(_measured, work, size).result())
            name = f"{(work.__doc__ or '').splitlines()[0].rstrip('.')}: {size:,} {unit}"
            lines.append(Line(name, found[-1][0], "s of processor", note=f"{found[-1][1]:,.0f} MB at the peak"))
        more = sizes[1] - sizes[0]
        lines.append(
            Line(
                f"  one more of {unit}",
                1000 * (found[1][0] - found[0][0]) / more,
                "ms of processor",
                note=f"{1e6 * (found[1][1] - found[0][1]) / more:,.0f} bytes",
            )
        )
    return lines
