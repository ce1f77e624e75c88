"""The cache of parsed files: quick when it helps, invisible when it does not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import engine.live.ingest.follower as follow
from engine.live.session import Session
from tests.engine.live.fake import FakeView, doc, fresh, line, rows, settings


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files made by a test count as old enough to be cached."""
    monkeypatch.setattr(follow, "RACY_S", 0.0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    for number in range(20):
        (root / "sub" / f"{number}.log").write_bytes(b"".join(line(f"{number}.{i}", i) for i in range(50)))
        (root / f"{number}.json").write_bytes(doc(f"d{number}", *range(number)))
    (root / "photo.jpg").write_bytes(b"\xff\xd8")
    (root / "open.log").write_bytes(line("a", 1) + b"L|b|2")
    (root / "bad.log").write_bytes(line("a", 1) + b"nonsense\n" + line("c", 3))
    return root


class Run:
    """One start of the program: scan, close; what was read on the way."""

    def __init__(self, root: Path, folder: Path, *, final: bool = True, view: FakeView | None = None, **changes: Any):
        self.view = view or FakeView()
        base: dict[str, Any] = {"cache": True, "cache_dir": str(folder), "cache_min_mb": 0.0, "settle_s": 0.0}
        self.live = Session([root], [self.view], settings=settings(**{**base, **changes}), strict=True)
        self.live.scan(final=final)
        self.status = self.live.status
        self.live.close()
        self.rows = rows(self.live, self.view.name)
        self.problems = self.live.inputs(self.view.name).problems

    @property
    def read(self) -> set[str]:
        """Names of files given to readers."""
        return {read[0] for read in (*self.view.log.reads, *self.view.doc.reads)}


def parsed(cache: Path) -> list[Path]:
    return sorted(path for path in (cache / "parsed").rglob("*") if path.is_file() and path.name != "lock")


@pytest.mark.parametrize("final", [True, False])
def test_second_start_reads_nothing(root: Path, tmp_path: Path, final: bool) -> None:
    first = Run(root, tmp_path / "cache", final=final)
    assert len(first.read) == 42
    opened: list[str] = []
    real = follow.Content

    class Counting(real):  # type: ignore[misc, valid-type]
        def __init__(self, path: str, **limits: int) -> None:
            opened.append(Path(path).name)
            super().__init__(path, **limits)

    follow.Content = Counting  # type: ignore[misc]
    try:
        second = Run(root, tmp_path / "cache", final=final)
    finally:
        follow.Content = real  # type: ignore[misc]
    assert opened == ["open.log"], "only the one with an open last line is opened"
    assert second.read == {"open.log"} and second.view.log.reads[0][1] == len(line("a", 1))
    assert second.rows == first.rows and second.problems == first.problems
    assert second.status.cached == 42
    assert second.status.recognised == first.status.recognised
    third = Run(root, tmp_path / "cache", final=final)
    assert third.rows == first.rows and third.read == {"open.log"}


def test_only_what_changed_is_read(root: Path, tmp_path: Path) -> None:
    Run(root, tmp_path / "cache")
    before = (root / "sub" / "3.log").stat().st_size
    with (root / "sub" / "3.log").open("ab") as file:
        file.write(line("more", 1))
    (root / "sub" / "4.log").write_bytes(line("rewritten", 4) * 500)
    (root / "5.json").write_bytes(doc("other", 5))
    (root / "6.json").unlink()
    (root / "7.json").rename(root / "seven.json")
    (root / "new.log").write_bytes(line("new", 1))
    (root / "photo.jpg").write_bytes(line("no photo", 1))
    run = Run(root, tmp_path / "cache")
    assert run.rows == fresh(root)
    assert run.read == {"3.log", "4.log", "5.json", "seven.json", "new.log", "photo.jpg", "open.log"}
    assert ("3.log", before, len(line("more", 1)), False) in run.view.log.reads
    again = Run(root, tmp_path / "cache")
    assert again.rows == run.rows and again.read <= {"open.log", "3.log"}


def test_a_saved_prefix_goes_on_growing_over_many_starts(root: Path, tmp_path: Path) -> None:
    for number in range(30):
        with (root / "sub" / "3.log").open("ab") as file:
            file.write(line(f"more{number}", number) * 5)
        run = Run(root, tmp_path / "cache")
        assert run.rows == fresh(root)
        assert all(read[1] > 0 for read in run.view.log.reads if read[0] == "3.log") or number == 0
    assert len(parsed(tmp_path / "cache")) < 40, "segments are gathered again"


def test_damaged_cache_is_rebuilt_silently(root: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = Run(root, cache)
    for which in ("manifest", ".lines.0.parquet", ".docs.0.parquet"):
        for damage in range(5):
            path = next(path for path in parsed(cache) if path.name.endswith(which))
            good = path.read_bytes()
            cut, flipped = good[: len(good) // 2], good[:50] + bytes([good[50] ^ 1]) + good[51:]
            path.write_bytes([b"", cut, flipped, bytes(len(good)), os.urandom(100)][damage])
            run = Run(root, cache)
            assert run.rows == first.rows and run.problems == first.problems
            assert len(run.read) > 10 and Run(root, cache).read == {"open.log"}
    shutil.rmtree(cache)
    cache.write_bytes(b"a file in the place of the folder")
    assert Run(root, cache).rows == first.rows


def test_every_file_of_the_cache_damaged_in_turn(root: Path, tmp_path: Path) -> None:
    cache, spare = tmp_path / "cache", tmp_path / "spare"
    first = Run(root, cache)
    shutil.copytree(cache, spare)
    for name in [path.relative_to(spare) for path in parsed(spare)]:
        shutil.rmtree(cache)
        shutil.copytree(spare, cache)
        (cache / name).unlink()
        missing = Run(root, cache)
        assert missing.rows == first.rows and len(missing.read) > 10
        healed = Run(root, cache)
        assert healed.rows == first.rows and healed.read == {"open.log"}


def test_another_version_of_a_reader_reads_again(root: Path, tmp_path: Path) -> None:
    Run(root, tmp_path / "cache")
    view = FakeView()
    view.doc.version = 2
    run = Run(root, tmp_path / "cache", view=view)
    assert len(run.read) == 42
    assert Run(root, tmp_path / "cache").read == {"open.log"}, "the other one is still there"


def test_content_changed_behind_equal_size_and_times(root: Path, tmp_path: Path) -> None:
    """ctime cannot be set back: a restored mtime does not fool the cache."""
    Run(root, tmp_path / "cache")
    path = root / "9.json"
    status = path.stat()
    path.write_bytes(path.read_bytes().replace(b"8", b"7"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    run = Run(root, tmp_path / "cache")
    assert run.rows == fresh(root) and "9.json" in run.read


def test_unsettled_files_are_not_trusted(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "RACY_S", 60.0)
    Run(root, tmp_path / "cache")
    assert len(Run(root, tmp_path / "cache").read) == 42


def test_rewritten_while_saved(tmp_path: Path) -> None:
    """A log rewritten after it was saved must not pass for one that has grown."""
    root = tmp_path / "root"
    root.mkdir()
    chosen = settings(cache=True, cache_dir=str(tmp_path / "cache"), cache_min_mb=0.0, settle_s=0.0)
    live = Session([root], [FakeView()], settings=chosen, strict=True)
    for word in ("one", "two", "new"):
        (root / "a.log").write_bytes(line(word, 0))
        live.scan()
    live.close()
    run = Run(root, tmp_path / "cache")
    assert run.rows == fresh(root) and run.rows["lines"][0][0] == "new"


def test_two_sessions_leave_a_cache_that_serves_the_next_start(root: Path, tmp_path: Path) -> None:
    """Each writes what it has read, and takes away segments that the other one still counts on."""
    Run(root, tmp_path / "cache")
    changes = settings(cache=True, cache_dir=str(tmp_path / "cache"), cache_min_mb=0.0, settle_s=0.0)
    both = [Session([root], [FakeView()], settings=changes, strict=True) for _ in range(2)]
    for number, live in enumerate(both):
        live.scan()
        for path in root.rglob("*.json"):
            path.write_bytes(doc(f"{path.name} {number}", 7))
        for path in root.rglob("1*.log"):
            path.write_bytes(line(f"rewritten {number}", 4) * 50)
    both[0].scan(final=True)
    both[0].close()
    both[1].close()
    last = Run(root, tmp_path / "cache")
    assert last.rows == fresh(root)
    assert last.status.cached >= 9, "what neither of them saw change"


def test_off_and_small(root: Path, tmp_path: Path) -> None:
    for number, changes in enumerate(({"cache": False}, {"cache_min_mb": 5.0}, {"cache_max_mb": 0})):
        cache = tmp_path / f"cache{number}"
        Run(root, cache, **changes)
        assert not cache.exists()


def test_size_is_bounded_and_the_oldest_go_first(tmp_path: Path) -> None:
    import random

    seed = random.Random(1)
    cache = tmp_path / "cache"
    for number in range(4):
        root = tmp_path / f"root{number}"
        root.mkdir()
        (root / "a.log").write_bytes(b"".join(line(seed.random(), seed.getrandbits(62)) for _ in range(12_000)))
        Run(root, cache, cache_max_mb=1)
        os.utime(next(p for p in (cache / "parsed").iterdir()), (number, number)) if number == 0 else None
        assert sum(path.stat().st_size for path in parsed(cache)) <= 1 << 20
    assert not Run(tmp_path / "root3", cache, cache_max_mb=1).read
    assert Run(tmp_path / "root0", cache, cache_max_mb=1).read


def test_another_user_folder_is_not_used(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Run(root, tmp_path / "cache")
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert len(Run(root, tmp_path / "cache").read) == 42


def test_files_are_private(root: Path, tmp_path: Path) -> None:
    Run(root, tmp_path / "cache")
    for path in (tmp_path / "cache" / "parsed").rglob("*"):
        assert path.name == "lock" or path.stat().st_mode & 0o077 == 0


def test_xdg_cache_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from engine.live.cache.location import default_folder

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == str(tmp_path / "loadlens")


def test_two_views_and_two_roots(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "z.log").write_bytes(line("z", 1))
    chosen = settings(cache=True, cache_dir=str(tmp_path / "cache"), cache_min_mb=0.0, settle_s=0.0)
    for start in range(3):
        views = [FakeView("one"), FakeView("two")]
        live = Session([root, other], views, settings=chosen, strict=True)
        live.scan(final=True)
        live.close()
        assert rows(live, "one") == rows(live, "two") == fresh(root, other)
        assert {read[0] for view in views for read in view.log.reads} == ({"open.log"} if start else {
            *(f"{n}.log" for n in range(20)), "open.log", "bad.log", "z.log"
        })  # fmt: skip
    run = Run(root, tmp_path / "cache", view=FakeView("one"))
    assert run.read == {"open.log"}, "one view alone uses what both have left"


def test_live_changes_after_a_restored_start(root: Path, tmp_path: Path) -> None:
    Run(root, tmp_path / "cache")
    view = FakeView()
    chosen = settings(cache=True, cache_dir=str(tmp_path / "cache"), cache_min_mb=0.0, settle_s=0.0)
    live = Session([root], [view], settings=chosen, strict=True)
    live.scan()
    with (root / "sub" / "3.log").open("ab") as file:
        file.write(line("more", 1))
    os.truncate(root / "sub" / "4.log", 40)
    (root / "sub" / "5.log").rename(root / "sub" / "5.log.1")
    os.utime(root / "sub" / "6.log")
    (root / "1.json").write_bytes(doc("new", 1))
    (root / "2.json").unlink()
    live.scan()
    assert rows(live) == fresh(root)
    live.close()
