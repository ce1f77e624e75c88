"""Each kind of change done to a real directory, followed by one look: the right rows, and no more reading than needed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import engine.live.ingest.file_content as tail
import engine.live.ingest.follower as follow
import engine.live.ingest.readers as readers
from engine.live.files.scan import FirstScan
from engine.live.session import Session
from tests.engine.live.fake import (
    FakeView,
    doc,
    docs,
    fresh,
    keys,
    kinds,
    line,
    pack,
    rows,
    session,
    settings,
    values,
    view_of,
)


def test_append_reads_only_what_is_new(tmp_path: Path, live: Session) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"".join(line(i, i) for i in range(1000)))
    assert live.scan() == {"fake"}
    first = live.inputs("fake")
    (number,) = first.files
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(line("new", 7))
    assert live.look({str(path)}) == {"fake"}
    second = live.inputs("fake")
    assert view_of(live).log.reads[-1] == ("a.log", size, len(line("new", 7)), False)
    assert second.files.keys() == {number}, "an appended file keeps its id"
    assert second.touched(first.version, first.files) == {number} and second.version > first.version
    assert second.table("lines").row(-1)[:3] == ("new", 7, 1001), "the reader's state went on"
    assert first.table("lines").height == 1000, "the earlier snapshot is unchanged"


def test_nothing_changed_is_no_change(tmp_path: Path, live: Session) -> None:
    (tmp_path / "a.log").write_bytes(line("a", 1))
    (tmp_path / "x.json").write_bytes(doc("x", 1))
    live.scan()
    reads = len(view_of(live).log.reads), len(view_of(live).doc.reads)
    version = live.inputs("fake").version
    for _ in range(3):
        assert live.scan() == frozenset()
    assert (len(view_of(live).log.reads), len(view_of(live).doc.reads)) == reads
    assert live.inputs("fake").version == version


def test_touch_reads_no_rows_again(tmp_path: Path, live: Session) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(line("a", 1))
    live.scan()
    reads = len(view_of(live).log.reads)
    os.utime(path, (1, 1))
    live.scan()
    assert len(view_of(live).log.reads) == reads and values(live) == [1]
    assert next(iter(live.inputs("fake").files.values())).mtime_ms == 1000


def test_truncate(tmp_path: Path, live: Session) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(line("a", 1) + line("b", 2))
    live.scan()
    os.truncate(path, len(line("a", 1)))
    live.scan()
    assert keys(live) == ["a"]
    os.truncate(path, 0)
    live.scan()
    assert keys(live) == [] and not live.inputs("fake").files


@pytest.mark.parametrize("extra", [0, 1, 5000])
def test_copytruncate_and_regrown_beyond_the_old_size(tmp_path: Path, live: Session, extra: int) -> None:
    path = tmp_path / "a.log"
    head = line("same head", 0) * 200  # longer than the fingerprint of the beginning
    path.write_bytes(head + line("old", 1) * 50)
    live.scan()
    path.write_bytes(head + line("new", 2) * (50 + extra))
    live.scan()
    assert rows(live) == fresh(tmp_path)
    assert "old" not in keys(live)


def test_rewrite_in_the_middle_keeping_the_size(tmp_path: Path, live: Session) -> None:
    path = tmp_path / "a.log"
    data = line("head", 0) * 500 + line("a", 1) + line("tail", 0) * 500
    path.write_bytes(data)
    live.scan()
    path.write_bytes(data.replace(line("a", 1), line("a", 2)))
    live.scan()
    assert sum(values(live)) == 2


def test_rewrite_with_restored_times(tmp_path: Path, live: Session) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(doc("x", 1))
    status = path.stat()
    live.scan()
    path.write_bytes(doc("x", 2))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    live.scan()
    assert docs(live) == [("x", 2, 0)]


@pytest.mark.parametrize("ahead_s", [0.0, 0.15])
def test_write_that_leaves_no_trace_in_the_stat_is_noticed_when_settled(
    ahead_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system with a coarse clock, which may be a server's: the second write has the same size and times as the first."""
    monkeypatch.setattr(follow, "RACY_S", 0.2)
    path = tmp_path / "x.json"
    path.write_bytes(doc("x", 1) + b"\n")
    if ahead_s:
        os.utime(path, (0, time.time() + ahead_s))
    live = session(tmp_path)
    live.scan()
    stat = path.stat()
    path.write_bytes(doc("x", 2) + b"\n")
    real = os.fstat

    def coarse(fd: int) -> os.stat_result:
        found = list(real(fd))
        return os.stat_result(
            tuple(found), {"st_mtime_ns": stat.st_mtime_ns, "st_ctime_ns": stat.st_ctime_ns, "st_atime_ns": 0}
        )

    monkeypatch.setattr(os, "fstat", coarse)
    assert live.due() is not None
    time.sleep(max(0.0, (live.due() or 0) - time.monotonic()))
    live.look(set())
    assert docs(live) == [("x", 2, 0)]


