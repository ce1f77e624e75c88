"""What a second process reads ahead: a session takes it, and its inputs are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.job_heuristics.view import VIEW
from engine.live.ingest import read_ahead
from engine.live.options import LiveSettings
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


def ahead_of(begins: dict[str, int], roots: Sequence[str] = ()) -> read_ahead.ReadAhead:
    """The second process's work, done here."""
    file = tempfile.TemporaryFile()  # noqa: SIM115
    read_ahead.write(begins, roots, VIEW.kinds, SETTINGS, file)
    ended, alive = os.pipe()
    os.close(alive)
    return read_ahead.ReadAhead(begins, ended, file)


def read(folder: Path, ahead: read_ahead.ReadAhead | None = None) -> tuple[dict[str, Any], Any]:
    session = Session([folder], [VIEW], settings=SETTINGS, ahead=ahead)
    session.scan(final=True)
    inputs = session.inputs(VIEW.name)
    names = {table.name for kind in VIEW.kinds for table in kind.tables}
    return {name: inputs.table(name) for name in sorted(names)}, inputs.problems


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
    ahead = ahead_of(begins)
    tables, problems = read(tmp_path, ahead)
    expected, expected_problems = read(tmp_path)
    assert ahead._read == {}, "outcomes that no reader asked for"
    assert problems == expected_problems and len(problems) == 2
    for name, frame in tables.items():
        assert frame.equals(expected[name]), name


def test_a_binary_history_that_was_cut_is_read_by_the_session(tmp_path: Path) -> None:
    first, second = written(tmp_path, binary=True)
    ahead = ahead_of({str(first): 30_000, str(second): 0})
    tables, problems = read(tmp_path, ahead)
    expected, expected_problems = read(tmp_path)
    assert ahead._read is not None and problems == expected_problems
    assert all(frame.equals(expected[name]) for name, frame in tables.items())


def test_a_file_that_another_one_replaced_is_read_by_the_session(tmp_path: Path) -> None:
    first, second = written(tmp_path)
    ahead = ahead_of({str(first): 0, str(second): 0})
    other = tmp_path / "other"
    other.write_bytes(second.read_bytes().replace(b"hourly", b"weekly"))
    other.replace(second)
    tables, _ = read(tmp_path, ahead)
    expected, _ = read(tmp_path)
    assert all(frame.equals(expected[name]) for name, frame in tables.items())
    assert ahead._read, "outcomes of the file before"


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
    ahead = ahead_of({str(place): 0}, (str(inside),))
    assert dict(read_ahead._begins({str(place): 1 << 40}, (str(inside),), 1 << 39)) == {str(place): 1 << 39}
    assert ahead.take(str(place), place.stat(), "history", 0, 1, None) is None and ahead._read == {}


def test_report_prints_the_same(tmp_path: Path) -> None:
    written(tmp_path)
    program = (
        "import sys; from engine.live.ingest import read_ahead as r; from tui.__main__ import main\n"
        "r.WORTH = int(sys.argv.pop(1)); take = r.ReadAhead.take; taken = []\n"
        "r.ReadAhead.take = lambda *given: taken.append(take(*given)) or taken[-1]\n"
        "main(); print(sum(map(bool, taken)), file=sys.stderr)"
    )
    words = ["report", VIEW.name, str(tmp_path), "--format", "json", "--at", "2026-01-01T00:00:00Z", "--no-cache"]
    outcomes = []
    for worth in ("0", str(1 << 40)):
        done = subprocess.run([sys.executable, "-c", program, worth, *words], capture_output=True, check=True)
        outcomes.append((json.loads(done.stdout), int(done.stderr)))
    assert outcomes[0][0] == outcomes[1][0]
    assert outcomes[0][1] and not outcomes[1][1]
