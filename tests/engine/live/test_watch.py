"""A running watch converges on the right state, whatever happens to events."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import engine.live.files.watch as watch
from engine.live.files.watch import parse, silent, type_of
from engine.live.options import LiveSettings
from engine.live.session import Session
from tests.engine.live.fake import Calm, doc, fresh, line, rows, session, until


@contextlib.contextmanager
def watching(live: Session) -> Iterator[list[frozenset[str]]]:
    """The session watched by a thread that ends with the block."""
    reported: list[frozenset[str]] = []
    stop = threading.Event()
    thread = threading.Thread(target=live.watch, args=(reported.append, stop))
    thread.start()
    try:
        until(lambda: live.status.scans > 0 and live.status.roots[0].mode != "idle")
        if live.status.roots[0].mode == "events":
            time.sleep(0.05)  # let the kernel watches be set up, so that the test sees events and not the timer
        yield reported
    finally:
        stop.set()
        thread.join(5)
        assert not thread.is_alive(), "the watch does not end"


def keys(live: Session) -> list[str]:
    return [row[0] for row in rows(live)["lines"]]


def converges(live: Session, *roots: Path) -> None:
    """The rows become those of a fresh start; the disk no longer changes."""
    wanted = fresh(*roots)
    until(lambda: rows(live, stale=False) == wanted)


MODES = pytest.mark.parametrize("mode", ["events", "polling", "deaf"])


@pytest.fixture
def started(tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Session, Path]]:
    """A watched root in each mode: with events (the timer too slow to matter), polled, and with all events lost."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.log").write_bytes(line("first", 1))
    if mode == "deaf":
        lost = property(lambda self: set(), lambda self, paths: None)
        monkeypatch.setattr(watch.Hints, "gathered", lost, raising=False)
    interval = 2 if mode == "events" else 0.1
    live = session(root, poll=mode == "polling", scan_interval_s=interval, strict=False, follow_symlinks=True)
    with watching(live):
        until(lambda: keys(live) == ["first"])
        assert live.status.roots[0].mode == ("polling" if mode == "polling" else "events")
        yield live, root


@MODES
def test_append_replace_rotate_delete(started: tuple[Session, Path], mode: str) -> None:
    live, root = started
    with (root / "a.log").open("ab") as file:
        file.write(line("second", 2))
    until(lambda: "second" in keys(live))
    (root / "x.tmp").write_bytes(doc("x", 1))
    (root / "x.tmp").replace(root / "x.json")
    until(lambda: rows(live)["docs"] == [("x", 1, 0)])
    (root / "a.log").rename(root / "a.log.1")
    (root / "a.log").write_bytes(line("third", 3))
    until(lambda: keys(live) == ["first", "second", "third"])
    os.truncate(root / "a.log.1", 0)
    (root / "x.json").unlink()
    until(lambda: keys(live) == ["third"] and rows(live)["docs"] == [])


@MODES
def test_new_nested_folders_and_folders_moved_in(started: tuple[Session, Path], mode: str, tmp_path: Path) -> None:
    live, root = started
    (root / "n1" / "n2" / "n3").mkdir(parents=True)
    (root / "n1" / "n2" / "n3" / "b.log").write_bytes(line("deep", 1))
    outside = tmp_path / "outside" / "in"
    outside.mkdir(parents=True)
    (outside / "c.log").write_bytes(line("moved", 1))
    (tmp_path / "outside").rename(root / "moved")
    until(lambda: keys(live) == ["deep", "first", "moved"])
    with (root / "n1" / "n2" / "n3" / "b.log").open("ab") as file:
        file.write(line("later", 1))
    until(lambda: "later" in keys(live))
    shutil.rmtree(root / "n1")
    until(lambda: keys(live) == ["first", "moved"])


@MODES
def test_target_of_a_link_changes(started: tuple[Session, Path], mode: str, tmp_path: Path) -> None:
    live, root = started
    target = tmp_path / "target.txt"
    target.write_bytes(line("target", 1))
    (root / "link.log").symlink_to(target)
    until(lambda: "target" in keys(live))
    with target.open("ab") as file:
        file.write(line("grown", 2))
    until(lambda: "grown" in keys(live))
    (tmp_path / "other.txt").write_bytes(line("other", 3))
    (root / "link.log").unlink()
    (root / "link.log").symlink_to(tmp_path / "other.txt")
    until(lambda: keys(live) == ["first", "other"])


