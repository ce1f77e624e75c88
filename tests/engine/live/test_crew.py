"""A helping process: whoever reads, the rows are the same, and nothing depends on it."""

from __future__ import annotations

import gzip
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.inputs import FILE
from engine.job_heuristics.reading.kinds import HISTORY, History
from engine.job_heuristics.view import VIEW
from engine.live import crew, session, worker
from engine.live.crew import Board, Crew, module_of
from engine.live.files.first_look import Look
from engine.live.ingest import file_content
from engine.live.options import LiveSettings
from engine.live.session import Session
from sample_data.job_heuristics import writer
from sample_data.job_heuristics.plans import CLUSTER, Shape, make

SETTINGS = LiveSettings(cache=False)


@pytest.fixture(scope="module")
def texts() -> list[bytes]:
    return [writer.text(make(Shape(f"job {n}", "ann", "etl", maps=3, reduces=1), n, CLUSTER, n)) for n in range(1, 4)]


@pytest.fixture
def root(tmp_path: Path, texts: list[bytes]) -> Path:
    """Histories, configurations, odd ones, packed ones, foreign ones."""
    root = tmp_path / "root"
    root.mkdir()
    for n in range(24):
        old, new = str(CLUSTER).encode(), str(CLUSTER + n).encode()
        (root / f"{n:02d}.jhist").write_bytes(texts[n % 3].replace(old, new))
    (root / "05.jhist").write_bytes(texts[0][:-40])  # a last record without its end
    (root / "07.jhist").write_bytes(texts[0].replace(b"TASK_FINISHED", b"WHAT_IS_THIS"))
    (root / "11.jhist").write_bytes(b"no history\n")
    (root / "13.jhist").write_bytes(b"")
    (root / "15.jhist").write_bytes(gzip.compress(texts[1]))
    (root / "17.jhist.gz").write_bytes(gzip.compress(texts[2]))
    (root / "job_1_1_conf.xml").write_bytes(b"<configuration><property><name>a</name><value>b</value></property></x>")
    (root / "zz.bin").write_bytes(b"\x00\xff")
    old_enough(root)
    return root


def old_enough(root: Path) -> None:
    then = time.time() - 60
    for path in root.iterdir():
        os.utime(path, (then, then))


def rows(live: Session) -> dict[str, pl.DataFrame]:
    """Content of every table by path."""
    inputs = live.inputs(VIEW.name)
    paths = {number: info.path for number, info in inputs.files.items()}
    names = pl.DataFrame({FILE: list(paths), "path": list(paths.values())}, schema={FILE: pl.UInt32, "path": pl.String})
    found = {}
    for table in {t.name: t for kind in VIEW.kinds for t in kind.tables}.values():
        frame = inputs.table(table.name).join(names, FILE, "left", maintain_order="left").drop(FILE)
        found[table.name] = frame.sort("path", maintain_order=True)
    return found


def in_order(live: Session) -> bool:
    """Whether the ids of files follow their paths: of two sources of equal worth the first one counts."""
    files = live.inputs(VIEW.name).files
    paths = [files[number].path for number in sorted(files)]
    return paths == sorted(paths, key=lambda path: (path.endswith(".gz"), path))


def same(one: Session, other: Session) -> bool:
    a, b = one.inputs(VIEW.name), other.inputs(VIEW.name)
    described = [sorted((i.path, i.kind, i.size, i.mtime_ms, i.stale) for i in x.files.values()) for x in (a, b)]
    assert described[0] == described[1]
    assert a.problems == b.problems and one.problems == other.problems
    left, right = rows(one), rows(other)
    return all(frame.equals(right[name]) for name, frame in left.items())


def alone(root: Path) -> Session:
    found = Session([root], [VIEW], settings=SETTINGS)
    found.scan(final=True)
    return found


class Fake:
    """In the place of the process: everything happens here, beforehand."""

    def __init__(self, board: int) -> None:
        self.answers, self.out = os.pipe()

    def kill(self) -> None:
        for fd in (self.answers, self.out):
            os.close(fd)


