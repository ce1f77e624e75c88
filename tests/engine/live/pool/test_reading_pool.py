"""A pool of processes: whoever reads, the rows are the same, and nothing depends on a worker."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.core.view import FILE
from engine.job_heuristics.view import VIEW
from engine.live.files.scan import FirstScan
from engine.live.ingest import file_content
from engine.live.options import LiveSettings
from engine.live.pool import guard, reading_pool, tasks
from engine.live.pool.reading_pool import ReadingPool, module_of, start
from engine.live.pool.tasks import FileTask
from engine.live.session import Session
from sample_data.job_heuristics import writer
from sample_data.job_heuristics.plans import CLUSTER, Shape, make
from tests.engine.live.fake import alive
from tests.engine.live.pool.inline import Inline

SETTINGS = LiveSettings(cache=False, workers=2)


@pytest.fixture(scope="module")
def texts() -> list[bytes]:
    return [writer.text(make(Shape(f"job {n}", "ann", "etl", maps=3, reduces=1), n, CLUSTER, n)) for n in range(1, 4)]


@pytest.fixture
def root(tmp_path: Path, texts: list[bytes], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Histories, configurations, odd ones, packed ones, foreign ones; a task holds a few of them."""
    monkeypatch.setattr(reading_pool, "SMALLEST_TASK", 40_000)
    monkeypatch.setattr(reading_pool, "LARGEST_TASK", 60_000)
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
    age(root)
    return root


def age(root: Path) -> None:
    then = time.time() - 60
    for path in root.iterdir():
        os.utime(path, (then, then))


def rows(live: Session) -> dict[str, pl.DataFrame]:
    """Content of every table by path."""
    inputs = live.inputs(VIEW.name)
    paths = {number: info.path for number, info in inputs.files.items()}
    names = pl.DataFrame({FILE: list(paths), "path": list(paths.values())}, schema={FILE: pl.UInt32, "path": pl.String})
    tables = {}
    for table in {t.name: t for kind in VIEW.kinds for t in kind.tables}.values():
        frame = inputs.table(table.name).join(names, FILE, "left", maintain_order="left").drop(FILE)
        tables[table.name] = frame.sort("path", maintain_order=True)
    return tables


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
    live = Session([root], [VIEW], settings=LiveSettings(cache=False, workers=1))
    live.scan(final=True)
    return live


def folder(pool: ReadingPool) -> Path:
    return Path(pool._processes.folder.name)


def files(root: Path) -> list[FileTask]:
    return [FileTask(path, str(root), stat) for path, stat in FirstScan([root], SETTINGS).changes.changed.items()]


def pooled(root: Path, pool: ReadingPool | None) -> Session:
    assert pool is not None
    live = Session([root], [VIEW], settings=SETTINGS, pool=pool)
    live.scan(final=True)
    return live


class Partly(Inline):
    """Does no task before ``first``."""

    pool: ReadingPool

    def __init__(self, count: int, first: int) -> None:
        super().__init__(count)
        self._first = first

    def submit(self, function: Any, *given: Any) -> Future[Any]:
        if given and self.pool.tasks.index(list(given[0].files)) < self._first:
            raise RuntimeError("shut down")
        return super().submit(function, *given)

    def start(self) -> None:
        self._first, self.running = 0, True


