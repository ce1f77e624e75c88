"""What is too much for the session is read by another process: whatever a reader does there, the rest goes on."""

from __future__ import annotations

import gzip
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.core.processes import Processes
from engine.core.reading import Problem
from engine.live.pool import guard, reading_pool, tasks
from engine.live.session import Session
from tests.engine.live import hostile
from tests.engine.live.fake import alive, doc, docs, fresh, kinds, line, rows, settings, until, values
from tests.engine.live.pool.inline import Inline
from tests.engine.live.test_watch import watching

LARGE = b"".join(line("x", value) for value in range(300))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "SMALL", 1000)


def opened(*roots: Path, **changes: Any) -> Session:
    return Session(roots, [hostile.VIEW], settings=settings(**{"settle_s": 0.0, "workers": 2, **changes}))


def problem_of(live: Session, path: Path) -> Problem | None:
    return next((problem for problem in live.problems if problem.path == str(path)), None)


def pid(live: Session) -> int:
    processes = live._visits.guard._processes
    assert processes is not None
    number: int = processes._processes[0].pid
    return number


# -- hostile readers, real processes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deed", "kind"),
    [
        ("loop_in_c", "too-slow"),
        ("allocate", "too-big"),
        ("allocate_in_polars", "reader-crash"),
    ],
)
def test_whatever_a_reader_does_the_rest_goes_on(tmp_path: Path, deed: str, kind: str) -> None:
    bad, small = tmp_path / "bad.log", tmp_path / "small.log"
    live = opened(tmp_path, memory_mb=512)
    latest, stop = [0.0], threading.Event()

    def wake_often() -> None:
        while not stop.is_set():
            begin = time.monotonic()
            time.sleep(0.005)
            latest[0] = max(latest[0], time.monotonic() - begin)

    awake = threading.Thread(target=wake_often)
    with watching(live):
        awake.start()
        bad.write_bytes(line("first", -1) + f"!{deed}!\n".encode() + LARGE)
        until(lambda: live.status.reading == 1 or bool(live.problems))
        for number in range(1000, 1003):  # while it is being read, or already was
            small.write_bytes(line("small", number))
            until(lambda number=number: values(live) == [number])  # type: ignore[misc]
        until(lambda: problem_of(live, bad) is not None, 60)
    stop.set()
    awake.join()
    found = problem_of(live, bad)
    assert found is not None and found.kind == kind and found.reason.endswith("given up until it changes")
    assert values(live) == [1002] and live.status.reading == 0
    assert latest[0] < 5, "the interpreter's lock was free"
    live.close()


def test_a_small_file_that_its_reader_unpacks_is_read_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.json").write_bytes(doc("x", 1))
    for unpacks in (False, True):
        monkeypatch.setattr(hostile.HostileDoc, "unpacks", unpacks, raising=False)
        live = opened(tmp_path)
        live.scan(patience_s=60)
        assert len(docs(live)) == 1 and (live._visits.guard._processes is not None) == unpacks
        live.close()
    (tmp_path / "plain.log").write_bytes(line("y", 2))
    live = opened(tmp_path)
    live.scan(patience_s=60)
    assert values(live) == [2] and live.status.reading == 1, "it does not hold up what is there"
    until(lambda: live._visits.guard.ready)
    live.scan()
    assert len(docs(live)) == 1 and live.status.reading == 0
    live.close()


def test_a_file_that_was_given_up_is_not_tried_again_before_it_changes(tmp_path: Path) -> None:
    bad = tmp_path / "bad.log"
    bad.write_bytes(line("first", -1) + b"!leave!\n" + LARGE)
    live = opened(tmp_path)
    live.scan(patience_s=60)
    assert kinds(live) == {"reader-crash"} and "exit status 0" in live.problems[0].reason
    (tmp_path / "other.log").write_bytes(line("other", 1))
    live.scan(patience_s=60)
    assert values(live) == [1] and not live._visits.guard and not running(live)
    bad.write_bytes(line("mended", -2) + LARGE)
    live.scan()
    assert not live._visits.guard and live.due() is not None, "not at once, if it changes all the time"
    for file in live._catalogue.files.values():
        file.rests_until = file.due = 0.0
    live.scan(patience_s=60)
    assert -2 in values(live) and live.problems == ()
    live.close()