def started(monkeypatch: pytest.MonkeyPatch, root: Path, before: Callable[[Crew, Board], None] | None = None) -> Crew:
    """A crew whose helper has done its work already; ``before``: what the session has done by then."""
    monkeypatch.setattr(crew, "_Process", Fake)
    look = session.Look([str(root)], SETTINGS)
    files = [(path, str(root), stat) for path, stat in look.changes.changed.items() if not path.endswith(".gz")]
    made = crew.start(files, [module_of(VIEW)], SETTINGS, final=True)
    assert made is not None
    fd = os.dup(made._board.fd)
    board = Board(fd)
    if before is not None:
        before(made, board)
    request = worker.msgspec.msgpack.decode(board.request(), type=crew.Request)
    process: Any = made._process
    worker.Hand(board, request, [VIEW], answers=process.out).work()
    board.close()
    return made


@pytest.mark.parametrize("met", [0, 1, 9, 20, 99])
def test_whoever_reads_the_rows_are_the_same(root: Path, monkeypatch: pytest.MonkeyPatch, met: int) -> None:
    monkeypatch.setattr(worker, "CLAIM", 10_000)
    monkeypatch.setattr(worker, "HAND_OVER", 100_000)

    def come(made: Crew, board: Board) -> None:
        board.view[0] = met

    live = Session([root], [VIEW], settings=SETTINGS, crew=started(monkeypatch, root, come))
    live.scan(final=True)
    assert same(live, alone(root))
    assert in_order(live)
    # It goes on as if it had read all itself.
    with (root / "03.jhist").open("ab") as file:
        file.write(b'{"type":"TASK_STARTED","event":{"org.apache.hadoop.mapreduce.jobhistory.TaskStarted":{"taskid":')
        file.write(b'"task_1_1_m_7","taskType":"MAP","startTime":1700000000000,"splitLocations":""}}}\n')
    (root / "21.jhist").unlink()
    live.scan(final=True)
    assert same(live, alone(root))


def test_waiting_is_used_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = started(monkeypatch, root)
    process: Any = made._process
    said = os.read(process.answers, 1 << 16)
    calls = []

    def work() -> None:
        calls.append(said)
        os.write(process.out, said)

    made.meanwhile = work
    live = Session([root], [VIEW], settings=SETTINGS, crew=made)
    live.scan(final=True)
    assert calls == [said] and made.meanwhile is None
    assert same(live, alone(root))


def test_files_that_change_meanwhile_are_read_here(root: Path, monkeypatch: pytest.MonkeyPatch, texts: Any) -> None:
    made = started(monkeypatch, root)
    (root / "20.jhist").write_bytes(texts[2])
    (root / "22.jhist").unlink()
    live = Session([root], [VIEW], settings=SETTINGS, crew=made)
    live.scan(final=True)
    assert same(live, alone(root))


@pytest.fixture(scope="module", params=["text", "binary"])
def large_bytes(request: pytest.FixtureRequest) -> bytes:
    job = make(Shape("large", "ann", "etl", maps=180, reduces=20), 1, CLUSTER, 1)
    return writer.text(job) if request.param == "text" else writer.binary(job)


