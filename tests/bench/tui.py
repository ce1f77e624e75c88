"""The dashboard on a real pseudo-terminal: start-up, bytes on the wire, keys, event to screen, processor and memory.

Budgets are those the design set; everything but the last two lines runs on fake data so that it measures the screen alone.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from sample_data.job_heuristics import writer
from sample_data.job_heuristics.plans import CLUSTER, Shape, make
from tests.bench.line import Line, best
from tests.tui.terminal import ROOT, Terminal

FAKE = ["-m", "tests.tui.program"]


def run() -> list[Line]:
    """All measurements."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        return [*_start(home), *_data(home), *_bytes(home), *_window(), *_keys(home), *_live(home)]


def _start(home: Path) -> list[Line]:
    folder = home / "empty"
    folder.mkdir()
    text, used = [], []
    for _ in range(6):
        with Terminal(["-m", "tui", str(folder)], home, (200, 50), env=_installed(home)) as t:
            text.append(t.see("Overview"))
            used.append(_cpu(t.process.pid))
            t.send(b"q")
            t.ended()
    del text[0], used[0]  # that one made the byte code
    return [
        Line("first text of the dashboard", statistics.median(text), "s", 0.4, note="budget; median of 5 at 200x50"),
        Line("processor time to first text", statistics.median(used), "s", 0.4, note="the same on a busy machine"),
    ]


def _installed(home: Path) -> dict[str, str]:
    """Environment of a program with byte code, as it is once installed; the source tree stays clean."""
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(home / "bytecode")}


def _data(home: Path) -> list[Line]:
    """From the start to the first numbers of the sample folder."""
    words = ["-m", "tui", str(ROOT / "sample_data" / "job_heuristics" / "files"), "--view", "job-heuristics"]
    took, used = [], []
    for _ in range(4):
        with Terminal(words, home, (200, 50), env=_installed(home)) as t:
            took.append(t.see("severe or worse"))
            used.append(_cpu(t.process.pid))
            t.send(b"q")
            t.ended()
    return [
        Line("first data of the sample folder", statistics.median(took[1:]), "s", 1.0, note="budget; median of 3"),
        Line("processor time to first data", statistics.median(used[1:]), "s", note="all threads"),
    ]


def _bytes(home: Path) -> list[Line]:
    lines = []
    for size, first, tick in (((200, 50), 90_000, 3_000), ((80, 24), 40_000, 2_000)):
        label = f"{size[0]}x{size[1]}"
        with Terminal([*FAKE, "1", "500", "0.12"], home, size) as t:
            t.see("node-000")
            t.quiet(0.3, 5)
            lines.append(Line(f"first paint {label}", len(t.output), "bytes", first, note="budget"))
            lines.append(Line(f"1 Hz, 12% of rows {label}", t.bytes_during(4.0) / 4, "bytes/s", tick, note="budget"))
        with Terminal([*FAKE, "1", "500", "1"], home, size) as t:
            t.see("node-000")
            t.quiet(0.3, 5)
            lines.append(Line(f"1 Hz, all rows {label}", t.bytes_during(3.0) / 3, "bytes/s", 16_000, note="budget"))
    with Terminal([*FAKE, "0", "500", "0"], home, (200, 50)) as t:
        t.see("node-000")
        t.quiet(1.0)
        before = _cpu(t.process.pid)
        idle = t.bytes_during(5.0)
        lines.append(Line("idle", idle / 5, "bytes/s", note="budget 0"))
        lines.append(Line("idle processor", (_cpu(t.process.pid) - before) / 5 * 100, "%", 0.5, note="budget"))
        lines.append(Line("memory, 500 rows", _rss(t.process.pid) / 2**20, "MB", 150, note="budget"))
    with Terminal([*FAKE, "1", "500", "0.12"], home, (200, 50)) as t:
        t.see("node-000")
        t.quiet(0.3, 5)
        before = _cpu(t.process.pid)
        time.sleep(6)
        lines.append(Line("processor at 1 Hz", (_cpu(t.process.pid) - before) / 6 * 100, "%", 3, note="budget"))
    return lines


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _window() -> list[Line]:
    from tests.tui.fakes import NODES, frame
    from tui.widgets.table import window as w
    from tui.widgets.table.layout import layout
    from tui.widgets.table.window import Choice, build

    data = frame(100_000)
    built = build(NODES, data, Choice())
    places = layout(built.columns, 200)
    return [
        Line("sort 100k rows by number", best(lambda: build(NODES, data, Choice(sort="cpu"))) * 1000, "ms", 100,
             note="budget, off the loop"),
        Line("sort 100k rows by text", best(lambda: build(NODES, data, Choice(sort="note"))) * 1000, "ms", 100,
             note="budget, off the loop"),
        Line("filter 100k rows", best(lambda: build(NODES, data, Choice(filter="rack cpu>50"))) * 1000, "ms", 100,
             note="budget, off the loop"),
        Line("a page of 48 rows", best(lambda: w.lines(built, 50_000, 50_048, places, 200)) * 1000, "ms", 50,
             note="budget"),
        Line("find a row by its key in 100k", best(lambda: built.locate(("node-99999",))) * 1000, "ms", 5,
             note="on the loop"),
    ]  # fmt: skip