def test_atomic_replace_of_a_document(tmp_path: Path, live: Session) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(doc("x", 1))
    live.scan()
    old = set(live.inputs("fake").files)
    (tmp_path / "x.json.tmp").write_bytes(doc("x", 2, 3))
    (tmp_path / "x.json.tmp").replace(path)
    live.look({str(path), str(tmp_path / "x.json.tmp")})
    assert docs(live) == [("x", 2, 0), ("x", 3, 1)]
    assert not old & set(live.inputs("fake").files), "a replaced file has a new id"


def test_rotate_by_rename_keeps_rows_without_reading(tmp_path: Path, live: Session) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(line("old", 1) * 3)
    live.scan()
    (number,) = live.inputs("fake").files
    with path.open("ab") as file:  # the last lines come after the last look and before the rotation
        file.write(line("late", 2))
    path.rename(tmp_path / "a.log.1")
    path.write_bytes(line("new", 3))
    live.scan()
    assert keys(live) == ["late", "new", "old", "old", "old"]
    infos = live.inputs("fake").files
    assert infos[number].label == "a.log.1" and len(infos) == 2
    assert sorted(read[1] for read in view_of(live).log.reads) == [0, 0, 3 * len(line("old", 1))]


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_rotate_with_compression_does_not_count_twice(tmp_path: Path, live: Session, ending: str) -> None:
    path, packed = tmp_path / "a.log.1", tmp_path / f"a.log.1{ending}"
    (tmp_path / "a.log").write_bytes(line("now", 9))
    data = line("old", 1) * 5000
    path.write_bytes(data)
    live.scan()
    whole = pack(data, ending)
    packed.write_bytes(whole[: len(whole) // 2])  # the archiver is at work
    live.scan()
    assert keys(live).count("old") == 5000
    packed.write_bytes(whole)
    live.scan()
    assert keys(live).count("old") == 5000
    assert "packed copy of a.log.1" in [item.reason for item in live.status.ignored]
    path.unlink()
    live.scan()
    assert keys(live).count("old") == 5000 and keys(live).count("now") == 1
    path.write_bytes(data)  # and back
    live.scan()
    assert keys(live).count("old") == 5000
    assert kinds(live) == set()


def test_delete_and_create_again(tmp_path: Path, live: Session) -> None:
    path = tmp_path / "a.log"
    for round in range(5):  # the file system likes to give the same inode again
        path.write_bytes(line(round, round))
        live.scan()
        assert values(live) == [round]
        path.unlink()
        if round % 2:
            live.scan()
            assert values(live) == []


def test_rename_of_a_document_and_of_a_folder(tmp_path: Path, live: Session) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "x.json").write_bytes(doc("x", 1))
    (tmp_path / "one" / "a.log").write_bytes(line("a", 1))
    live.scan()
    reads = len(view_of(live).log.reads)
    (tmp_path / "one").rename(tmp_path / "two")
    live.look({str(tmp_path / "one"), str(tmp_path / "two")})
    assert {info.label for info in live.inputs("fake").files.values()} == {"two/x.json", "two/a.log"}
    assert rows(live) == fresh(tmp_path) and len(view_of(live).log.reads) == reads
    (tmp_path / "two" / "a.log").rename(tmp_path / "two" / "a.secret.log")
    live.scan()
    assert values(live) == [], "under its new name no reader wants it"


def test_half_written_document_keeps_the_last_good_version(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(doc("x", 1))
    live = session(tmp_path, settle_s=30)
    live.scan()
    for data in (doc("x", 2)[:-3], b"", b'{"do'):
        path.write_bytes(data)
        live.scan()
        (info,) = live.inputs("fake").files.values()
        assert docs(live) == [("x", 1, 0)] and info.stale and kinds(live) == set()
        assert live.inputs("fake").stale == 1
        assert live.due() is not None
    path.write_bytes(doc("x", 2))
    live.scan()
    (info,) = live.inputs("fake").files.values()
    assert docs(live) == [("x", 2, 0)] and not info.stale and live.inputs("fake").stale == 0


def test_half_written_document_becomes_a_problem_when_settled(tmp_path: Path, live: Session) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(doc("x", 1))
    live.scan()
    path.write_bytes(doc("x", 2)[:-3])
    live.scan()
    assert docs(live) == [("x", 1, 0)] and kinds(live) == {"cut-file"}
    path.write_bytes(doc("x", 3))
    live.scan()
    assert docs(live) == [("x", 3, 0)] and kinds(live) == set()


def test_replaced_by_a_half_written_document(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(doc("x", 1))
    live = session(tmp_path, settle_s=30)
    live.scan()
    other = tmp_path / "y.tmp"
    other.write_bytes(doc("x", 2)[:-3])
    other.replace(path)
    live.scan()
    assert docs(live) == [("x", 1, 0)]
    path.write_bytes(doc("x", 2))
    live.scan()
    assert docs(live) == [("x", 2, 0)]


def test_last_line_without_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(line("a", 1) + b"L|b|12")
    os.utime(path)
    live = session(tmp_path, settle_s=30)
    live.scan()
    assert values(live) == [1], "it may still be growing"
    settled = session(tmp_path, settle_s=0)
    settled.scan()
    assert values(settled) == [1, 12], "it has settled"
    with path.open("ab") as file:
        file.write(b"34\nL|c|5\n")
    settled.scan()
    assert values(settled) == [1, 1234, 5], "what was taken is undone"
    live.scan()
    assert rows(live) == rows(settled) == fresh(tmp_path)


@pytest.mark.parametrize("step_s", [3600, -3600, 86_400, -86_400, -1_767_000_000])
def test_a_clock_that_is_set_while_files_are_written(step_s: float, tmp_path: Path) -> None:
    """Files of before and after, logs with a last line without its end: all is read within two looks at what is due."""
    clock = [time.time()]
    live = Session([tmp_path], [FakeView()], settings=settings(settle_s=0.02), now_ms=lambda: int(clock[0] * 1000))
    for name in ("before", "both"):
        (tmp_path / f"{name}.log").write_bytes(line("a", 1) + b"L|b|2")
        (tmp_path / f"{name}.json").write_bytes(doc(name, 1))
    live.scan()
    clock[0] += step_s
    for name in ("after", "both"):
        (tmp_path / f"{name}.log").write_bytes(line("c", 3) + b"L|d|4")
        (tmp_path / f"{name}.json").write_bytes(doc(name, 2))
        for ending in ("log", "json"):
            os.utime(tmp_path / f"{name}.{ending}", (clock[0], clock[0]))
    live.scan()
    for _ in range(2):
        due = live.due()
        assert due is not None and due - time.monotonic() < 2 * follow.RACY_S, "nothing waits for the clock"
        time.sleep(0.02)
        live.scan()
        if rows(live) == fresh(tmp_path):
            break
    assert rows(live) == fresh(tmp_path)


def test_files_that_are_due_give_way_to_a_known_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(follow.time, "monotonic", lambda: now[0])
    log = tmp_path / "a.log"
    log.write_bytes(line("a", 1))
    live = session(tmp_path, settle_s=30)
    live.scan()
    halves = [tmp_path / f"half{number}.log" for number in range(30)]
    for path in halves:
        path.write_bytes(line("b", 7) + b"L|b|8")
        os.utime(path, (4e9, 4e9))  # in the future: only the clock above tells how long it has been quiet
    live.look({str(path) for path in halves})
    assert sorted(values(live)) == [1, *[7] * 30]
    now[0] += 30.2
    with log.open("ab") as file:
        file.write(line("a", 2))
    live.look({str(log)})
    assert sorted(values(live)) == [1, 2, *[7] * 30], "nothing but the change was looked at"
    looks = 0
    while values(live).count(8) < 30:
        before = values(live).count(8)
        live.look(set())
        looks += 1
        assert 0 < values(live).count(8) - before <= 7, "a part at a time"
    assert 5 <= looks <= 8
    assert rows(live) == fresh(tmp_path)


def test_a_record_larger_than_a_block_and_many_blocks(
    tmp_path: Path, live: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "BLOCK", 1000)
    monkeypatch.setattr(tail, "WHOLE", 100)
    data = b"".join(line("x" * (i % 7) * 700, i) for i in range(100))
    (tmp_path / "a.log").write_bytes(data)
    (tmp_path / "b.log.gz").write_bytes(pack(data, ".gz"))
    live.scan()
    assert sorted(values(live)) == sorted([*range(100), *range(100)])
    assert max(read[2] for read in view_of(live).log.reads if read[0] == "a.log") <= 8000


def test_an_endless_record_is_given_up(tmp_path: Path, live: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "BLOCK", 1000)
    monkeypatch.setattr(tail, "WHOLE", 100)
    monkeypatch.setattr(readers, "MAX_RECORD", 5000)
    (tmp_path / "a.log").write_bytes(line("a", 1) + b"L|" * 10_000)
    live.scan()
    assert values(live) == [] and kinds(live) == {"too-big"}


def test_a_new_folder_is_looked_at_without_all_others(tmp_path: Path, live: Session) -> None:
    (tmp_path / "job" / "1").mkdir(parents=True)
    (tmp_path / "job" / "1" / "x.json").write_bytes(doc("x", 1))
    live.scan()
    scans = live.status.scans
    new = tmp_path / "job" / "2"
    (new / "deep").mkdir(parents=True)
    (new / "deep" / "y.json").write_bytes(doc("y", 2))
    (new / "deep" / "z.json").write_bytes(doc("z", 3))
    assert live.look({str(new)}) == {"fake"}
    assert live.status.scans == scans and [row[0] for row in docs(live)] == ["x", "y", "z"]
    # An event may name only a file below folders that are all new.
    file = tmp_path / "other" / "deep" / "w.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(doc("w", 4))
    assert live.look({str(file)}) == {"fake"} and live.status.scans == scans
    assert live.scan() == frozenset() and [row[0] for row in docs(live)] == ["w", "x", "y", "z"]


def test_a_new_folder_that_is_a_link_or_a_known_one_needs_a_scan(tmp_path: Path, live: Session) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "x.json").write_bytes(doc("x", 1))
    live.scan()
    scans = live.status.scans
    (tmp_path / "link").symlink_to(tmp_path / "one")
    live.look({str(tmp_path / "link")})
    assert live.status.scans == scans + 1 and [row[0] for row in docs(live)] == ["x"]
    (tmp_path / "one").rename(tmp_path / "two")
    live.look({str(tmp_path / "two")})
    assert live.status.scans == scans + 2 and [row[0] for row in docs(live)] == ["x"]
    assert [info.label for info in live.inputs("fake").files.values()] == ["two/x.json"]


@pytest.mark.parametrize("closes", [False, True])
def test_a_document_that_closes_itself_is_taken_once(
    closes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "RACY_S", 0.0)
    live = session(tmp_path, settle_s=0.05)
    monkeypatch.setattr(view_of(live).doc, "closes", closes, raising=False)
    (tmp_path / "x.json").write_bytes(doc("x", 1).rstrip(b"\n"))
    assert live.look({str(tmp_path / "x.json")}) == {"fake"}
    first = live.inputs("fake")
    time.sleep(0.06)
    live.look(set())
    assert (live.inputs("fake").files.keys() == first.files.keys()) == closes
    assert len(view_of(live).doc.reads) == (1 if closes else 2) and docs(live) == [("x", 1, 0)]


def test_a_report_reads_what_was_replaced_after_the_scan(tmp_path: Path) -> None:
    """A ring page that is overwritten every few seconds must not be missing because it was replaced before its turn."""
    (tmp_path / "page.doc").write_bytes(doc("page", 1))
    (tmp_path / "gone.doc").write_bytes(doc("gone", 1))
    found = FirstScan([tmp_path], settings())
    (tmp_path / "new").write_bytes(doc("page", 2))
    (tmp_path / "new").replace(tmp_path / "page.doc")
    (tmp_path / "gone.doc").unlink()
    report = Session([tmp_path], [FakeView()], settings=settings(), first_scan=found)
    report.scan(final=True)
    assert [row[:2] for row in docs(report)] == [("page", 2)]
    report.close()
