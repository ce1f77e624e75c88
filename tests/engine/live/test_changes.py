"""Each kind of change done to a real directory, followed by one look: the right rows, and no more reading than needed."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import Any

import pytest

import engine.live.follow as follow
import engine.live.scan as scanning
import engine.live.tail as tail
from engine.live.session import Session
from tests.engine.live.fake import FakeView, doc, fresh, line, rows, session


def values(live: Session) -> list[int]:
    return [row[1] for row in rows(live)["lines"]]


def keys(live: Session) -> list[str]:
    return [row[0] for row in rows(live)["lines"]]


def docs(live: Session) -> list[tuple[Any, ...]]:
    return rows(live)["docs"]


def kinds(live: Session) -> set[str]:
    return {problem.kind for problem in live.inputs("fake").problems}


@pytest.fixture
def live(tmp_path: Path) -> Session:
    return session(tmp_path, settle_s=0.0)


def view_of(live: Session) -> FakeView:
    found = live.views["fake"]
    assert isinstance(found, FakeView)
    return found


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
    assert second.changed_since(first.version) == {number} and second.version > first.version
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


def test_write_that_leaves_no_trace_in_the_stat_is_noticed_when_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system with a coarse clock: the second write has the same size and times as the first."""
    monkeypatch.setattr(follow, "RACY_S", 0.2)
    path = tmp_path / "x.json"
    path.write_bytes(doc("x", 1))
    live = session(tmp_path)
    live.scan()
    stat = path.stat()
    path.write_bytes(doc("x", 2))
    real = os.fstat

    def coarse(fd: int) -> os.stat_result:
        found = list(real(fd))
        return os.stat_result(
            tuple(found), {"st_mtime_ns": stat.st_mtime_ns, "st_ctime_ns": stat.st_ctime_ns, "st_atime_ns": 0}
        )

    monkeypatch.setattr(tail.os, "fstat", coarse)
    assert live.due() is not None
    import time

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


def pack(data: bytes, ending: str) -> bytes:
    import gzip

    import zstandard

    return gzip.compress(data) if ending == ".gz" else zstandard.ZstdCompressor().compress(data)


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
        assert live.due() is not None
    path.write_bytes(doc("x", 2))
    live.scan()
    (info,) = live.inputs("fake").files.values()
    assert docs(live) == [("x", 2, 0)] and not info.stale


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


def test_a_record_larger_than_a_block_and_many_blocks(
    tmp_path: Path, live: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "BLOCK", 1000)
    monkeypatch.setattr(tail, "WHOLE", 100)
    monkeypatch.setattr(tail, "EAGER", 100)
    data = b"".join(line("x" * (i % 7) * 700, i) for i in range(100))
    (tmp_path / "a.log").write_bytes(data)
    (tmp_path / "b.log.gz").write_bytes(pack(data, ".gz"))
    live.scan()
    assert sorted(values(live)) == sorted([*range(100), *range(100)])
    assert max(read[2] for read in view_of(live).log.reads if read[0] == "a.log") <= 8000


def test_an_endless_record_is_given_up(tmp_path: Path, live: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "BLOCK", 1000)
    monkeypatch.setattr(tail, "WHOLE", 100)
    monkeypatch.setattr(tail, "EAGER", 100)
    monkeypatch.setattr(follow, "MAX_RECORD", 5000)
    (tmp_path / "a.log").write_bytes(line("a", 1) + b"L|" * 10_000)
    live.scan()
    assert values(live) == [] and kinds(live) == {"too-big"}


