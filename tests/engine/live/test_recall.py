"""Results kept for the next report: used for the very same files only, never trusted, never in the way."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.live.cache import recall
from engine.live.cache.recall import Recall
from engine.live.files.first_look import Look
from engine.live.session import Session
from engine.problems import Problem
from engine.result import Finding, Headline, Result
from tests.engine.live.fake import FakeView, doc, line, settings

RESULT = Result(
    view="fake",
    summary={"rows": 3, "mean": 1.5, "none": None},
    tables={
        "lines": pl.DataFrame({"key": ["a", None], "value": [1, 2]}),
        "empty": pl.DataFrame(schema={"x": pl.Float64}),
        "deep": pl.DataFrame({"list": [[1.0, None], []]}),
    },
    headline=(Headline("rows", "3", "all", "low"),),
    findings=(Finding("severe", "a", "is bad"),),
    notes=("a note",),
    problems=(Problem.at("/x", "bad-record", "no", line=3),),
    newest_ms=7,
    focus={"lines": ("key", "a")},
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "one.log").write_bytes(line("a", 1) + line("b", 2))
    (root / "two.json").write_bytes(doc("d", 1, 2))
    (root / "photo.jpg").write_bytes(b"\xff\xd8")
    age(root)
    return root


def age(root: Path) -> None:
    old = time.time() - 60
    for path in root.iterdir():
        os.utime(path, (old, old))


class Lasting(FakeView):
    lasting = True


def look(root: Path, tmp_path: Path, *, view: Any = None, at_ms: int | None = None, **changes: Any) -> Recall:
    given = {"cache": True, "cache_dir": str(tmp_path / "cache"), "cache_min_mb": 0.0, **changes}
    view = view or Lasting()
    return Recall(Look([str(root)], settings(**given)), view, view.parameters(), at_ms)


def kept(root: Path, tmp_path: Path, **changes: Any) -> bool:
    """Read everything as a report does and keep RESULT as what came of it."""
    view = Lasting()
    found = look(root, tmp_path, view=view, **changes)
    session = Session([root], [view], settings=settings(cache=False), look=found._look)
    session.scan(final=True)
    assert session.inputs(view.name).files
    return found.keep(RESULT, session.settled())


def test_the_same_files_give_the_kept_result(root: Path, tmp_path: Path) -> None:
    assert look(root, tmp_path).find() is None
    assert kept(root, tmp_path)
    found = look(root, tmp_path).find()
    assert found is not None
    assert found.same_as(RESULT)
    assert found.focused("lines").height == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "one.log").write_bytes(line("a", 1) + line("b", 3)),
        lambda root: (root / "one.log").unlink(),
        lambda root: (root / "one.log").rename(root / "other.log"),
        lambda root: (root / "new.log").write_bytes(line("c", 1)),
        lambda root: (root / "photo.jpg").write_bytes(b"\xff\xd9"),
        lambda root: os.utime(root / "two.json"),
        lambda root: (root / "two.json").chmod(0o600),
    ],
)
def test_any_change_below_the_roots_is_a_reason_to_compute(root: Path, tmp_path: Path, change: Any) -> None:
    assert kept(root, tmp_path)
    time.sleep(0.005)
    change(root)
    assert look(root, tmp_path).find() is None


def test_other_choices_or_instants_are_other_results(root: Path, tmp_path: Path) -> None:
    assert kept(root, tmp_path)
    assert look(root, tmp_path, at_ms=5).find() is None
    assert look(root, tmp_path, max_file_mb=7).find() is None
    assert look(root, tmp_path, view=FakeView()).find() is None
    assert look(root, tmp_path, cache=False).find() is None
    assert look(root, tmp_path, cache_max_mb=0).find() is None
    assert look(root, tmp_path, cache_min_mb=5.0).find() is None
    assert look(root, tmp_path).find() is not None


def test_another_program_computes(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(root, tmp_path)
    monkeypatch.setattr(recall, "_program", lambda: b"another")
    assert look(root, tmp_path).find() is None
    monkeypatch.setattr(recall, "_program", lambda: None)
    assert not kept(root, tmp_path)


def test_what_has_not_settled_is_not_kept(root: Path, tmp_path: Path) -> None:
    (root / "one.log").write_bytes(line("a", 1))  # just now: it may change again within the clock's tick
    assert not kept(root, tmp_path)
    age(root)
    found = look(root, tmp_path)
    assert not found.keep(RESULT, None)
    session = Session([root], [Lasting()], settings=settings(cache=False), look=found._look)
    (root / "one.log").write_bytes(line("a", 1) + line("b", 9))  # between the look and the reading
    age(root)
    session.scan(final=True)
    assert not found.keep(RESULT, session.settled())


def test_unreadable_files_are_asked_again(root: Path, tmp_path: Path) -> None:
    view = Lasting()
    (root / "one.log").write_bytes(line("boom", 0))  # the reader itself fails
    age(root)
    found = look(root, tmp_path, view=view)
    session = Session([root], [view], settings=settings(cache=False), look=found._look)
    session.scan(final=True)
    assert session.settled() is None


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "head", "folder"])
def test_damage_is_noticed(root: Path, tmp_path: Path, damage: str) -> None:
    assert kept(root, tmp_path)
    (file,) = (tmp_path / "cache").rglob("*.result")
    data = bytearray(file.read_bytes())
    if damage == "cut":
        file.write_bytes(data[:-9])
    elif damage == "flip":
        data[-40] ^= 1
        file.write_bytes(data)
    elif damage == "head":
        data[60] ^= 0xFF
        file.write_bytes(data)
    elif damage == "empty":
        file.write_bytes(b"")
    else:
        file.unlink()
        file.mkdir()
    assert look(root, tmp_path).find() is None
    if damage != "folder":
        assert kept(root, tmp_path)
        assert look(root, tmp_path).find() is not None


def test_the_folder_stays_small_and_private(root: Path, tmp_path: Path) -> None:
    for at_ms in range(recall.KEPT + 3):
        assert kept(root, tmp_path, at_ms=at_ms)
    files = list((tmp_path / "cache").rglob("*.result"))
    assert len(files) == recall.KEPT
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    assert files[0].parent.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_written_is_no_trouble(root: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"a file")
    assert not kept(root, tmp_path)
