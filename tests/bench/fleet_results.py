"""A fleet result of a million jobs: opening it, sorting and filtering its list, verdicts of one job, memory.

``LOADLENS_BENCH_JOBS`` sets the number of jobs, ``LOADLENS_BENCH_DAYS`` that of day folders. References are the goals.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from engine.core.incremental import Memo
from engine.core.view import Context
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.tables import HEURISTICS
from engine.job_heuristics.view import VIEW
from engine.live.options import LiveSettings
from engine.live.session import Session
from tests.bench._fleet_results import write
from tests.bench.line import Line, best
from tests.tui.terminal import Terminal
from tui.widgets.table.window import Choice, build

JOBS = int(os.environ.get("LOADLENS_BENCH_JOBS", "1000000"))
DAYS = int(os.environ.get("LOADLENS_BENCH_DAYS", "20"))


def run() -> list[Line]:
    """All measurements."""
    with tempfile.TemporaryDirectory(prefix="loadlens-bench-") as name:
        folder = Path(name) / "fleet"
        write(folder, JOBS, DAYS)
        return [*_dashboard(folder, Path(name)), *_list(folder)]


def _dashboard(folder: Path, home: Path) -> list[Line]:
    """From the start of the program to the list, and its memory."""
    empty = home / "empty"
    empty.mkdir()
    env = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(home / "bytecode")}
    took: dict[str, list[float]] = {"This tab reads": [], "severe or worse": []}
    used, most, rest = 0.0, 0.0, 0.0
    for _ in range(4):
        for place, text in ((empty, "This tab reads"), (folder, "severe or worse")):
            with Terminal(["-m", "tui", str(place), "--view", "job-heuristics"], home, (200, 50), env=env) as t:
                took[text].append(t.see(text, 60))
                used = _processor_s(t.process.pid)
                time.sleep(3)
                most, rest = (_megabytes(t.process.pid, field) for field in ("VmHWM", "VmRSS"))
                t.send(b"q")
                t.ended()
    nothing, listed = (statistics.median(each[1:]) for each in took.values())  # the first made the byte code
    name = f"{JOBS:,} jobs of {DAYS} days"
    return [
        Line(f"{name}: listed after the start of the program", listed, "s", 2.0, note="goal; median of 3"),
        Line("the same of a folder without files", nothing, "s"),
        Line("processor time until then", used, "s"),
        Line("memory three seconds later", rest, "MB", 600, note="goal"),
        Line("memory at most", most, "MB"),
    ]


def _list(folder: Path) -> list[Line]:
    """The list and one job in a session."""
    session = Session([folder], [VIEW], settings=LiveSettings(cache=False))
    session.scan(final=True)
    inputs, memo = session.inputs(VIEW.name), Memo()
    begin = time.process_time()
    result = VIEW.compute(inputs, JobParameters(), Context(0, memo=memo))
    lines = [Line("computing the result", time.process_time() - begin, "s of processor")]
    detail = result.detail
    for what, choice in (
        ("sort by a number", Choice(sort="used_mb_s", descending=True)),
        ("sort by a text", Choice(sort="name")),
        ("sort by severity", Choice(sort="severity", descending=True)),
        ("filter by a word", Choice(filter="team-7")),
        ("filter by a number", Choice(filter="maps>300")),
        ("filter and sort", Choice(sort="name", filter="user=user7")),
    ):
        seconds = best(lambda choice=choice: build(detail.listing_spec, detail.listing, choice))
        lines.append(Line(what, seconds, "s", 1.0, note="goal"))
    jobs = detail.listing["job_id"].gather_every(max(JOBS // 20, 1)).to_list()
    detail.stored.rows(HEURISTICS, jobs[0])
    begin = time.perf_counter()
    for job in jobs:
        detail.stored.rows(HEURISTICS, job)
    lines.append(Line("verdicts of one job", 1000 * (time.perf_counter() - begin) / len(jobs), "ms"))
    session.close()
    return lines


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _megabytes(pid: int, field: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1000