# -- packed ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_packed_files(tmp_path: Path, live: Session, ending: str) -> None:
    (tmp_path / f"a.log{ending}").write_bytes(pack(line("a", 1), ending) + pack(line("b", 2), ending))
    (tmp_path / f"x.doc{ending}").write_bytes(pack(doc("x", 3), ending))
    (tmp_path / "named.wrongly").write_bytes(pack(line("c", 4), ending))
    live.scan()
    assert values(live) == [1, 2, 4] and docs(live) == [("x", 3, 0)]
    assert {read[0] for read in view_of(live).log.reads} == {"a.log", "named.wrongly"}
    with (tmp_path / f"a.log{ending}").open("ab") as file:
        file.write(pack(line("d", 5), ending))
    live.scan()
    assert values(live) == [1, 2, 4, 5]


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_cut_packed_file_gives_what_can_be_unpacked(tmp_path: Path, live: Session, ending: str) -> None:
    import random

    seed = random.Random(1)
    data = b"".join(line(seed.random(), i) for i in range(20_000))
    whole = pack(data, ending)
    (tmp_path / f"a.log{ending}").write_bytes(whole[: len(whole) * 9 // 10])
    live.scan()
    got = values(live)
    assert kinds(live) == {"cut-file"}
    assert 1000 < len(got) < 20_000 and sorted(got) == list(range(len(got))), "no half record at the cut"
    (tmp_path / f"a.log{ending}").write_bytes(whole)
    live.scan()
    assert len(values(live)) == 20_000 and kinds(live) == set()


def test_cut_packed_file_is_no_problem_while_it_grows(tmp_path: Path) -> None:
    whole = pack(line("a", 1) * 10_000, ".gz")
    (tmp_path / "a.log.gz").write_bytes(whole[:-4])
    live = session(tmp_path, settle_s=30)
    live.scan()
    assert kinds(live) == set() and live.due() is not None


@pytest.mark.parametrize("place", [3, 100, -9, -4])
def test_damaged_packed_file(tmp_path: Path, live: Session, place: int) -> None:
    data = bytearray(pack(b"".join(line(i * 7919, i) for i in range(5000)), ".gz"))
    data[place] ^= 0xFF
    (tmp_path / "a.log.gz").write_bytes(data)
    live.scan()
    assert kinds(live) <= {"damaged-archive", "cut-file", "bad-record"}
    assert kinds(live) or len(values(live)) == 5000


@pytest.mark.parametrize("ending", [".gz", ".zst"])
@pytest.mark.parametrize("name", ["bomb.log", "bomb.doc"])
def test_bomb(tmp_path: Path, ending: str, name: str) -> None:
    start = line("a", 1) if name.endswith("log") else b'{"doc"'
    bomb = pack(start + bytes(40 << 20), ending)
    assert len(bomb) < 100_000
    (tmp_path / f"{name}{ending}").write_bytes(bomb)
    live = session(tmp_path, settle_s=0.0, max_unpacked_mb=16)
    live.scan()
    assert kinds(live) == {"too-big"} and values(live) == [] and docs(live) == []
    assert {problem.kind for problem in live.problems} == {"too-big"}


def test_too_large_document(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(doc("x", *range(400_000)))
    live = session(tmp_path, settle_s=0.0, max_file_mb=1)
    live.scan()
    assert kinds(live) == {"too-big"} and docs(live) == []


# -- names, links, roots -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [".a.log", "a.log.tmp", "a.log.part", "a.log~", "a.log_tmp", ".a.log.crc", "a.crc"])
def test_scratch_files_are_ignored(tmp_path: Path, live: Session, name: str) -> None:
    (tmp_path / name).write_bytes(line("a", 1))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / name).write_bytes(line("a", 1))
    live.scan()
    live.look({str(tmp_path / name)})
    assert values(live) == [] and live.status.files == 0


def test_ignore_patterns(tmp_path: Path) -> None:
    for name in ("a.log", "b.log", "old/c.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(line(name, 1))
    live = session(tmp_path, ignore=("b.*", "old"))
    live.scan()
    assert keys(live) == ["a.log"]


def test_one_file_under_several_names_counts_once(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    (root / "sub").mkdir(parents=True)
    other.mkdir()
    (root / "a.log").write_bytes(line("a", 1))
    os.link(root / "a.log", root / "hard.log")
    (root / "soft.log").symlink_to("a.log")
    (root / "sub" / "b.log").write_bytes(line("b", 2))
    (root / "again").symlink_to("sub")
    (root / "sub" / "loop").symlink_to("..")
    (other / "link").symlink_to(root)
    live = session(root, root / "sub", other, root, root / "a.log", settle_s=0.0)
    live.scan()
    assert values(live) == [1, 2]
    assert sorted(info.label for info in live.inputs("fake").files.values()) == ["a.log", "sub/b.log"]
    (root / "a.log").unlink()
    live.scan()
    assert values(live) == [1, 2], "it lives on under its other name"
    (root / "hard.log").unlink()
    live.scan()
    assert values(live) == [2]


def test_links_to_files_and_folders_outside(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "a.log").write_bytes(line("a", 1))
    (outside / "b.log").write_bytes(line("b", 2))
    (root / "a.log").symlink_to(outside / "a.log")
    (root / "folder").symlink_to(outside)
    live = session(root, settle_s=0.0)
    live.scan()
    assert values(live) == [1, 2]
    with (outside / "b.log").open("ab") as file:
        file.write(line("c", 3))
    live.look({str(root / "folder" / "b.log")})
    assert values(live) == [1, 2, 3]
    not_followed = session(root, follow_symlinks=False)
    not_followed.scan()
    assert values(not_followed) == []


def test_broken_and_circular_links_sockets_and_pipes_are_passed_over(tmp_path: Path, live: Session) -> None:
    (tmp_path / "a.log").write_bytes(line("a", 1))
    (tmp_path / "broken.log").symlink_to("nowhere")
    (tmp_path / "self.log").symlink_to("self.log")
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "null.log").symlink_to("/dev/zero")
    (tmp_path / "topipe.log").symlink_to("pipe.log")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket.log"))
        live.scan()
        live.look({str(tmp_path / name) for name in ("pipe.log", "socket.log", "broken.log", "self.log", "null.log")})
    assert values(live) == [1] and kinds(live) == set()
    reasons = {item.path.rsplit("/", 1)[1]: item.reason for item in live.status.ignored}
    assert reasons["pipe.log"] == reasons["null.log"] == "not a regular file"
    assert reasons["broken.log"] == "broken link" and "self.log" in reasons


def test_a_pipe_put_in_the_place_of_a_file_between_scan_and_read(
    tmp_path: Path, live: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(line("a", 1))
    real = follow.Content

    def swapped(name: str, **limits: Any) -> tail.Content:
        path.unlink()
        os.mkfifo(path)
        monkeypatch.setattr(follow, "Content", real)
        return real(name, **limits)

    monkeypatch.setattr(follow, "Content", swapped)
    live.scan()
    assert values(live) == []
    live.scan()
    assert values(live) == []


def test_names_that_are_not_utf8_or_hostile(tmp_path: Path, live: Session) -> None:
    for count, name in enumerate([b"\xff\xfe.log", b"a\x1b[31m\n.log", "ü😀.log".encode(), b"\xed\xa0\x80.log"]):
        (tmp_path / os.fsdecode(name)).write_bytes(line(count, count) + b"bad\n")
    live.scan()
    assert values(live) == [0, 1, 2, 3]
    for info in live.inputs("fake").files.values():
        info.path.encode()
        assert info.path.isprintable() and info.label.isprintable()
    assert all(problem.path.isprintable() for problem in live.inputs("fake").problems)
    assert len(live.inputs("fake").problems) == 4


def test_deep_and_long_paths(tmp_path: Path, live: Session) -> None:
    here = Path.cwd()
    try:
        os.chdir(tmp_path)
        for _ in range(30):  # 30 x 200 characters is beyond PATH_MAX
            Path("d" * 200).mkdir()
            os.chdir("d" * 200)
        Path("a.log").write_bytes(line("a", 1))
    finally:
        os.chdir(here)
    (tmp_path / "b.log").write_bytes(line("b", 2))
    live.scan()
    assert values(live) == [2] and kinds(live) == {"unreadable"}


def test_root_missing_then_there_then_gone_then_a_file(tmp_path: Path) -> None:
    root = tmp_path / "later"
    live = session(root, settle_s=0.0)
    live.scan()
    assert kinds(live) == {"missing-root"} and {problem.kind for problem in live.problems} == {"missing-root"}
    root.mkdir()
    (root / "a.log").write_bytes(line("a", 1))
    live.scan()
    assert values(live) == [1] and kinds(live) == set()
    root.rename(tmp_path / "away")
    live.scan()
    assert values(live) == [] and kinds(live) == {"missing-root"}
    root.write_bytes(line("b", 2))
    live.scan()
    assert values(live) == [2]
    root.write_bytes(line("b", 2) + line("c", 3))
    live.look({str(root)})
    assert values(live) == [2, 3]
    root.unlink()
    (tmp_path / "away").rename(root)
    live.scan()
    assert values(live) == [1]


def test_root_given_as_link_relative_and_with_a_slash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.log").write_bytes(line("a", 1))
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    live = Session(["link/", "real", "./link"], [FakeView()])
    live.scan(final=True)
    live.close()
    assert [info.label for info in live.inputs("fake").files.values()] == ["a.log"]


# -- what cannot be read -----------------------------------------------------------------------------------------


def test_unreadable_file(tmp_path: Path, live: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = tmp_path / "a.log", tmp_path / "b.log"
    good.write_bytes(line("a", 1))
    bad.write_bytes(line("b", 2))
    live.scan()
    bad.write_bytes(line("b", 3))
    (tmp_path / "c.log").write_bytes(line("c", 4))
    real, denied = os.open, {str(bad), str(tmp_path / "c.log")}

    def refusing(path: Any, *rest: Any, **named: Any) -> int:
        if str(path) in denied:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path, *rest, **named)

    monkeypatch.setattr(os, "open", refusing)
    live.scan()
    assert values(live) == [1, 2], "the last good rows stay"
    stale = {info.label: info.stale for info in live.inputs("fake").files.values()}
    assert stale == {"a.log": False, "b.log": True}
    problems = [problem for problem in live.inputs("fake").problems if problem.kind == "unreadable"]
    assert [problem.path for problem in problems] == sorted(denied)
    denied.clear()
    with monkeypatch.context() as clock:
        clock.setattr(follow.time, "monotonic", lambda: 1e12)  # the retry is due
        live.look(set())
    assert values(live) == [1, 3, 4] and kinds(live) == set()


def test_unreadable_folder(tmp_path: Path, live: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.log").write_bytes(line("a", 1))
    (tmp_path / "b.log").write_bytes(line("b", 2))
    live.scan()
    real = os.scandir

    def refusing(path: Any) -> Any:
        if str(path).endswith("sub"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path)

    monkeypatch.setattr(scanning.os, "scandir", refusing)
    with (tmp_path / "b.log").open("ab") as file:
        file.write(line("c", 3))
    live.scan()
    assert values(live) == [1, 2, 3] and kinds(live) == {"unreadable"}
    monkeypatch.undo()
    live.scan()
    assert values(live) == [1, 2, 3] and kinds(live) == set()


def test_folder_swapped_for_a_file_and_back(tmp_path: Path, live: Session) -> None:
    place = tmp_path / "a.log"
    place.mkdir()
    (place / "b.log").write_bytes(line("b", 1))
    live.scan()
    assert values(live) == [1]
    (place / "b.log").unlink()
    place.rmdir()
    place.write_bytes(line("c", 2))
    live.look({str(place)})
    assert values(live) == [2]
    place.unlink()
    place.mkdir()
    (place / "d.log").write_bytes(line("d", 3))
    live.look({str(place)})
    assert values(live) == [3]


def test_file_vanishing_while_it_is_read(tmp_path: Path, live: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(line("a", 1) * 100)
    real = follow.Content

    def shrinking(name: str, **limits: Any) -> tail.Content:
        content = real(name, **limits)
        os.truncate(path, 10)
        return content

    monkeypatch.setattr(follow, "Content", shrinking)
    live.scan()
    monkeypatch.undo()
    live.scan()
    assert rows(live) == fresh(tmp_path)


# -- readers -----------------------------------------------------------------------------------------------------


def test_a_mistake_in_a_reader_is_a_problem_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(line("a", 1))
    (tmp_path / "b.log").write_bytes(b"L|boom|0\n")
    live = session(tmp_path, strict=False, settle_s=0.0)
    live.scan()
    assert values(live) == [1] and kinds(live) == {"reader-error"}
    (tmp_path / "b.log").write_bytes(line("b", 2))
    live.scan()
    assert values(live) == [1, 2] and kinds(live) == set()
    (tmp_path / "b.log").write_bytes(b"L|boom|0\n")
    with pytest.raises(RuntimeError, match="a mistake"):
        session(tmp_path).scan()


@pytest.mark.parametrize(
    "rows_given",
    [
        {"nowhere": {"key": ["a"]}},
        {"lines": {"unknown": [1]}},
        {"lines": {"key": ["a"], "value": [1, 2]}},
        {"lines": {"key": [object()], "value": [1], "number": [1]}},
    ],
)
def test_rows_that_do_not_fit_are_the_readers_mistake(tmp_path: Path, rows_given: Any) -> None:
    view = FakeView()
    real = view.doc.read

    def wrong(source: Any, data: bytes, state: Any, final: bool) -> Any:
        reading = real(source, data, state, final)
        if b"wrong" in data:
            reading.rows = rows_given
        return reading

    view.doc.read = wrong  # type: ignore[method-assign]
    (tmp_path / "x.json").write_bytes(doc("x", 1))
    (tmp_path / "y.json").write_bytes(doc("wrong", 1))
    live = session(tmp_path, view=view, strict=False, settle_s=0.0)
    live.scan()
    assert docs(live) == [("x", 1, 0)] and kinds(live) == {"reader-error"}


def test_problems_of_a_file_are_bounded_and_counted(tmp_path: Path, live: Session) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(line("a", 1) + b"bad\n" * 5000)
    live.scan()
    (problem,) = live.inputs("fake").problems
    assert problem.count == 5000 and problem.line == 2
    path.unlink()
    live.scan()
    assert live.inputs("fake").problems == ()


def test_two_views_read_the_same_file(tmp_path: Path) -> None:
    from tests.engine.live.fake import settings

    (tmp_path / "a.log").write_bytes(line("a", 1))
    live = Session([tmp_path], [FakeView("one"), FakeView("two")], settings=settings(settle_s=0.0), strict=True)
    assert live.scan() == {"one", "two"}
    assert rows(live, "one") == rows(live, "two")
    assert live.status.recognised == {"one": 1, "two": 1}
    with pytest.raises(ValueError, match="same name"):
        Session([tmp_path], [FakeView(), FakeView()])


def test_compute_uses_snapshots_and_one_memo(tmp_path: Path, live: Session) -> None:
    from engine.view import Cancelled
    from tests.engine.live.fake import Choices

    (tmp_path / "a.log").write_bytes(line("a", 1))
    live.scan()
    before = live.inputs("fake")
    assert live.compute("fake", Choices()).summary["total"] == 1
    (tmp_path / "a.log").write_bytes(line("a", 5))
    live.scan()
    assert live.compute("fake", Choices()).summary["total"] == 5
    assert live.compute("fake", Choices(), inputs=before).summary["total"] == 1
    assert live._memos["fake"]["computed"] == 3
    with pytest.raises(Cancelled):
        live.compute("fake", Choices(), stop=lambda: True)
    with pytest.raises(KeyError):
        live.compute("other", Choices())


def test_status(tmp_path: Path, live: Session) -> None:
    assert live.status.scans == 0
    (tmp_path / "a.log").write_bytes(line("a", 1))
    (tmp_path / "empty.log").write_bytes(b"")
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8")
    told: list[tuple[float, str]] = []
    live.scan(progress=lambda fraction, text: told.append((fraction, text)))
    status = live.status
    assert (status.files, status.scans, status.ignored_count) == (3, 1, 2)
    assert {(item.path.rsplit("/", 1)[1], item.reason) for item in status.ignored} == {
        ("empty.log", "empty"),
        ("photo.jpg", "not recognised"),
    }
    assert status.bytes == len(line("a", 1)) and status.bytes_read == len(line("a", 1))
    assert status.newest_ms is not None and status.age_ms(status.newest_ms + 5) == 5
    assert status.last_scan_ms is not None and told[-1][0] == 1.0


def test_dot_folders_are_looked_into_but_not_those_of_tools(tmp_path: Path, live: Session) -> None:
    """Running Hadoop jobs write below ``.staging``; nobody keeps metrics below ``.git``."""
    for folder, value in ((".staging", 1), (".git", 2), ("sub.tmp", 3)):
        (tmp_path / folder / "deep").mkdir(parents=True)
        (tmp_path / folder / "deep" / "a.log").write_bytes(line(folder, value))
    (tmp_path / ".hidden.log").write_bytes(line("hidden", 4))
    live.scan()
    assert keys(live) == [".staging"]