def _keys(home: Path) -> list[Line]:
    took = []
    with Terminal([*FAKE, "0", "100000", "0"], home, (200, 50)) as t:
        t.see("node-000", 60)
        t.quiet(0.5)
        for _ in range(10):
            before = len(t.output)
            begun = time.perf_counter()
            t.send(b"\x06")
            t.until(lambda before=before: len(t.output) > before + 2_000)
            took.append(time.perf_counter() - begun)
            t.quiet(0.15)
    return [
        Line(
            "page down in 100k rows, key to screen",
            statistics.median(took) * 1000,
            "ms",
            50,
            note="budget; pty poll 10 ms",
        )
    ]


def _live(home: Path) -> list[Line]:
    """A few lines appended to a file until their numbers are on screen, through the real engine, watcher and screen."""
    lines = []
    for view, (source, pieces) in {"job-heuristics": _history(home), "query-profile": _profile(home)}.items():
        first = []
        with Terminal(["-m", "tui", str(source.parent), "--view", view], home, (160, 50)) as t:
            t.quiet(1.5, 60)
            for piece in pieces:
                before, seen = len(t.output), len(t.arrived)
                begun = time.monotonic()
                with source.open("ab", buffering=0) as file:
                    file.write(piece)
                t.until(lambda before=before: len(t.output) > before + 20, 10)  # type: ignore[misc]
                t.quiet(0.4, 10)
                first.append(1000 * (t.arrived[seen][0] - begun))
            t.send(b"q")
        label = f"append to screen, {view}: median of {len(first)}"
        lines.append(Line(label, statistics.median(first), "ms", 100, note=f"worst {max(first):.0f} ms"))
    return lines


def _history(home: Path) -> tuple[Path, list[bytes]]:
    """A running job of which a third is there, and what it grows by."""
    job = make(Shape("grows", "bob", "etl", maps=200, reduces=4, slots=20), 900, CLUSTER, 1)
    rows = writer.text(job).splitlines(keepends=True)
    (home / "jobs").mkdir()
    source = home / "jobs" / job.file_name
    begin = len(rows) // 3
    source.write_bytes(b"".join(rows[:begin]))
    return source, [b"".join(rows[at : at + 20]) for at in range(begin, begin + 400, 20)]


def _profile(home: Path) -> tuple[Path, list[bytes]]:
    """An hour of a server's CPU and two classes, and the minutes it grows by."""
    rows = [f"{i},{1000 + i * 7 % 90},{100 + i * 3 % 50},{50 + i * 5 % 40}\n".encode() for i in range(80)]
    (home / "profile").mkdir()
    source = home / "profile" / "profile.csv"
    source.write_bytes(b"t,user_us,a,b\n" + b"".join(rows[:60]))
    return source, rows[60:]
