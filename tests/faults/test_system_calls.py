"""The promises of SECURITY.md as the kernel sees them: no network, nothing executed, writes to the program's own paths only."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.contract.samples import play
from tests.faults import system_calls
from tests.faults.system_calls import Seen
from tests.tui.terminal import ROOT, Terminal

pytestmark = pytest.mark.skipif(bool(system_calls.unavailable()), reason=system_calls.unavailable())

ENTRY = (
    b"# Time: 2026-01-05T00:00:00.000000Z\n# User@Host: a[a] @ h []  Id: 1\n"
    b"# Query_time: 0.1  Lock_time: 0.0 Rows_sent: 1  Rows_examined: 1\nSET timestamp=1767571200;\nselect %d;\n"
)
WORKER = re.compile(
    r'"from multiprocessing\.(?:resource_tracker import main;main|spawn import spawn_main; spawn_main)\('
)


def environment(home: Path) -> dict[str, str]:
    (home / "tmp").mkdir(parents=True)
    # The bytecode of modules is the interpreter's to write; here it reads what is there.
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPYCACHEPREFIX") if name in os.environ}
    return kept | {
        "HOME": str(home), "TMPDIR": str(home / "tmp"), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT),
    }  # fmt: skip


def own_programs(seen: Seen) -> None:
    """Assert that nothing but this interpreter was executed: the program and its workers."""
    assert all(program.startswith(f'"{sys.executable}"') for program in seen.programs)
    assert all("tui" in program or WORKER.search(program) for program in seen.programs)


def test_a_report_reaches_nothing_but_its_cache(tmp_path: Path) -> None:
    play("ring-placement", tmp_path / "data")
    words = [sys.executable, "-m", "tui", "report", "ring-placement", str(tmp_path / "data")]
    done, seen = system_calls.run(words, environment(tmp_path / "home"), tmp_path)
    assert done.returncode == 0 and "segment-writer-0" in done.stdout, done.stderr
    own_programs(seen)
    assert not seen.sockets and not seen.other
    assert seen.outside(tmp_path / "home" / ".cache" / "loadlens", tmp_path / "home" / "tmp", "/dev/null") == set()


def test_the_dashboard_and_its_workers_reach_nothing_but_their_own_files(tmp_path: Path) -> None:
    data, home, trace = tmp_path / "data", tmp_path / "home", tmp_path / "trace"
    data.mkdir()
    (data / "slow.log").write_bytes(b"".join(ENTRY % number for number in range(28_000)))  # a worker reads it
    words = system_calls.traced([sys.executable, "-m", "tui", str(data), "--view", "query-profile"], trace)
    start = ["-c", "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])", *words]
    env = environment(home)
    env |= {f"XDG_{name}_HOME": str(home / name) for name in ("STATE", "CACHE", "CONFIG")}
    with Terminal(start, home, size=(120, 40), env=env) as terminal:
        terminal.see("Rank by", 90)
        for key in (b"\x1b[B", b"\r", b"\x1b", b"y", b"1", b"5", b"3"):
            terminal.send(key)
            terminal.quiet(limit=60)
        terminal.send(b"q")
        assert terminal.ended(60) == 0
    seen = system_calls.read(trace, ROOT)
    own_programs(seen)
    assert any("spawn_main" in program for program in seen.programs), "a worker was started"
    assert not seen.sockets and not seen.other
    own = [home / name / "loadlens" for name in ("STATE", "CACHE")]
    parents = {str(place.parent) for place in own}  # created, not written to
    others = {path for path in seen.outside(*own, home / "tmp", "/dev/null", "/dev/tty") if path not in parents}
    assert not {path for path in others if not path.startswith(("/dev/shm/sem.", "/dev/pts/"))}, others
    assert any(path.endswith("state.toml") for path in seen.changed) and any(
        "loadlens.log" in path for path in seen.changed
    )


def test_what_is_forbidden_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    work = (
        "import os, socket, subprocess; subprocess.run(['/bin/true']); s = socket.socket(); s.close()\n"
        "open('written', 'w'); os.rename('old', 'new'); os.mkdir('made'); os.chmod('made', 0o700)\n"
        "open('/proc/self/stat'); a, b = socket.socketpair(); a.send(b'x')"
    )
    _, seen = system_calls.run([sys.executable, "-S", "-c", work], environment(tmp_path / "home"), tmp_path)
    assert len(seen.sockets) == 1 and "/bin/true" in seen.programs[-1]
    assert {Path(path).name for path in seen.outside(tmp_path / "home")} == {"written", "old", "new", "made"}
    assert seen.outside(tmp_path) == set()
    with pytest.raises(AssertionError):
        own_programs(seen)