@MODES
def test_root_removed_and_created_again(started: tuple[Session, Path], mode: str) -> None:
    live, root = started
    shutil.rmtree(root)
    until(lambda: keys(live) == [] and live.status.roots[0].mode == "missing")
    assert "missing-root" in {problem.kind for problem in live.problems}
    root.mkdir()
    (root / "b.log").write_bytes(line("back", 1))
    until(lambda: keys(live) == ["back"] and live.status.roots[0].mode != "missing")
    with (root / "b.log").open("ab") as file:
        file.write(line("again", 1))
    until(lambda: keys(live) == ["again", "back"])
    assert live.problems == ()


@MODES
def test_last_line_is_taken_when_settled_and_undone(started: tuple[Session, Path], mode: str) -> None:
    live, root = started
    with (root / "a.log").open("ab") as file:
        file.write(b"L|open|1")
    until(lambda: ("open", 1, 2) in rows(live)["lines"])
    with (root / "a.log").open("ab") as file:
        file.write(b"2\n")
    until(lambda: rows(live)["lines"] == [("first", 1, 1), ("open", 12, 2)])


@MODES
def test_half_written_document(started: tuple[Session, Path], mode: str) -> None:
    live, root = started
    path = root / "x.json"
    path.write_bytes(doc("x", 1))
    until(lambda: rows(live)["docs"] == [("x", 1, 0)])
    path.write_bytes(doc("x", 2)[:-4])
    until(lambda: {problem.kind for problem in live.inputs("fake").problems} == {"cut-file"})
    assert rows(live)["docs"] == [("x", 1, 0)]
    path.write_bytes(doc("x", 2))
    until(lambda: rows(live)["docs"] == [("x", 2, 0)] and live.inputs("fake").problems == ())


@MODES
def test_name_that_is_not_utf8(started: tuple[Session, Path], mode: str) -> None:
    """watchfiles ends at such a name; the watch goes on."""
    live, root = started
    (root / os.fsdecode(b"\xff.log")).write_bytes(line("odd", 1))
    until(lambda: "odd" in keys(live))
    with (root / "a.log").open("ab") as file:
        file.write(line("after", 1))
    until(lambda: "after" in keys(live))


@MODES
def test_storm(started: tuple[Session, Path], mode: str) -> None:
    """Many files in a moment, some replaced and deleted at once."""
    live, root = started
    for number in range(1000):
        folder = root / f"d{number % 10}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.log").write_bytes(line(number, number))
    for number in range(0, 1000, 5):
        (root / f"d{number % 10}" / f"{number}.log").unlink()
    for number in range(1, 1000, 5):
        (root / f"d{number % 10}" / f"{number}.log").write_bytes(line("changed", number))
    until(lambda: len(live.inputs("fake").files) == 801)
    converges(live, root)


