"""Run comparison beside upstream's figures (perf-tests ``benchmark/``: 0.3 s and 4.4 s on 2 cores)."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from engine.live.session import LiveSettings, Session
from engine.run_comparison.view import VIEW
from tests.bench.line import Line, best

JOBS = ("ci-left-cluster", "ci-right-cluster")
SIZES = {"2 x 60 runs": (60, 204, 0.3), "2 x 500 runs": (500, 684, 4.4)}
"""Runs per job, items per run (three percentiles each: 612 and 2,052 metrics), upstream's seconds."""


def write_run(folder: Path, items: int, rng: np.random.Generator, factor: float, number: int) -> None:
    """One run as the CI lays it out: API latency of two tests and pod startup."""
    artifacts = folder / "artifacts"
    artifacts.mkdir(parents=True)
    start = 1_784_000_000 + number % 100_000 * 60
    (folder / "started.json").write_text(json.dumps({"timestamp": start}))
    (folder / "finished.json").write_text(json.dumps({"timestamp": start + 3600, "result": "SUCCESS"}))
    pods = 2
    each = (items - pods) // 2
    base = 20.0 + 600.0 * (np.arange(items) % 37) / 37.0
    values = np.sort(base[:, None] * factor * rng.lognormal(0.0, 0.2, (items, 3)), axis=1).round(6)
    at = 0
    for test, count in (("density", items - pods - each), ("load", each)):
        entries = []
        for i in range(count):
            labels = {
                "Count": str(50 + i), "Resource": f"resource-{i % 40}", "Scope": "resource", "SlowCount": "0",
                "Subresource": f"part-{i // 40}", "Verb": ("GET", "LIST", "POST", "PUT")[i % 4],
            }  # fmt: skip
            data = dict(zip(("Perc50", "Perc90", "Perc99"), values[at].tolist(), strict=True))
            entries.append({"data": data, "unit": "ms", "labels": labels})
            at += 1
        text = json.dumps({"version": "v1", "dataItems": entries}, indent=2)
        (artifacts / f"APIResponsiveness_{test}_2026-07-26T00:00:00Z.json").write_text(text)
    for test in ("density", "load"):
        data = dict(zip(("Perc50", "Perc90", "Perc99"), (values[at] * 10).tolist(), strict=True))
        at += 1
        entry = {"data": data, "unit": "ms", "labels": {"Metric": "pod_startup"}}
        text = json.dumps({"version": "1.0", "dataItems": [entry]}, indent=2)
        (artifacts / f"PodStartupLatency_PodStartupLatency_{test}_2026-07-26T00:00:00Z.json").write_text(text)


def write_jobs(root: Path, runs: int, items: int) -> None:
    """Two jobs of ``runs`` runs; the right one is 10 % slower."""
    rng = np.random.default_rng(7)
    for side, job in enumerate(JOBS):
        for i in range(runs):
            number = 2_068_000_000_000_000_000 + i * 86_400 + side
            write_run(root / job / str(number), items, rng, 1.0 + 0.1 * side, number)


def _session(root: Path) -> Session:
    return Session([root], [VIEW], settings=LiveSettings())


def _parameters(mode: str, **more: Any) -> Any:
    return VIEW.parameters(left=(JOBS[0],), right=(JOBS[1],), mode=mode, select="all", **more)


def run() -> list[Line]:
    """Reading and comparing in upstream mode at both sizes; statistics, a threshold, an arriving run at the larger."""
    lines: list[Line] = []
    for name, (runs, items, upstream) in SIZES.items():
        root = Path(tempfile.mkdtemp(prefix="loadlens-bench-"))
        try:
            write_jobs(root, runs, items)

            def whole(root: Path = root) -> None:
                session = _session(root)
                session.scan(final=True)
                session.compute("run-comparison", _parameters("upstream"))

            lines.append(
                Line(f"read and compare, upstream mode, {name}", best(whole, 2), "s", upstream, None, "upstream")
            )
            session = _session(root)
            session.scan(final=True)
            begin = time.perf_counter()
            session.compute("run-comparison", _parameters("statistical"))
            first = time.perf_counter() - begin
            lines.append(Line(f"statistical mode, 2,000 draws, {name}", first, "s", 2.0, None, "budget"))
            shown = iter([0.7, 0.71, 0.72, 0.73, 0.74])

            def moved(session: Session = session, shown: Iterator[float] = shown) -> None:
                session.compute("run-comparison", _parameters("statistical", threshold=next(shown)))

            again = best(moved, 4)
            lines.append(Line(f"another threshold, {name}", again * 1000, "ms", 50.0, None, "budget"))
            write_run(root / JOBS[0] / "2069999999999999999", items, np.random.default_rng(1), 1.0, 99_999)
            begin = time.perf_counter()
            session.scan()
            session.compute("run-comparison", _parameters("upstream"))
            arrived = time.perf_counter() - begin
            lines.append(Line(f"one run arrives, upstream mode, {name}", arrived * 1000, "ms"))
        finally:
            shutil.rmtree(root, ignore_errors=True)
    return lines