def running(live: Session) -> bool:
    processes = live._visits.guard._processes
    return processes is not None and processes.running


def test_a_process_that_was_killed_from_outside_gets_a_second_chance(tmp_path: Path) -> None:
    (tmp_path / "slow.log").write_bytes(line("first", -1) + b"!hang!\n" + LARGE)
    live = opened(tmp_path)
    live.scan(patience_s=0)
    first = pid(live)
    until(lambda: live._visits.guard._processes.came_up, 60)  # type: ignore[union-attr]
    os.kill(first, signal.SIGKILL)
    until(lambda: live._visits.guard.ready)
    live.look(set())
    second = pid(live)
    assert second != first and live.status.reading == 1 and live.problems == ()
    until(lambda: live._visits.guard._processes.came_up, 60)  # type: ignore[union-attr]
    os.kill(second, signal.SIGKILL)
    until(lambda: live._visits.guard.ready)
    live.look(set())
    assert kinds(live) == {"reader-crash"} and "SIGKILL" in live.problems[0].reason
    live.close()


def test_a_process_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "PATIENCE_S", 0.1)
    monkeypatch.setattr(tasks, "PATIENCE_S_PER_MB", 0.0)
    (tmp_path / "slow.log").write_bytes(line("first", -1) + b"!hang!\n" + LARGE)
    live = opened(tmp_path)
    live.scan(patience_s=60)
    assert kinds(live) == {"too-slow"} and not running(live)
    live.close()


def test_closing_does_not_wait_for_a_reader(tmp_path: Path) -> None:
    (tmp_path / "slow.log").write_bytes(line("first", -1) + b"!hang!\n" + LARGE)
    live = opened(tmp_path)
    live.scan(patience_s=0)
    process = pid(live)
    live.close()
    until(lambda: not alive(process))


def test_a_small_file_that_ends_a_pool_is_found_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_pool, "WORTH", 1)
    for name in ("SMALLEST_TASK", "LARGEST_TASK"):
        monkeypatch.setattr(reading_pool, name, 300)
    for number in range(30):
        (tmp_path / f"{number:02d}.log").write_bytes(line("good", number) * 10)
    (tmp_path / "25.log").write_bytes(line("bad", -1) + b"!crash!\n")
    live = opened(tmp_path)
    # Slow enough here for the workers to meet it first: in the session it would end the tests.
    monkeypatch.setattr(reading_pool, "tasks", SimpleNamespace(SMALL=-1, memory=tasks.memory))
    live.scan(final=True)
    assert set(values(live)) == {*range(30)} - {25}
    assert [problem.path for problem in live.problems] == [str(tmp_path / "25.log")]
    live.close()


# -- whoever reads ---------------------------------------------------------------------------------------------


class Later(Inline):
    """Does its tasks when it is told to."""

    made: list[Later]

    def __init__(self, count: int, memory: int) -> None:
        super().__init__(count, memory, ThreadPoolExecutor(1))
        self.go = threading.Event()
        Later.made.append(self)

    def run(self, function: Any, *given: Any) -> Any:
        self.go.wait()
        return super().run(function, *given)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> type[Later]:
    Later.made = []
    monkeypatch.setattr(guard, "Processes", Later)
    return Later


def look_until_read(live: Session) -> None:
    for each in Later.made:
        each.go.set()
    until(lambda: not live.look(set()) and not live.status.reading)


