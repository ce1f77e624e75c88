"""A full look that gives way to what is known to have changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import engine.live.files.scan as scan
from engine.live.files.watch import Watcher
from engine.live.options import LiveSettings
from tests.engine.live.fake import Calm, line, until


class Slow(Calm):
    """Looks at everything until it is interrupted, or for two seconds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.complete = True
        self.calls: list[tuple[set[str] | None, float]] = []
        self.begun = threading.Event()

    def look(self, hints: set[str] | None, *, interrupted: Callable[[], bool] | None = None) -> frozenset[str]:
        self.calls.append((hints, time.monotonic()))
        if hints is None and interrupted is not None:
            self.begun.set()
            until = time.monotonic() + 2
            while time.monotonic() < until and not interrupted():
                time.sleep(0.002)
            self.complete = time.monotonic() >= until
        return frozenset()

    def identities(self) -> dict[str, tuple[int, int] | None]:
        return {str(self.root): (1, 1)}


def test_a_file_that_changes_during_a_full_look_does_not_wait_for_it(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    looker = Slow(tmp_path)
    watcher = Watcher([str(tmp_path)], LiveSettings(scan_interval_s=0.2, poll=False), looker)
    stop = threading.Event()
    thread = threading.Thread(target=watcher.run, args=(lambda names: None, stop))
    thread.start()
    try:
        assert looker.begun.wait(5)
        begun = time.monotonic()
        path.write_bytes(b"new")
        until(lambda: any(hints == {str(path)} for hints, _ in looker.calls), 1.5)
        assert next(at for hints, at in looker.calls if hints) - begun < 1
        until(lambda: looker.calls[-1][0] is None, 1.5)  # and what gave way is made up for at once
        until(lambda: looker.complete, 5)
    finally:
        stop.set()
        thread.join(10)


@pytest.mark.parametrize("after", [0, 1, 5, 11, 12])
def test_what_an_interrupted_scan_says_is_true(tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_STEP", 1)
    for number in range(3):
        (tmp_path / f"d{number}").mkdir()
        for other in range(4):
            (tmp_path / f"d{number}" / f"{other}.log").write_bytes(line(f"{number}.{other}", other))
    scanner = scan.Scanner([str(tmp_path)])
    scanner.scan()
    (tmp_path / "d0" / "1.log").unlink()
    (tmp_path / "d1" / "2.log").write_bytes(line("longer", 100))
    (tmp_path / "d2" / "new.log").write_bytes(line("new", 1))
    answers = iter([False] * after)
    first = scanner.scan(lambda: next(answers, True))
    complete = scanner.complete
    second = scanner.scan()
    assert scanner.complete and complete is (after >= 15)
    gone: Any = first.gone | second.gone
    assert {Path(path).name for path in gone} == {"1.log"}
    assert {Path(path).name for path in first.changed.keys() | second.changed.keys()} == {"2.log", "new.log"}
    assert not first.changed.keys() & second.changed.keys() and not scanner.scan()


def test_what_spark_writes_beside_a_manifest_is_not_looked_at(tmp_path: Path) -> None:
    """Full look and hints agree; the same names elsewhere are files like others."""
    result, other = tmp_path / "day=1", tmp_path / "other" / "manifest"
    for folder in (result / "table=jobs", result / "manifest" / "_temporary" / "0", other):
        folder.mkdir(parents=True)
        (folder / "part.txt").write_bytes(b"x")
    manifest = result / "manifest"
    (manifest / "part.txt").write_bytes(b"x")
    written = [folder / "_SUCCESS" for folder in (manifest, manifest.parent, other)]
    for path in written:
        path.touch()
    scanner = scan.Scanner([str(tmp_path)], LiveSettings())
    wanted = {str(path) for path in (manifest / "part.txt", *written[1:], other / "part.txt")}
    assert scanner.scan().changed.keys() == wanted
    (manifest / "_temporary" / "0" / "more.txt").touch()
    (manifest / "_started").touch()
    (manifest / "_logs").mkdir()
    hints = [manifest / "_temporary" / "0" / "more.txt", manifest / "_started", manifest / "_logs", written[0]]
    assert not scanner.look(map(str, hints))
    assert not scanner.scan()