def started(
    root: Path, settings: LiveSettings = SETTINGS, modules: Sequence[str] = (module_of(VIEW),)
) -> ReadingPool | None:
    """Start a pool however little there is to read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading_pool, "WORTH", 0)
        return start(files(root), modules, settings, (str(root),), final=True)


def in_line(monkeypatch: pytest.MonkeyPatch, first: int = 0) -> None:
    """Let pools have workers that have done all tasks from ``first`` on, and none before it."""
    real = ReadingPool._feed_all

    def feed(pool: Any) -> None:
        pool._processes.pool = pool
        real(pool)

    monkeypatch.setattr(reading_pool, "Processes", lambda count, memory: Partly(count, first))
    monkeypatch.setattr(guard, "Processes", Inline)
    monkeypatch.setattr(ReadingPool, "_feed_all", feed)


def inline(monkeypatch: pytest.MonkeyPatch, root: Path, first: int = 0) -> ReadingPool:
    in_line(monkeypatch, first)
    pool = started(root)
    assert pool is not None
    return pool


@pytest.mark.parametrize("first", [0, 1, 4, 99])
def test_whoever_reads_the_rows_are_the_same(root: Path, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    pool = inline(monkeypatch, root, first)
    assert len(pool.tasks) > 5
    live = pooled(root, pool)
    assert same(live, alone(root))
    assert in_order(live)
    assert not folder(pool).exists()
    # It goes on as if it had read all itself.
    with (root / "03.jhist").open("ab") as file:
        file.write(b'{"type":"TASK_STARTED","event":{"org.apache.hadoop.mapreduce.jobhistory.TaskStarted":{"taskid":')
        file.write(b'"task_1_1_m_7","taskType":"MAP","startTime":1700000000000,"splitLocations":""}}}\n')
    (root / "21.jhist").unlink()
    live.scan(final=True)
    assert same(live, alone(root))


def test_files_that_change_meanwhile_are_read_here(root: Path, monkeypatch: pytest.MonkeyPatch, texts: Any) -> None:
    pool = inline(monkeypatch, root)
    (root / "20.jhist").write_bytes(texts[2])
    (root / "22.jhist").unlink()
    assert same(pooled(root, pool), alone(root))


def test_rows_that_are_gone_are_read_here(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = inline(monkeypatch, root)
    for path in folder(pool).iterdir():
        path.write_bytes(path.read_bytes()[:10])
    assert same(pooled(root, pool), alone(root))


# -- large files -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["text", "binary"])
def large_bytes(request: pytest.FixtureRequest) -> bytes:
    job = make(Shape("large", "ann", "etl", maps=180, reduces=20), 1, CLUSTER, 1)
    return writer.text(job) if request.param == "text" else writer.binary(job)


@pytest.mark.parametrize("first", [0, 2])
def test_a_large_file_is_read_by_one_worker(
    tmp_path: Path, large_bytes: bytes, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.setattr(file_content, "WHOLE", 1 << 16)
    monkeypatch.setattr(tasks, "SMALL", 1 << 17)
    (tmp_path / "b.jhist").write_bytes(large_bytes)
    for name, number in (("a", 2), ("c", 3)):
        small = make(Shape("small", "bob", "etl", maps=2, reduces=1), number, CLUSTER, number)
        (tmp_path / f"{name}.jhist").write_bytes(writer.text(small))
    age(tmp_path)
    live = pooled(tmp_path, inline(monkeypatch, tmp_path, first))
    assert same(live, alone(tmp_path))
    with (tmp_path / "b.jhist").open("r+b") as file:  # rewritten in place: its fingerprint must tell
        file.seek(5_000)
        file.write(b"#")
    live.scan(final=True)
    assert same(live, alone(tmp_path))


# -- processes -------------------------------------------------------------------------------------------------


def processes(pool: ReadingPool) -> list[int]:
    return [process.pid for process in pool._processes._processes]


def until_begun(pool: ReadingPool, below: int = 1 << 30) -> int:
    """Wait until a worker has begun a task before ``below``; return its index."""
    end = time.monotonic() + 60
    while not (begun := [index for index in list(pool._futures) if index < below]):
        assert time.monotonic() < end
        time.sleep(0.001)
    return min(begun)


def until_gone(pids: list[int]) -> None:
    end = time.monotonic() + 20
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_real_process(root: Path) -> None:
    pool = started(root)
    assert pool is not None
    pids = processes(pool)
    assert len(pids) == 1
    until_begun(pool)
    pool._futures[len(pool.tasks) - 1].result(60)
    live = pooled(root, pool)
    assert same(live, alone(root)) and in_order(live)
    until_gone(pids)
    assert not folder(pool).exists()


def test_a_worker_that_was_killed_is_replaced(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    pool = started(root)
    assert pool is not None
    (first,) = processes(pool)
    until_begun(pool)
    os.kill(first, signal.SIGKILL)
    until_gone([first])
    index = min(pool._futures)
    suspects = pool.tasks[index]
    assert pool.result(index) is None and all(pool.suspects(file.path) for file in suspects), "read one by one later"
    assert pool.result(until_begun(pool, index)) is not None, "the rest is read by a new process"
    (second,) = processes(pool)
    assert second != first and caplog.text.count("a worker process failed") == 1
    os.kill(second, signal.SIGKILL)
    until_gone([second])
    assert same(pooled(root, pool), alone(root))
    assert not folder(pool).exists()


def test_a_worker_that_is_stopped_is_not_waited_for(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reading_pool, "PATIENCE_S", 0.1)
    pool = started(root)
    assert pool is not None
    pids = processes(pool)
    until_begun(pool)
    os.kill(pids[0], signal.SIGSTOP)
    assert same(pooled(root, pool), alone(root))
    assert "TimeoutError" in caplog.text
    until_gone(pids)


def test_workers_end_with_their_session(root: Path, tmp_path: Path) -> None:
    """However the session ends: nothing is left of it."""
    (tmp_path / "temporary").mkdir()
    script = (
        "import sys, time\nfrom engine.live.pool import reading_pool\nfrom engine.live.pool.reading_pool import *\n"
        "from engine.live.pool.tasks import FileTask\n"
        "from engine.live.files.scan import FirstScan\n"
        "settings, reading_pool.WORTH = LiveSettings(cache=False, workers=3), 0\n"
        "found = FirstScan([sys.argv[1]], settings).changes.changed\n"
        "pool = start([FileTask(p, sys.argv[1], s) for p, s in found.items()], ['engine.job_heuristics.view'], settings,"
        " (), final=True)\n"
        "pool.result(0)\nprint(*(each.pid for each in pool._processes._processes), flush=True)\ntime.sleep(60)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    with subprocess.Popen(
        [sys.executable, "-c", script, str(root)], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        process.kill()
    assert len(pids) == 2
    until_gone(pids)
    assert not list((tmp_path / "temporary").glob("loadlens-*"))


def test_when_there_is_no_pool(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert started(root, LiveSettings(workers=1)) is None
    assert started(root, modules=("",)) is None
    assert start(files(root), [module_of(VIEW)], SETTINGS, (), final=True) is None
    monkeypatch.setattr(reading_pool, "_cores", lambda: 1)
    assert started(root, LiveSettings()) is None
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert started(root) is None


def test_a_session_starts_one_itself(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_pool, "WORTH", 0)
    in_line(monkeypatch)
    started: list[int] = []
    real = reading_pool.Processes
    monkeypatch.setattr(reading_pool, "Processes", lambda *given: started.append(1) or real(*given))
    live = Session([root], [VIEW], settings=SETTINGS)
    live.scan(final=True)
    assert started and same(live, alone(root))