@pytest.mark.parametrize("change", ["grown", "grown much", "renamed", "rewritten", "gone", "replaced"])
def test_a_file_that_changes_while_it_is_read(tmp_path: Path, later: type[Later], change: str) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(LARGE)
    (tmp_path / "b.log").write_bytes(line("b", 1000))
    live = opened(tmp_path)
    live.scan(patience_s=0)
    assert values(live) == [1000] and live.status.reading == 1
    if change.startswith("grown"):
        with path.open("ab") as file:
            file.write(line("more", 2000) * (200 if change == "grown much" else 1))
    elif change == "renamed":
        path.rename(tmp_path / "c.log")
    elif change == "rewritten":
        path.write_bytes(LARGE.replace(b"|x|", b"|y|"))
    else:
        path.unlink()
    if change == "replaced":
        path.write_bytes(line("small", 3000))
    live.scan(patience_s=0)
    look_until_read(live)
    live.scan()
    assert rows(live) == fresh(tmp_path) and live.problems == ()
    assert live.status.files == live.status.recognised["fake"]
    live.close()


def test_a_log_goes_on_where_it_stopped_and_takes_back_a_last_record(tmp_path: Path, later: type[Later]) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(line("a", 1) + b"L|b|2")
    live = opened(tmp_path)
    live.scan(final=True)
    assert values(live) == [1, 2]
    with path.open("ab") as file:
        file.write(b"2\n" + LARGE + b"L|end|5")
    live.scan(patience_s=0)
    assert values(live) == [1, 2], "what was read stays meanwhile"
    look_until_read(live)
    assert sorted(values(live)) == sorted([1, 22, *range(300), 5]) and rows(live) == fresh(tmp_path)
    with path.open("ab") as file:
        file.write(b"5\n")
    live.scan()
    assert 55 in values(live) and 5 in values(live) and rows(live) == fresh(tmp_path)
    live.close()


def test_a_document_keeps_its_last_good_version(tmp_path: Path, later: type[Later]) -> None:
    path = tmp_path / "x.json"
    good = doc("x", *range(500))
    path.write_bytes(good)
    live = opened(tmp_path)
    live.scan(patience_s=0)
    look_until_read(live)
    assert len(docs(live)) == 500
    path.write_bytes(good[:-100])
    live.scan(patience_s=0)
    look_until_read(live)
    assert len(docs(live)) == 500 and kinds(live) == {"cut-file"}
    assert [info.stale for info in live.inputs("fake").files.values()] == [True]
    path.write_bytes(doc("x", *range(400)))
    live.scan(patience_s=0)
    look_until_read(live)
    assert len(docs(live)) == 400 and kinds(live) == set()
    live.close()


def test_packed_files_count_by_what_they_hold(tmp_path: Path, later: type[Later]) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(line("a", 1) * 1000))
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(line("b", 2)))
    (tmp_path / "c.log").write_bytes(line("c", 3) * 1000)
    (tmp_path / "c.log.gz").write_bytes(gzip.compress(line("c", 3) * 1000))
    live = opened(tmp_path)
    live.scan(patience_s=0)
    assert values(live) == [2] and live.status.reading == 2, "the copy is none of them"
    look_until_read(live)
    assert rows(live) == fresh(tmp_path) and len(values(live)) == 2001
    live.close()


def test_a_view_that_comes_while_a_file_is_read(tmp_path: Path, later: type[Later]) -> None:
    (tmp_path / "a.log").write_bytes(LARGE)
    live = opened(tmp_path)
    live.scan(patience_s=0)
    second = hostile.HostileView()
    second.name = "second"
    live.admit([second])
    live.scan(patience_s=0)
    look_until_read(live)
    live.scan(final=True)
    assert rows(live, "second") == rows(live) == fresh(tmp_path)
    live.close()


def test_without_processes_the_session_reads_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> Processes:
        raise OSError("no more processes")

    monkeypatch.setattr(guard, "Processes", none)
    (tmp_path / "a.log").write_bytes(LARGE)
    (tmp_path / "b.log").write_bytes(LARGE)
    live = opened(tmp_path)
    live.scan()
    assert rows(live) == fresh(tmp_path) and not live._visits.guard.usable
    live.close()
