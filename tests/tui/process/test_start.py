"""Ctrl+C while the program starts: it ends, as killed by the signal, and prints nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
INTERRUPTS = """
import os, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
sys.argv = ["loadlens", "report", "ring-placement", {folder!r}, "--no-cache"]
from tui.start import run
run()
"""


@pytest.mark.parametrize("name", ["tui.__main__", "tui.cli.arguments", "polars", "engine.ring_placement.view"])
def test_ctrl_c_in_the_middle_of_an_import(name: str, tmp_path: Path) -> None:
    code = INTERRUPTS.format(name=name, folder=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={"HOME": str(tmp_path)}, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_ctrl_c_while_a_view_computes_is_the_systems(tmp_path: Path) -> None:
    """Polars is loaded by then, whose own handler takes the signal and may do nothing with it."""
    code = f"""
import signal, sys
from tui.cli import compute
caught = lambda: [line.split()[1] for line in open("/proc/self/status") if line.startswith("SigCgt")][0]
assert "polars" not in sys.modules
compute._computed = lambda *_: sys.exit(40 + (int(caught(), 16) >> signal.SIGINT - 1 & 1))
sys.argv = ["loadlens", "report", "ring-placement", {str(tmp_path)!r}, "--no-cache"]
signal.signal(signal.SIGINT, signal.SIG_DFL)
from tui.__main__ import run
run()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={"HOME": str(tmp_path)}, timeout=60, check=False)
    assert done.returncode == 40
