"""What a second process reads ahead: a session takes it, and its inputs are the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.job_heuristics.view import VIEW
from engine.live.files.scan import FirstScan
from engine.live.options import LiveSettings
from engine.live.pool import read_ahead
from engine.live.pool.read_ahead import ReadAhead
from engine.live.pool.tasks import FileTask, Task
from engine.live.session import Session
from sample_data.job_heuristics import writer
from sample_data.job_heuristics.plans import CLUSTER, Shape, make

SETTINGS = LiveSettings(cache=False, workers=1)


def written(folder: Path, *, binary: bool = False) -> list[Path]:
    """Two histories with a bad line in each, and a configuration."""
    paths = []
    for n in range(2):
        job = make(Shape("hourly", "ann", "etl", maps=20, reduces=3, spread=0.3), n, CLUSTER + n, n)
        text = writer.binary(job) if binary else writer.text(job) + b'{"type":"TASK_STARTED","event":3}\n'
        paths.append(folder / job.file_name)
        paths[-1].write_bytes(text)
    (folder / f"{job.id}_conf.xml").write_bytes(writer.conf_xml(job))
    return paths


def ahead_of(begins: dict[str, int], *roots: Path) -> ReadAhead:
    """What a second process will read, which nobody has done yet."""
    changes = FirstScan(roots, SETTINGS).changes.changed
    return ReadAhead(begins, {path: changes.get(path, (0, 0, 0, 0, 0)) for path in begins})


def write(ahead: ReadAhead, *roots: Path) -> None:
    """Do the second process's work here."""
    places = tuple(map(str, roots))
    whole = tuple(
        FileTask(path, places[0], ahead._stats[path]) for path, begin in sorted(ahead.begins.items()) if not begin
    )
    ahead.write(Task(whole, ("engine.job_heuristics.view",), places, True, "", SETTINGS), VIEW.kinds)
    os.close(ahead._told)


def read(folder: Path, ahead: ReadAhead | None = None) -> tuple[dict[str, Any], Any]:
    session = Session([folder], [VIEW], settings=SETTINGS, pool=ahead)
    session.scan(final=True)
    inputs = session.inputs(VIEW.name)
    names = {table.name for kind in VIEW.kinds for table in kind.tables}
    return {name: inputs.table(name) for name in sorted(names)}, inputs.problems


def same(folder: Path, ahead: ReadAhead) -> bool:
    """Whether a session's inputs are those that it reads alone."""
    (tables, problems), (expected, others) = read(folder, ahead), read(folder)
    rows = [
        [frame.sort("file", maintain_order=True).drop("file") for frame in found.values()]
        for found in (tables, expected)
    ]
    return problems == others and all(map(pl.DataFrame.equals, *rows))


@pytest.mark.parametrize("begin", [0, 3])
def test_inputs_are_the_same_and_every_outcome_is_taken(
    begin: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.live.ingest.file_content.BLOCK", 20_000)
    monkeypatch.setattr("engine.live.ingest.file_content.WHOLE", 1_000)
    monkeypatch.setattr(read_ahead, "FRONT", 10_000)
    first, second = written(tmp_path)
    sizes = {str(path): path.stat().st_size for path in (first, second)}
    share = sum(sizes.values()) if not begin else sizes[str(second)] // begin
    begins = dict(read_ahead._begins(sizes, (), share))
    assert len(begins) == (1 if begin else 2) and bool(begins[str(second)]) is bool(begin)
    ahead = ahead_of(begins, tmp_path)
    write(ahead, tmp_path)
    assert ahead.result("all of them") is None and (len(ahead._read) > 2) is bool(begin)
    assert same(tmp_path, ahead) and len(read(tmp_path)[1]) == 2
    assert set(ahead._read) == ({0} if begin else set()), "outcomes that no reader asked for"


def test_a_binary_history_that_was_cut_is_read_by_the_session(tmp_path: Path) -> None:
    first, second = written(tmp_path, binary=True)
    ahead = ahead_of({str(first): 30_000, str(second): 0}, tmp_path)
    write(ahead, tmp_path)
    assert same(tmp_path, ahead)


def test_a_file_that_shrank_is_read_by_the_session(tmp_path: Path) -> None:
    first, second = written(tmp_path)
    ahead = ahead_of({str(first): 2 * first.stat().st_size, str(second): 0}, tmp_path)
    write(ahead, tmp_path)
    assert same(tmp_path, ahead)


def test_a_file_that_another_one_replaced_is_read_by_the_session(tmp_path: Path) -> None:
    first, second = written(tmp_path)
    ahead = ahead_of({str(first): 0, str(second): 0}, tmp_path)
    write(ahead, tmp_path)
    other = tmp_path / "other"
    other.write_bytes(second.read_bytes().replace(b"hourly", b"weekly"))
    other.replace(second)
    assert same(tmp_path, ahead)


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_links_to_elsewhere_and_pipes_are_left_to_the_session(kind: str, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    place = inside / written(outside)[0].name
    if kind == "link":
        place.symlink_to(outside / place.name)
    else:
        os.mkfifo(place)
    assert dict(read_ahead._begins({str(place): 1 << 40}, (str(inside),), 1 << 39)) == {str(place): 1 << 39}
    for begin in (0, 1 << 10):
        ahead = ahead_of({str(place): begin}, inside)
        write(ahead, inside)
        assert same(inside, ahead)


def test_a_process_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = written(tmp_path)
    monkeypatch.setattr(read_ahead, "PATIENCE_S", 0.1)
    monkeypatch.setattr(ReadAhead, "write", lambda *_: time.sleep(60))
    ahead = ahead_of({str(first): 30_000, str(second): 0}, tmp_path)
    ahead.fork(Task((), (), (), True, "", SETTINGS), VIEW.kinds)
    assert same(tmp_path, ahead) and ahead._read == {}
    assert os.waitstatus_to_exitcode(os.waitpid(ahead._process, 0)[1]) == -signal.SIGKILL


def test_report_prints_the_same(tmp_path: Path) -> None:
    written(tmp_path)
    program = (
        "import sys, tui.cli.compute as c; from tui.__main__ import main\n"
        "worth, view, taken = int(sys.argv.pop(1)), c._view, []\n"
        "def late(wanted):\n"
        "    found = view(wanted)\n"
        "    from engine.live.pool import read_ahead as r\n"
        "    result, r.WORTH = r.ReadAhead.result, worth\n"
        "    r.ReadAhead.result = lambda *given: taken.append(result(*given)) or taken[-1]\n"
        "    return found\n"
        "c._view = late; main(); print(len(taken[0].files) if taken else 0, file=sys.stderr)"
    )
    words = ["report", VIEW.name, str(tmp_path), "--format", "json", "--at", "2026-01-01T00:00:00Z", "--no-cache"]
    outcomes = []
    for worth in ("0", str(1 << 40)):
        done = subprocess.run([sys.executable, "-c", program, worth, *words], capture_output=True, check=True)
        outcomes.append((json.loads(done.stdout), int(done.stderr)))
    assert outcomes[0][0] == outcomes[1][0]
    assert outcomes[0][1] and not outcomes[1][1]