@pytest.fixture
def large(tmp_path: Path, large_bytes: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One history that is larger than all else."""
    monkeypatch.setattr(file_content, "WHOLE", 1 << 16)
    monkeypatch.setattr(file_content, "EAGER", 1 << 16)
    root = tmp_path / "large"
    root.mkdir()
    (root / "b.jhist").write_bytes(large_bytes)
    (root / "a.jhist").write_bytes(writer.text(make(Shape("small", "bob", "etl", maps=2, reduces=1), 2, CLUSTER, 2)))
    (root / "c.jhist").write_bytes(writer.text(make(Shape("small", "bob", "etl", maps=2, reduces=1), 3, CLUSTER, 3)))
    old_enough(root)
    return root


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the rear part was taken, each time it was offered."""
    taken: list[bool] = []
    real = session.Team._join

    def join(self: Any, feed: Any, content: Any) -> bool:
        taken.append(real(self, feed, content))
        return taken[-1]

    monkeypatch.setattr(session.Team, "_join", join)
    return taken


def test_the_rear_of_a_large_file(large: Path, monkeypatch: pytest.MonkeyPatch, joined: list[bool]) -> None:
    live = Session([large], [VIEW], settings=SETTINGS, crew=started(monkeypatch, large))
    live.scan(final=True)
    assert joined == [True]
    assert same(live, alone(large))
    with (large / "b.jhist").open("r+b") as file:  # rewritten in place: its fingerprint must tell
        file.seek(5_000)
        file.write(b"#")
    live.scan(final=True)
    assert same(live, alone(large))


@pytest.mark.parametrize("place", [0, 7, 1000, 5000])
def test_a_place_where_no_record_begins(
    large: Path, monkeypatch: pytest.MonkeyPatch, joined: list[bool], place: int
) -> None:
    right = History.cut
    monkeypatch.setattr(History, "cut", lambda self, head, piece: (right(self, head, piece) + place) % 9_000)
    live = Session([large], [VIEW], settings=SETTINGS, crew=started(monkeypatch, large))
    live.scan(final=True)
    assert joined == ([True] if place == 0 else []) or not any(joined)
    assert same(live, alone(large))


def test_a_history_that_cannot_be_cut() -> None:
    header, schema = b"Avro-Binary\n", b'{"type":"record","fields":[]}\n'
    assert HISTORY.cut(b"", b"task_1\n") == -1
    assert HISTORY.cut(b"Avro-Json\n{}\n", b"no line break") == -1
    assert HISTORY.cut(b"Avro-Json\n{}\n", b"a\nb") == 2
    assert HISTORY.cut(header + schema, b"\x02\x04\x3etask_1" * 50) == -1
    assert HISTORY.cut(header, b"\x02\x04\x3etask_1" * 50) == -1


@pytest.mark.parametrize("large_bytes", ["text"], indirect=True)
@pytest.mark.parametrize("oddity", ["job", "bad-schema", "header", "blank", "garbage", "end", "grown"])
def test_a_state_that_could_not_be_foreseen(
    large: Path, large_bytes: bytes, monkeypatch: pytest.MonkeyPatch, oddity: str
) -> None:
    path = large / "b.jhist"
    lines = large_bytes.split(b"\n")
    if oddity == "job":  # the job changes behind what the prediction has seen
        end = next(line for line in lines if line.startswith(b'{"type":"JOB_SUBMITTED"'))
        lines[1200:1200] = [end.replace(str(CLUSTER).encode(), b"77")]
    elif oddity == "bad-schema":
        lines[1] = b'{"type":"record"'
    elif oddity == "header":
        lines[:2] = [b"Avro-Text", b"{}"]
    elif oddity == "blank":
        lines[40:40] = [b""] * 300
    elif oddity == "garbage":
        lines[300:300] = [b"\xff\xfe"] * 20
    elif oddity == "end":
        lines[-2:] = [lines[-2][:50]]
    path.write_bytes(b"\n".join(lines))
    old_enough(large)
    made = started(monkeypatch, large)
    if oddity == "grown":
        with path.open("ab") as file:
            file.write(lines[-3] + b"\n")
    live = Session([large], [VIEW], settings=SETTINGS, crew=made)
    live.scan(final=True)
    assert same(live, alone(large))


def test_a_real_process(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "LATE", 1)
    monkeypatch.setattr(crew, "_processors", lambda: 2)
    made: list[Crew] = []
    real = crew.start

    def start(*args: Any, **more: Any) -> Crew | None:
        found = real(*args, **more)
        assert found is not None
        made.append(found)
        found.mine = lambda index: index < 6  # type: ignore[method-assign]  # so that it has something to do
        return found

    monkeypatch.setattr(session, "start", start)
    live = Session([root], [VIEW], settings=SETTINGS)
    read: list[str] = []
    monkeypatch.setattr(Session, "_one", spy(Session._one, lambda self, file, *_: read.append(file.path)))
    live.scan(final=True)
    assert len(made) == 1 and made[0]._process is None
    assert 6 < len(read) < 16  # the first ones, and those that nobody else could be sure of
    assert same(live, alone(root))
    until = time.monotonic() + 5
    while children():
        assert time.monotonic() < until
        time.sleep(0.01)


def spy(real: Callable[..., Any], note: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        note(*args)
        return real(*args)

    return call


def gone(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


@pytest.mark.parametrize(
    "script",
    ["exit 3", "exec sleep 60", "echo nonsense; exec sleep 60", "echo 10 99999999; exec sleep 60", "echo 0 8", None],
)
def test_a_helper_that_is_of_no_use(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None
) -> None:
    program = tmp_path / "helper"
    if script is not None:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(session, "LATE", 1)
    monkeypatch.setattr(crew, "_processors", lambda: 2)
    monkeypatch.setattr(crew, "PATIENCE_S", 0.05)
    monkeypatch.setattr(Crew, "mine", lambda self, index: index < 6)
    before = descriptors()
    live = Session([root], [VIEW], settings=SETTINGS)
    begun = time.monotonic()
    live.scan(final=True)
    assert time.monotonic() - begun < 10
    assert same(live, alone(root))
    until = time.monotonic() + 5
    while children() or descriptors() > before:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_helper_that_is_stopped_is_not_waited_for(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "helper"
    program.write_text("#!/bin/sh\nkill -STOP $$\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(session, "LATE", 1)
    monkeypatch.setattr(crew, "_processors", lambda: 2)
    monkeypatch.setattr(crew, "PATIENCE_S", 60)
    monkeypatch.setattr(crew, "_LOOK_S", 0.02)
    monkeypatch.setattr(Crew, "mine", lambda self, index: index < 6)
    live = Session([root], [VIEW], settings=SETTINGS)
    live.scan(final=True)
    assert "it has been stopped" in caplog.text and same(live, alone(root))
    until = time.monotonic() + 5
    while children():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_too_few_descriptors_cost_only_the_helper(root: Path) -> None:
    look = Look([str(root)], SETTINGS)
    files = [(path, str(root), stat) for path, stat in look.changes.changed.items()]
    before, limits = descriptors(), resource.getrlimit(resource.RLIMIT_NOFILE)
    started = []
    for limit in range(8, 40):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limits[1]))
        try:
            found = crew.start(files, ["engine.job_heuristics.view"], SETTINGS, final=True)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        if found is not None:
            started.append(limit)
            found.close()
        until = time.monotonic() + 5
        while descriptors() > before or children():
            assert time.monotonic() < until, limit
            time.sleep(0.01)
    assert started and started[0] > 8


def test_when_a_helper_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "_processors", lambda: 2)
    assert crew.worth(crew.LEAST, SETTINGS, crew.LEAST)
    assert not crew.worth(crew.LEAST - 1, SETTINGS, crew.LEAST)
    assert not crew.worth(crew.LEAST, LiveSettings(helper=False), crew.LEAST)
    monkeypatch.setattr(crew, "_processors", lambda: 1)
    assert not crew.worth(crew.LEAST, SETTINGS, crew.LEAST)
    assert module_of(VIEW) == "engine.job_heuristics.view"
    assert module_of(object()) == ""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_helper_ends_with_its_session(root: Path, number: signal.Signals) -> None:
    code = f"""
import os, time
from engine.live import crew
from engine.live.options import LiveSettings
from engine.live.files.first_look import Look
look = Look([{str(root)!r}], LiveSettings())
files = [(path, {str(root)!r}, stat) for path, stat in look.changes.changed.items()]
made = crew.start(files, ["engine.job_heuristics.view"], look.settings, final=True)
print(made._process._pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
    ) as process:
        assert process.stdout is not None
        helper = Path("/proc", process.stdout.readline().decode().strip())
        assert helper.name.isdigit()
        process.send_signal(number)
    until = time.monotonic() + 10
    while not gone(helper):
        assert time.monotonic() < until
        time.sleep(0.01)
