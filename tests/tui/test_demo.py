"""The demo leaves nothing behind, however and whenever it ends."""

from __future__ import annotations

import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tui.terminal import Terminal
from tui.process import played_folder
from tui.process.played_folder import PlayedFolder


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """The folder of temporary files (``TMPDIR``) of the demo."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


@pytest.fixture
def demo(tmp_path: Path, temporary: Path) -> Iterator[Terminal]:
    with Terminal(["-m", "tui", "demo"], tmp_path, env={"TMPDIR": str(temporary), "HOME": str(tmp_path / "home")}) as t:
        yield t


def test_whoever_removes_last_comes_back_last(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feeder, begun, real = PlayedFolder(temporary), threading.Event(), shutil.rmtree

    def slow(path: Path, ignore_errors: bool) -> None:
        if not begun.is_set():  # the second one finds nothing to do, and may end the process
            begun.set()
            time.sleep(0.2)
            real(path, ignore_errors=ignore_errors)

    monkeypatch.setattr(played_folder.shutil, "rmtree", slow)
    first = threading.Thread(target=feeder.remove)
    first.start()
    begun.wait(5)
    feeder.remove()
    assert not temporary.exists()
    first.join()


def test_threads_that_compute_do_not_hold_the_removal_up(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, before, during = shutil.rmtree, sys.getswitchinterval(), []

    def noted(path: Path, ignore_errors: bool) -> None:
        during.append(sys.getswitchinterval())
        real(path, ignore_errors=ignore_errors)

    monkeypatch.setattr(played_folder.shutil, "rmtree", noted)
    PlayedFolder(temporary).remove()
    assert not temporary.exists() and during[0] < before / 100
    assert sys.getswitchinterval() == before


@pytest.mark.parametrize(("number", "later"), [(signal.SIGTERM, 0.0), (signal.SIGHUP, 0.05), (signal.SIGINT, 0.1)])
def test_signals_while_it_starts_leave_nothing(
    demo: Terminal, temporary: Path, number: signal.Signals, later: float
) -> None:
    demo.until(lambda: any(temporary.iterdir()), 60)
    time.sleep(later)
    demo.signal(number)
    assert demo.ended(60) in ((128 + number, 0) if number == signal.SIGINT else (128 + number,))
    assert list(temporary.iterdir()) == [] and b"Traceback" not in demo.output


def test_a_signal_leaves_nothing(demo: Terminal, temporary: Path, tmp_path: Path) -> None:
    """After ``q`` a replay removes its folder in the same way (test_replay.py)."""
    demo.see("Help", 60)
    assert [path.name[:14] for path in temporary.iterdir()] == ["loadlens-demo-"], "TMPDIR is honoured"
    log = tmp_path / "state" / "loadlens" / "loadlens.log"
    demo.until(lambda: log.exists() and "engine loaded" in log.read_text(), 60)
    assert not (tmp_path / "home").exists(), "XDG folders are honoured"
    demo.signal(signal.SIGTERM)
    assert demo.ended(60) == 128 + signal.SIGTERM and demo.restored
    assert list(temporary.iterdir()) == []


def test_a_lost_terminal_leaves_nothing(demo: Terminal, temporary: Path) -> None:
    demo.see("Help", 60)
    demo.hang_up()
    assert demo.process.wait(30) == 129
    assert list(temporary.iterdir()) == []
