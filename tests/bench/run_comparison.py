"""Time the run comparison beside perf-tests' benchmark tool (``benchmark/``: 0.3 s and 4.4 s on 2 cores)."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from engine.live.session import LiveSettings, Session
from engine.run_comparison.view import VIEW
from tests.bench.line import Line

JOBS = ("ci-left-cluster", "ci-right-cluster")
SIZES = {"2 x 60 runs": (60, 204, 0.3), "2 x 500 runs": (500, 684, 4.4)}
"""Runs per job, items per run (three percentiles each: 612 and 2,052 metrics), seconds of the benchmark tool."""


HISTORIES = (100, 300, 1_000)
"""Runs on both sides together before another one arrives."""

ARRIVAL_GOAL_MS = {300: 300.0}
"""Milliseconds in which a run of 2,052 metrics is in statistical mode's answer, by runs before it."""


def write_run(folder: Path, items: int, rng: np.random.Generator, factor: float, hour: int) -> None:
    """One run as the CI lays it out, begun at an hour of its own: API latency of two tests and pod startup."""
    artifacts = folder / "artifacts"
    artifacts.mkdir(parents=True)
    start = 1_700_000_000 + hour * 3600
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


def write_jobs(root: Path, runs: int, items: int, first: int = 0) -> None:
    """Two jobs with runs ``first`` to ``runs``; the right one is 10 % slower."""
    rng = np.random.default_rng(7 + first)
    for side, job in enumerate(JOBS):
        for i in range(first, runs):
            number = 2_068_000_000_000_000_000 + i * 86_400 + side
            write_run(root / job / str(number), items, rng, 1.0 + 0.1 * side, i)


def _session(root: Path) -> Session:
    return Session([root], [VIEW], settings=LiveSettings(cache=False))  # every file is read, none taken from a cache


def _parameters(mode: str, **more: Any) -> Any:
    return VIEW.parameters(left=(JOBS[0],), right=(JOBS[1],), mode=mode, select="all", **more)


def took(work: Callable[[], object], times: int = 1) -> tuple[float, float]:
    """Return the seconds of the fastest of ``times`` calls: by the clock, and of the processor with child processes."""

    def used() -> float:
        times = os.times()
        return time.process_time() + times.children_user + times.children_system

    seconds = []
    for _ in range(times):
        begin, before = time.perf_counter(), used()
        work()
        seconds.append((time.perf_counter() - begin, used() - before))
    return _least(seconds)


def _least(seconds: list[tuple[float, float]]) -> tuple[float, float]:
    return min(clock for clock, _ in seconds), min(spent for _, spent in seconds)


def _line(name: str, seconds: tuple[float, float], unit: str, reference: float | None = None, note: str = "") -> Line:
    """Make a line of clock time, with processor time in the note."""
    scale = 1000.0 if unit == "ms" else 1.0
    clock, used = (value * scale for value in seconds)
    return Line(name, clock, unit, reference, None, f"{note}{'; ' if note else ''}processor {used:.3g} {unit}")


def _sizes() -> list[Line]:
    """Time reading and comparing in upstream mode, then statistics and another threshold, at both sizes."""
    lines: list[Line] = []
    for name, (runs, items, tool) in SIZES.items():
        root = Path(tempfile.mkdtemp(prefix="loadlens-bench-"))
        try:
            write_jobs(root, runs, items)

            def whole(root: Path = root) -> None:
                session = _session(root)
                session.scan(final=True)
                session.compute("run-comparison", _parameters("upstream"))

            lines.append(_line(f"read and compare, upstream mode, {name}", took(whole, 2), "s", tool, "benchmark tool"))
            session = _session(root)
            session.scan(final=True)

            def shown(session: Session = session, **more: Any) -> None:
                session.compute("run-comparison", _parameters("statistical", **more))

            lines.append(_line(f"statistical mode, 2,000 draws, {name}", took(shown), "s", 2.0, "budget"))
            limits = iter([0.7, 0.71, 0.72, 0.73, 0.74])
            again = took(lambda shown=shown, limits=limits: shown(threshold=next(limits)), 4)  # type: ignore[misc]
            lines.append(_line(f"another threshold, {name}", again, "ms", 50.0, "budget"))
        finally:
            shutil.rmtree(root, ignore_errors=True)
    return lines


_MODES: tuple[tuple[str, dict[str, str]], ...] = (
    ("upstream", {}), ("upstream", {"scheme": "ks"}), ("published", {}), ("statistical", {}),
)  # fmt: skip
ARRIVALS = 8
"""Runs that arrive one after another in each mode, on both sides by turns; the fastest counts, the slowest is noted."""


def _arrivals() -> list[Line]:
    """Time one arriving run of 2,052 metrics after 100, 300 and 1,000 runs, in each mode.

    From the hint that a folder is new to the answer, reading included.
    """
    lines: list[Line] = []
    first: dict[str, float] = {}
    root = Path(tempfile.mkdtemp(prefix="loadlens-bench-"))
    try:
        before, newest = 0, 2_069_900_000_000_000_000
        for runs in HISTORIES:
            write_jobs(root, runs // 2, 684, before)
            before = runs // 2
            session = _session(root)
            session.scan(final=True)
            arrived = []
            for mode, more in _MODES:
                answer = partial(session.compute, "run-comparison", _parameters(mode, **more))
                answer()
                looks, answers = [], []
                for number in range(ARRIVALS):
                    newest += 1
                    folder = root / JOBS[number % 2] / str(newest)
                    arrived.append(folder)
                    write_run(folder, 684, np.random.default_rng(newest), 1.0, 10_000 + newest % 1000)
                    looks.append(took(partial(session.look, {str(folder)})))
                    answers.append(took(answer))
                whole = [
                    (look[0] + answer_[0], look[1] + answer_[1]) for look, answer_ in zip(looks, answers, strict=True)
                ]
                clock, used = (1000.0 * value for value in _least(whole))
                name = f"one run arrives after {runs}: {mode} mode{' (KS-Test)' if more else ''}"
                times = clock / first.setdefault(name.rpartition(":")[2], clock)
                look = 1000.0 * _least(looks)[0]
                slowest = 1000.0 * max(value for value, _ in whole)
                note = (
                    f"{times:.2f} times that after {HISTORIES[0]}; looking and reading {look:.2g} ms; "
                    f"slowest {slowest:.3g} ms; processor {used:.3g} ms"
                )
                goal = ARRIVAL_GOAL_MS.get(runs) if mode == "statistical" else None
                lines.append(Line(name, clock, "ms", goal, note=note))
            lines.append(_line(f"  looking at all folders of {runs} runs", took(session.scan, 3), "ms"))
            for folder in arrived:
                shutil.rmtree(folder)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return lines


def run() -> list[Line]:
    """Time both sizes, a threshold, and arriving runs against the length of the history."""
    return _sizes() + _arrivals()