def test_more_events_than_the_kernel_keeps(tmp_path: Path) -> None:
    """Three for a new file and two each time that it grows, and its queue holds 16,384: nothing is missed."""
    root = tmp_path / "root"
    root.mkdir()
    live = session(root, scan_interval_s=1.0)
    with watching(live):
        for value in range(12):
            for number in range(700):
                fd = os.open(root / f"{number}.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
                os.write(fd, line(number, value))
                os.close(fd)
        until(lambda: live.inputs("fake").table("lines").height == 12 * 700)
    frame = live.inputs("fake").table("lines")
    assert frame["value"].sum() == 700 * sum(range(12)) and frame["file"].n_unique() == 700


def test_single_file_as_root(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    (tmp_path / "other.log").write_bytes(line("other", 1))
    path.write_bytes(line("a", 1))
    live = session(path, scan_interval_s=4)
    with watching(live):
        until(lambda: keys(live) == ["a"])
        (tmp_path / "b.tmp").write_bytes(line("b", 1))
        (tmp_path / "b.tmp").replace(path)
        until(lambda: keys(live) == ["b"])
        assert live.status.roots[0].mode == "events"


def test_watch_that_dies_is_started_again_and_then_rests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[float] = []

    def dying(*_: Any, **__: Any) -> Iterator[set[tuple[int, str]]]:
        starts.append(time.monotonic())
        yield set()
        raise RuntimeError("the kernel says no")

    monkeypatch.setattr("watchfiles.watch", dying)
    live = session(tmp_path)
    with watching(live):
        (tmp_path / "a.log").write_bytes(line("a", 1))
        until(lambda: keys(live) == ["a"])
        until(lambda: len(starts) >= 3 and live.status.roots[0].mode == "polling")
        assert "watch-failure" in {problem.kind for problem in live.problems}
        with (tmp_path / "a.log").open("ab") as file:
            file.write(line("b", 1))
        until(lambda: keys(live) == ["a", "b"])
    assert len(starts) == 3, "no busy restarting"


@pytest.mark.parametrize("closed", [False, True], ids=["all can be read", "one cannot be read"])
def test_a_kernel_without_watches_is_named_and_folders_are_polled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    asked: list[bool] = []

    def watch(*_: Any, ignore_permission_denied: bool, stop_event: Any, **__: Any) -> Iterator[set[tuple[int, str]]]:
        asked.append(ignore_permission_denied)
        if not closed:
            raise OSError("OS file watch limit reached. about")
        if not ignore_permission_denied:
            raise PermissionError("Permission denied")
        while not stop_event.is_set():
            yield set()

    monkeypatch.setattr("watchfiles.watch", watch)
    live = session(tmp_path)
    with watching(live):
        if closed:
            until(lambda: len(asked) == 2)
            assert live.status.roots[0].mode == "events" and not live.problems
        else:
            until(lambda: live.status.roots[0].mode == "polling" and bool(live.problems))
            assert "max_user_watches" in live.problems[0].reason
        (tmp_path / "a.log").write_bytes(line("a", 1))
        until(lambda: keys(live) == ["a"])
    assert asked == [False, True] if closed else not any(asked)


@pytest.mark.parametrize("kind", [ValueError, pl.exceptions.PanicException])
def test_watch_never_raises(tmp_path: Path, kind: type[BaseException]) -> None:
    """Neither a failing callback nor a mistake of ours ends it."""
    live = session(tmp_path, strict=False)
    calls: list[frozenset[str]] = []
    stop = threading.Event()

    def changed(names: frozenset[str]) -> None:
        calls.append(names)
        raise kind("the screen is gone")

    thread = threading.Thread(target=live.watch, args=(changed, stop))
    thread.start()
    try:
        (tmp_path / "a.log").write_bytes(line("a", 1))
        until(lambda: len(calls) == 1)
        (tmp_path / "b.log").write_bytes(line("b", 1))
        until(lambda: keys(live) == ["a", "b"])
        assert {problem.kind for problem in live.problems} == {"watch-failure"}
    finally:
        stop.set()
        thread.join(5)
    assert not thread.is_alive()


def test_snapshots_do_not_change_while_a_thread_reads_them(tmp_path: Path) -> None:
    live = session(tmp_path, strict=False)
    path = tmp_path / "a.log"
    path.write_bytes(line("a", 1))
    wrong: list[str] = []
    done = threading.Event()

    def reading() -> None:
        while not done.is_set():
            inputs = live.inputs("fake")
            height = inputs.table("lines").height
            files, problems = dict(inputs.files), inputs.problems
            time.sleep(0.002)
            again = inputs.table("lines")
            if again.height != height or dict(inputs.files) != files or inputs.problems != problems:
                wrong.append("changed")
            if set(again["file"].unique()) - set(inputs.files):
                wrong.append("rows without a file")

    reader = threading.Thread(target=reading)
    reader.start()
    with watching(live):
        for number in range(100):
            if number % 10 == 9:
                path.write_bytes(line("new", number))
            with path.open("ab") as file:
                file.write(line(number, number) + b"bad\n")
            (tmp_path / "x.json").write_bytes(doc("x", number))
        converges(live, tmp_path)
    done.set()
    reader.join()
    assert wrong == []


def test_a_caller_cannot_change_a_snapshot(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(line("a", 1))
    live = session(tmp_path, settle_s=0.0)
    live.scan()
    inputs = live.inputs("fake")
    frame = inputs.table("lines")
    frame.columns = ["p", "q", "r", "s"]
    frame.insert_column(0, frame["p"].alias("extra"))
    assert inputs.table("lines").columns == ["key", "value", "number", "file"]
    with pytest.raises(TypeError):
        inputs.files[1] = next(iter(inputs.files.values()))  # type: ignore[index]
    with pytest.raises(KeyError):
        inputs.table("nothing")


def test_idle_watch_sleeps(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"{number}.log").write_bytes(line(number, 1))
    live = session(tmp_path, scan_interval_s=2, settle_s=0.0)
    with watching(live):
        until(lambda: len(keys(live)) == 200)
        before, scans = time.process_time(), live.status.scans
        time.sleep(0.5)
        assert time.process_time() - before < 0.1
        assert live.status.scans <= scans + 1


def test_mount_types() -> None:
    text = (
        "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        "40 27 0:50 / /mnt/with\\040space rw shared:1 master:2 - nfs4 server:/x rw\n"
        "41 27 0:51 / /mnt/s3 rw - fuse.s3fs s3fs rw\n"
        "42 27 0:52 / /mnt/s3/local rw - tmpfs tmpfs rw\n"
        "broken line\n"
    )
    mounts = parse(text)
    assert type_of("/home/x", mounts) == "ext4"
    assert type_of("/mnt/with space/deep", mounts) == "nfs4"
    assert type_of("/mnt/s3", mounts) == "fuse.s3fs"
    assert type_of("/mnt/s3/local/x", mounts) == "tmpfs"
    assert type_of("/mnt/s3x", mounts) == "ext4"


def test_network_mount_is_polled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import engine.live.files.watch as mounts

    monkeypatch.setattr(mounts, "_mounts", lambda stamp: [("/", "ext4"), (os.path.realpath(tmp_path), "nfs4")])
    assert silent(str(tmp_path)) == "nfs4"
    live = session(tmp_path)
    with watching(live):
        (tmp_path / "a.log").write_bytes(line("a", 1))
        until(lambda: keys(live) == ["a"])
        assert (live.status.roots[0].mode, live.status.roots[0].reason) == ("polling", "nfs4")


class Scripted(watch.Watcher, Calm):
    """A watcher whose clock and hints are given: seconds to pass and paths, one pair for each time that it waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps: list[tuple[float, set[str]]]) -> None:
        super().__init__(["/nowhere"], LiveSettings(poll=True), self)
        self.now = 1000.0
        self.steps = steps
        self.waits: list[float] = []
        self.looks: list[set[str] | None] = []
        monkeypatch.setattr(watch.time, "monotonic", lambda: self.now)

    def _wait(self, clock: float, stop: threading.Event) -> set[str] | None:
        if not self.steps:
            stop.set()
            return set()
        self.waits.append(round(clock - self.now, 3))
        passed, hints = self.steps.pop(0)
        self.now += passed
        return hints

    complete = True

    def look(self, hints: set[str] | None, *, interrupted: Any = None) -> frozenset[str]:
        self.looks.append(hints)
        return frozenset({"view"} if hints else ())


def test_a_full_look_waits_for_what_is_made_of_a_change_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [(0.0, set[str]()), (2.0, {"0"}), *((0.08, {f"{number}"}) for number in range(1, 7)), (0.02, {"late"})]
    made = Scripted(monkeypatch, steps)
    made.run(lambda names: None, threading.Event())
    # The first look is at everything; the next such one is due after two seconds, just when the first change comes.
    assert made.looks == [None, *({f"{number}"} for number in range(7)), None]
    assert made.waits[2:7] == [watch.IDLE_AFTER_S] * 5, "time to compute"
    assert made.waits[8] == pytest.approx(watch.GIVES_WAY_S - 6 * 0.08), "but no longer than that"


def test_events_are_looked_for_rarely_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    clock = [100.0]
    monkeypatch.setattr(watch.time, "sleep", slept.append)
    monkeypatch.setattr(watch.time, "monotonic", lambda: clock[0])
    pace = watch.Pace()
    # Every other question is answered at once: two steps with as many events end a burst.
    assert not any(pace.is_set() for _ in range(6)) and slept == [watch.IDLE_S] * 3
    slept.clear()
    pace.hurry()
    assert not any(pace.is_set() for _ in range(6)) and slept == [watch.REST_S], "not while a change is computed on"
    clock[0] += watch.BUSY_S + 1
    assert not any(pace.is_set() for _ in range(2)) and slept == [watch.REST_S, watch.IDLE_S]
    pace.hurry()
    pace.halt.set()
    assert pace.is_set() and pace.is_set() and len(slept) == 2
