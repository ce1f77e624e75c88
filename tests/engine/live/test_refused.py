"""What cannot be read, and mistakes of readers: a problem each, and the rest goes on."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

import engine.live.files.scan as scanning
import engine.live.ingest.file_content as tail
import engine.live.ingest.follower as follow
from engine.live.session import Session
from tests.engine.live.fake import FakeView, doc, docs, fresh, keys, kinds, line, rows, session, values


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
        {"lines": {"key": ["a"], "value": [1], "number": [1]}},  # a table of the view, but not of this reader
        {"docs": {"unknown": [1]}},
        {"docs": {"doc": ["a"], "value": [1, 2]}},
        {"docs": {"doc": [object()], "value": [1], "place": [1]}},
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
    with pytest.raises(ValueError, match="has a view"):
        Session([tmp_path], [FakeView(), FakeView()])


def test_compute_uses_snapshots_and_one_memo(tmp_path: Path, live: Session) -> None:
    from engine.core.view import Cancelled
    from tests.engine.live.fake import Choices

    (tmp_path / "a.log").write_bytes(line("a", 1))
    live.scan()
    before = live.inputs("fake")
    assert live.compute("fake", Choices()).summary["total"] == 1
    (tmp_path / "a.log").write_bytes(line("a", 5))
    live.scan()
    assert live.compute("fake", Choices()).summary["total"] == 5
    assert live.compute("fake", Choices(), inputs=before).summary["total"] == 1
    assert live._memos["fake"].state("totals", list) == [1, 5, 1]
    with pytest.raises(Cancelled):
        live.compute("fake", Choices(), stop=lambda: True)
    with pytest.raises(KeyError):
        live.compute("other", Choices())


def test_status(tmp_path: Path, live: Session) -> None:
    assert live.status.scans == 0
    (tmp_path / "a.log").write_bytes(line("a", 1))
    (tmp_path / "empty.log").write_bytes(b"")
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\0")
    reported: list[tuple[float, str]] = []
    live.scan(progress=lambda fraction, text: reported.append((fraction, text)))
    status = live.status
    assert (status.files, status.scans, status.ignored_count) == (3, 1, 2)
    assert {(item.path.rsplit("/", 1)[1], item.reason) for item in status.ignored} == {
        ("empty.log", "empty"),
        ("photo.jpg", "not recognised: no reader knows such binary data; loadlens feeds fake lists what is read"),
    }
    assert [(problem.kind, problem.path.rsplit("/", 1)[1]) for problem in live.unread] == [("not-read", "photo.jpg")]
    assert status.bytes == len(line("a", 1)) and status.bytes_read == len(line("a", 1))
    assert status.newest_ms is not None and status.last_scan_ms is not None and reported[-1][0] == 1.0


def test_dot_folders_are_looked_into_but_not_those_of_tools(tmp_path: Path, live: Session) -> None:
    """Running Hadoop jobs write below ``.staging``; no metrics lie below ``.git``."""
    for folder, value in ((".staging", 1), (".git", 2), ("sub.tmp", 3)):
        (tmp_path / folder / "deep").mkdir(parents=True)
        (tmp_path / folder / "deep" / "a.log").write_bytes(line(folder, value))
    (tmp_path / ".hidden.log").write_bytes(line("hidden", 4))
    live.scan()
    assert keys(live) == [".staging"]
