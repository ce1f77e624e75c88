"""The demo leaves nothing behind, however and whenever it ends."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from pathlib import Path

import pytest

from tests.tui.terminal import started_on


class Demo:
    """``loadlens demo`` on a terminal of its own, with its temporary folder and home in ``place``."""

    def __init__(self, place: Path) -> None:
        self.temporary = place / "tmp"
        self.temporary.mkdir()
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "LOADLENS", "NO_COLOR"))}
        environ |= {"TERM": "xterm-256color", "TMPDIR": str(self.temporary), "HOME": str(place / "home")}
        environ |= {"XDG_STATE_HOME": str(place / "state"), "XDG_CACHE_HOME": str(place / "cache")}
        self.master, inner = pty.openpty()
        self.process = started_on(inner, ["-m", "tui", "demo"], environ)
        os.close(inner)
        self.output = b""

    def drain(self, seconds: float) -> None:
        """Read what the terminal shows for so long, or until the process ends."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            if select.select([self.master], [], [], 0.05)[0]:
                try:
                    self.output += os.read(self.master, 1 << 16)
                except OSError:
                    return

    def until(self, text: bytes) -> None:
        """Wait until ``text`` was shown."""
        end = time.monotonic() + 60
        while text not in self.output:
            assert time.monotonic() < end and self.process.poll() is None, self.output[-2000:]
            self.drain(0.1)

    def ended(self) -> int:
        """Wait for the end; the exit code."""
        end = time.monotonic() + 60
        while self.process.poll() is None:
            assert time.monotonic() < end, "does not end"
            self.drain(0.1)
        return self.process.returncode


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    return Demo(tmp_path)


def folder_made(demo: Demo) -> None:
    end = time.monotonic() + 60
    while not list(demo.temporary.iterdir()):
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_leave_nothing(demo: Demo, number: signal.Signals) -> None:
    demo.until(b"Help")
    demo.drain(1.0)
    demo.process.send_signal(number)
    assert demo.ended() == 128 + number
    assert list(demo.temporary.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("later", [0.0, 0.05, 0.1])
def test_signals_while_it_starts_leave_nothing(demo: Demo, number: signal.Signals, later: float) -> None:
    folder_made(demo)
    demo.drain(later)
    demo.process.send_signal(number)
    assert demo.ended() in ((128 + number, 0) if number == signal.SIGINT else (128 + number,))
    assert list(demo.temporary.iterdir()) == [] and b"Traceback" not in demo.output


def test_q_leaves_nothing(demo: Demo, tmp_path: Path) -> None:
    demo.until(b"Help")
    assert [path.name[:14] for path in demo.temporary.iterdir()] == ["loadlens-demo-"], "TMPDIR is honoured"
    log = tmp_path / "state" / "loadlens" / "loadlens.log"
    while not log.exists():
        demo.drain(0.1)
    os.write(demo.master, b"q")
    assert demo.ended() == 0
    assert list(demo.temporary.iterdir()) == []
    assert "engine loaded" in log.read_text() and not (tmp_path / "home").exists(), "XDG folders are honoured"


def test_a_lost_terminal_leaves_nothing(demo: Demo) -> None:
    demo.until(b"Help")
    os.close(demo.master)
    demo.process.wait(30)
    assert demo.process.returncode == 129
    assert list(demo.temporary.iterdir()) == []
