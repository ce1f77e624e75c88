"""A fork that reads everything: whatever ends it before all is read, the process that waited goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import os, pathlib, re, signal, sys, time
from engine.live.pool import tasks, trial
signal.signal(signal.SIGINT, signal.SIG_DFL)  # as the program begins
def ready():
    # The process that waits catches interrupts in a moment.
    status = pathlib.Path(f"/proc/{os.getppid()}/status")
    while not int(re.search("SigCgt:\\s*(\\w+)", status.read_text())[1], 16) & 1 << signal.SIGINT - 1:
        time.sleep(0.01)
    print("ready", flush=True)
passed = trial.attempt(512 << 20, float(sys.argv[2]))
if passed is None:
    print("again")
    sys.exit(0)
exec(sys.argv[1])
"""


def run(deed: str, patience_s: float = 60.0) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, deed, str(patience_s)], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    "deed",
    [
        "os.kill(os.getpid(), signal.SIGSEGV)",
        "os._exit(tasks.MEMORY)",
        "with tasks.budget(1):\n    bytearray(2 << 30)",
        "tasks.CPU_S = 0.1\nwith tasks.budget(0):\n    while True: pass",
    ],
)
def test_what_ends_reading_is_left_to_the_other_process(deed: str) -> None:
    assert run(deed) == (0, "again\n")


def test_a_process_that_hangs_is_ended() -> None:
    assert run("time.sleep(60)", 0.3) == (0, "again\n")


@pytest.mark.parametrize(
    ("deed", "code"),
    [
        ("sys.exit(2)", 2),
        ("passed(); sys.exit(5)", 5),
        ("passed(); os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("passed(); bytearray(700 << 20); sys.exit(0)", 0),
    ],
)
def test_any_other_end_is_that_of_the_program(deed: str, code: int) -> None:
    assert run(deed) == (code, "")


def test_an_interrupt_reaches_the_reader() -> None:
    deed = "signal.signal(signal.SIGINT, lambda *_: sys.exit(130))\nready()\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, deed, "60"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def test_an_interrupt_that_ends_the_reader_ends_the_program() -> None:
    """A report is started with the system's own handling of Ctrl+C."""
    deed = "ready()\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, deed, "60"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == -signal.SIGINT and process.stdout.read() == b""


def test_the_reader_ends_with_the_program() -> None:
    deed = "print(os.getpid(), flush=True)\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, deed, "60"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            os.kill(child, 0)
            if Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
                return
        except OSError:
            return
        time.sleep(0.02)
    raise AssertionError("it still runs")
