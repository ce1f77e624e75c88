"""Views that come later see the same files, from the disk or from the cache; closing never waits for a long scan."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

import engine.live.ingest.follower as follow
from engine.core.reading import Reading, Source
from engine.live.session import Session
from tests.engine.live.fake import FakeView, Log, doc, fresh, line, rows, settings


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files made by a test count as old enough to be cached."""
    monkeypatch.setattr(follow, "RACY_S", 0.0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    for number in range(5):
        (root / f"{number}.log").write_bytes(b"".join(line(f"{number}.{i}", i) for i in range(20)))
        (root / f"{number}.json").write_bytes(doc(f"d{number}", *range(number)))
    (root / "photo.jpg").write_bytes(b"\xff\xd8")
    (root / "open.log").write_bytes(line("a", 1) + b"L|b|2")
    return root


def names(view: FakeView) -> set[str]:
    return {read[0] for read in (*view.log.reads, *view.doc.reads)}


@pytest.mark.parametrize("final", [True, False])
def test_a_view_admitted_later_reads_what_one_from_the_beginning_does(root: Path, final: bool) -> None:
    first, later = FakeView(), FakeView("later")
    live = Session([root], [first], settings=settings(settle_s=0.0), strict=True)
    assert live.scan(final=final) == {"fake"}
    reads = len(first.log.reads) + len(first.doc.reads)
    live.admit([later])
    assert rows(live, "later") == {"lines": [], "docs": []}
    assert live.scan(final=final) == {"later"}
    assert rows(live, "later") == rows(live) == fresh(root)
    assert len(first.log.reads) + len(first.doc.reads) == reads, "what was read is not read again"
    with pytest.raises(ValueError, match="later"):
        live.admit([later])


def test_both_follow_changes_afterwards(root: Path) -> None:
    live = Session([root], [FakeView()], settings=settings(settle_s=0.0), strict=True)
    live.scan()
    live.admit([FakeView("later")])
    with (root / "0.log").open("ab") as file:  # changed between the two scans
        file.write(line("new", 7))
    (root / "1.json").write_bytes(doc("d1", 9, 9))
    (root / "2.log").unlink()
    live.scan()
    assert rows(live, "later") == rows(live) == fresh(root)
    with (root / "0.log").open("ab") as file:
        file.write(line("newer", 8))
    live.scan()
    assert rows(live, "later") == rows(live) == fresh(root)


def test_a_view_admitted_later_is_restored_from_the_cache(root: Path, tmp_path: Path) -> None:
    def start(grow: bool = False) -> tuple[Session, FakeView]:
        later = FakeView("later")
        chosen: dict[str, Any] = {"cache": True, "cache_dir": str(tmp_path / "c"), "cache_min_mb": 0.0, "settle_s": 0.0}
        live = Session([root], [FakeView()], settings=settings(**chosen), strict=True)
        live.scan()
        live.admit([later])
        live.scan()
        live.close()
        return live, later

    start()
    live, later = start()
    assert names(later) <= {"open.log"} and rows(live, "later") == fresh(root)
    # A log that has grown since it was saved: the first view reads on, the later one must not miss the new lines.
    with (root / "0.log").open("ab") as file:
        file.write(line("new", 7))
    live, later = start()
    assert "0.log" in names(later) and rows(live, "later") == rows(live) == fresh(root)


class SlowLog(Log):
    """Takes its time for every file."""

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        time.sleep(0.05)
        return super().read(source, data, state, final)


def test_closing_ends_a_long_scan(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"{number}.log").write_bytes(line("a", number))
    view = FakeView()
    view.log = SlowLog()
    view.kinds = (view.log, view.doc)
    live = Session([tmp_path], [view], settings=settings(), strict=True)
    thread = threading.Thread(target=live.scan)
    thread.start()
    while not view.log.reads:
        time.sleep(0.01)
    begun = time.monotonic()
    live.close(1.0)
    assert time.monotonic() - begun < 2
    thread.join(5)
    assert not thread.is_alive() and len(view.log.reads) < 100


def test_a_mistake_with_one_file_does_not_keep_others_from_being_read(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = follow.Follower._visit

    def wrong(self: follow.Follower, file: Any, *rest: Any) -> bool:
        if file.path.endswith("0.log"):
            raise RuntimeError("a mistake of ours")
        return real(self, file, *rest)

    monkeypatch.setattr(follow.Follower, "_visit", wrong)
    live = Session([root], [FakeView()], settings=settings(settle_s=0.0))
    live.scan()
    (problem,) = [p for p in live.inputs("fake").problems if p.kind == "internal-error"]
    assert problem.path.endswith("0.log") and "a mistake of ours" in problem.reason
    assert len(live.inputs("fake").files) == len(list(root.iterdir())) - 2
    monkeypatch.undo()
    with (root / "0.log").open("ab") as file:
        file.write(line("new", 1))
    live.scan()
    assert not [p for p in live.inputs("fake").problems if p.kind == "internal-error"]
    assert rows(live) == fresh(root)
