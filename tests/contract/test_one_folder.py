"""The program built into one folder works like the ordinary one, without Python and with an empty PATH and HOME."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from tests.contract.samples import FED, play

ROOT = Path(__file__).parents[2]
BUILT = "LOADLENS_ONE_FOLDER"
"""Environment variable that names a folder built before, so that it need not be built again."""

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if os.environ.get(BUILT):
        yield Path(os.environ[BUILT]) / "loadlens"
        return
    if importlib.util.find_spec("PyInstaller") is None:
        pytest.skip(f"PyInstaller is not installed (pip install .[build]), and {BUILT} names no folder that was built")
    target = tmp_path_factory.mktemp("one-folder")
    subprocess.run([sys.executable, str(ROOT / "packaging/one_folder.py"), str(target)], check=True)
    yield target / "loadlens" / "loadlens"


def run(program: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    home.mkdir(exist_ok=True)
    return subprocess.run(
        [program, *words], env={"PATH": "", "HOME": str(home)}, capture_output=True, text=True, timeout=300
    )


def test_version_and_completions(program: Path, tmp_path: Path) -> None:
    assert run(program, tmp_path / "home", "--version").stdout.startswith("loadlens ")
    assert (program.parent / "share/man/man1/loadlens.1").is_file()


@pytest.mark.parametrize("name", FED)
def test_a_report_is_the_programs_own(program: Path, tmp_path: Path, name: str) -> None:
    folder = play(name, tmp_path / "in")
    words = ["report", name, str(folder), "--at", "2026-01-06"]
    frozen = run(program, tmp_path / "home", *words)
    own = subprocess.run([sys.executable, "-m", "tui", *words], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert frozen.returncode == own.returncode, frozen.stderr
    if own.returncode == 0:
        assert json.loads(frozen.stdout)["tables"] == json.loads(own.stdout)["tables"]


def test_parquet_is_read_and_large_files_go_to_a_process_of_their_own(program: Path, tmp_path: Path) -> None:
    folder = play("ring-placement", tmp_path / "in")
    rows = 250_000  # more than 4 MB: the guard's process reads it
    names = [f"d{number}" for number in range(rows)]
    table = pl.DataFrame(
        {"tenant": ["t"] * rows, "dataset": names, "bytes_per_s": [float(n % 97) for n in range(rows)]}
    )
    table.write_parquet(folder / "loads.parquet", compression="uncompressed")
    done = run(
        program,
        tmp_path / "home",
        "report",
        "ring-placement",
        str(folder),
        "-o",
        "load=table",
        "--table",
        "nodes",
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not [problem for problem in found["problems"] if "parquet" in problem["path"]]
    assert found["summary"]["load_total"] == sum(n % 97 for n in range(rows))


def test_the_demo_starts_and_leaves(program: Path, tmp_path: Path) -> None:
    import pty
    import select
    import time

    pid, master = pty.fork()
    if pid == 0:
        os.execve(program, [str(program), "demo"], {"PATH": "", "HOME": str(tmp_path), "TERM": "xterm-256color"})
    seen, asked, deadline = b"", False, time.monotonic() + 240
    while time.monotonic() < deadline:
        if select.select([master], [], [], 0.5)[0]:
            try:
                data = os.read(master, 65536)
            except OSError:
                break
            if not data:
                break
            seen += data
        if not asked and b"Broker" in seen:
            os.write(master, b"q")
            asked = True
    _, status = os.waitpid(pid, 0)
    assert asked and os.waitstatus_to_exitcode(status) == 0
