"""A real terminal for tests: a program on a pseudo-terminal, what it wrote and when."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _begin() -> None:
    """In the program's process before it starts: standard input is its terminal, and ``nohup`` is not inherited."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Terminal:
    """``argv`` (after ``python``) on a pseudo-terminal of ``size`` (columns, rows). Use as a context manager."""

    def __init__(
        self, argv: Sequence[str], home: Path, size: tuple[int, int] = (80, 24), env: Mapping[str, str] | None = None
    ) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        keep = {
            name: os.environ[name]
            for name in ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV", "PYTHONPYCACHEPREFIX")
            if name in os.environ
        }
        environ = {
            **keep,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "PYTHONPATH": str(ROOT),
            **(env or {}),
        }
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, *argv],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environ,
            cwd=ROOT,
            start_new_session=True,
            preexec_fn=_begin,
        )
        self.output = bytearray()
        self.arrived: list[tuple[float, int]] = []
        self._reading = True
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while self._reading:
            ready, _, _ = select.select([self.master], [], [], 0.05)
            if not ready:
                continue
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            if not data:
                return
            self.output += data
            self.arrived.append((time.monotonic(), len(data)))

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        self._reading = False
        self._thread.join(2)
        for descriptor in (self.master, self.slave):
            try:
                os.close(descriptor)
            except OSError:
                pass

    def send(self, data: bytes) -> None:
        """Type."""
        os.write(self.master, data)

    def until(self, true: Callable[[], bool], seconds: float = 20.0) -> float:
        """Wait; gives the seconds since the start. Fails with the output's end."""
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                shown = re.sub(rb"\x1b\[[0-9;?<>=]*[a-zA-Z]", b" ", bytes(self.output[-4000:]))
                raise AssertionError(f"not within {seconds} s; exit {self.process.poll()}; {shown[-400:]!r}")
            time.sleep(0.01)
        return time.monotonic() - self.started

    def see(self, text: str, seconds: float = 20.0) -> float:
        """Wait for text that is written in one piece."""
        return self.until(lambda: text.encode() in self.output, seconds)

    def quiet(self, seconds: float = 0.4, limit: float = 20.0) -> None:
        """Wait until nothing was written for a while."""
        self.until(lambda: bool(self.arrived) and time.monotonic() - self.arrived[-1][0] > seconds, limit)

    def bytes_during(self, seconds: float) -> int:
        """How many bytes are written in the next seconds."""
        before = len(self.output)
        time.sleep(seconds)
        return len(self.output) - before

    def ended(self, seconds: float = 10.0) -> int:
        """Wait for the end and for its last bytes to be read; gives the exit code."""
        code = self.process.wait(seconds)
        seen = -1
        while seen != len(self.output) or (self._reading and select.select([self.master], [], [], 0)[0]):
            seen = len(self.output)
            time.sleep(0.1)
        return code

    def hang_up(self) -> None:
        """The terminal goes away."""
        self._reading = False
        self._thread.join(2)
        os.close(self.master)
        os.close(self.slave)
        self.master = self.slave = -1  # their numbers may belong to others from now on

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program."""
        self.process.send_signal(number)

    @property
    def restored(self) -> bool:
        """Whether the alternate screen was left, the cursor shown, and the line settings are as before."""
        out = bytes(self.output)
        last = out.rfind(b"\x1b[?1049l")
        left = last > out.rfind(b"\x1b[?1049h") >= 0
        now = termios.tcgetattr(self.slave)
        return left and out.rfind(b"\x1b[?25h") > out.rfind(b"\x1b[?25l") and now[:4] == self.before[:4]
