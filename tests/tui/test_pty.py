"""The real program on a real (pseudo) terminal: start, leave, signals, a lost terminal, bytes on the wire."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tui.terminal import ROOT, Terminal

FAKE = ["-m", "tests.tui.program"]


def program(hz: float = 0, rows: int = 200, share: float = 0.12, *more: str) -> list[str]:
    return [*FAKE, str(hz), str(rows), str(share), *more]


def test_real_program_starts_and_quits_and_draws_nothing_on_stderr_that_is_a_file(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "os.dup2(os.open(os.environ['LOG'], os.O_WRONLY | os.O_CREAT), 2)\n"
        "from tui.__main__ import main\n"
        "sys.exit(main())\n"
    )
    folder, log = tmp_path / "watched", tmp_path / "log"
    folder.mkdir()
    with Terminal(["-c", script, str(folder)], tmp_path, env={"LOG": str(log)}) as t:
        t.see("Broker load")
        t.see("files", 30)
        t.quiet()
        t.send(b"q")
        assert t.ended() == 0
        assert t.restored
    assert (tmp_path / "state" / "loadlens" / "state.toml").exists()
    assert b"\x1b[?1049h" not in log.read_bytes()


def send_bytes_that_are_not_utf8(t: Terminal) -> None:
    """They do no harm."""
    t.send(b"\xff\xfe\xff")
    t.quiet(0.3)
    t.send(b"\x1b[M \xf5\xf5")
    t.quiet(0.3)
    assert t.process.poll() is None
    t.send(b"!")
    t.see("Problems")
    t.send(b"\x1b")
    t.quiet(0.4)


def assert_few_colours(t: Terminal) -> None:
    """Neither true colours nor the 256 were sent."""
    assert b"[38;2;" not in t.output and b";38;2;" not in t.output and b"48;2;" not in t.output
    assert b"38;5;" not in t.output and b"48;5;" not in t.output


def test_a_stop_gives_the_terminal_back_and_whoever_comes_back_sees_everything(tmp_path: Path) -> None:
    """On a terminal of 16 colours."""
    with Terminal(program(), tmp_path, env={"TERM": "xterm", "COLORTERM": ""}) as t:
        t.see("node-000")
        t.quiet()
        t.send(b"\x1a")
        t.until(lambda: Path(f"/proc/{t.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        t.until(lambda: t.restored)
        before = len(t.output)
        t.signal(signal.SIGCONT)
        t.until(lambda: b"node-000" in t.output[before:] and b"Quit" in t.output[before:])
        assert_few_colours(t)
        send_bytes_that_are_not_utf8(t)
        t.send(b"\x03")  # leaves from anywhere, also where a busy machine took Escape and this for one key
        assert t.ended() == 0 and t.restored


def test_refuses_where_there_is_no_terminal(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tui", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=30,
    )
    assert done.returncode == 2 and b"loadlens report" in done.stderr and not done.stdout


def test_refuses_a_dumb_terminal(tmp_path: Path) -> None:
    with Terminal(["-m", "tui", str(tmp_path)], tmp_path, env={"TERM": "dumb"}) as t:
        assert t.ended() == 2
        t.see("loadlens report")
        assert b"\x1b" not in t.output


def test_no_colours_are_respected_and_a_signal_leaves(tmp_path: Path) -> None:
    """SIGTERM is sent to a demo (test_demo.py)."""
    with Terminal(program(), tmp_path, env={"NO_COLOR": "1"}) as t:
        t.see("node-000")
        t.quiet()
        assert_few_colours(t)
        t.signal(signal.SIGHUP)
        assert t.ended() == 129 and t.restored


@pytest.mark.parametrize(
    ("size", "first", "tick", "how"), [((200, 50), 90_000, 3_000, []), ((80, 24), 60_000, 2_000, ["nohup"])]
)
def test_bytes_on_the_wire_until_the_terminal_is_lost(
    tmp_path: Path, size: tuple[int, int], first: int, tick: int, how: list[str]
) -> None:
    """First paint, changes in 12 % of the rows, and nothing at all while data come that are equal. Without its terminal the
    program ends, also where nobody tells it by a signal."""
    moves = 4
    with Terminal(program(2, 500, 0.12, str(moves), *how), tmp_path, size) as t:
        t.see("node-000")
        t.quiet(1.0)  # on a busy machine the first screen comes in two halves
        before = len(t.output)
        assert before <= first
        (tmp_path / "go").touch()
        t.until(lambda: len(t.output) > before)
        t.quiet(1.5)  # three computations with equal results
        assert len(t.output) - before <= moves * tick
        t.hang_up()
        assert t.ended(8) in (129, -signal.SIGHUP)


def test_first_text_comes_before_polars(tmp_path: Path) -> None:
    """The frame of the dashboard is there while the engine is still being imported."""
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "import tui.engine_client\n"
        "def slow(*_):\n"
        "    while not (Path.home() / 'seen').exists(): time.sleep(0.02)\n"
        "    assert 'polars' not in sys.modules, 'imported before the first worker'\n"
        "    raise RuntimeError('engine late')\n"
        "tui.engine_client.open_session = slow\n"
        "import tui.app\n"
        "tui.app.Dashboard.__init__.__kwdefaults__['opener'] = slow\n"
        "from tui.__main__ import main\n"
        "sys.exit(main())\n"
    )
    with Terminal(["-c", script, str(tmp_path)], tmp_path) as t:
        t.see("Broker load")
        (tmp_path / "seen").touch()
        t.see("engine late")
        t.send(b"q")
        assert t.ended() == 0


def test_environment_of_tests_is_kept_out(tmp_path: Path) -> None:
    assert "TEXTUAL_ANIMATIONS" in os.environ, "conftest sets it; the program under test sets its own"


def test_a_bug_restores_the_terminal_and_tells_no_data(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "import tui.boxes\n"
        "def broken(self):\n"
        "    secret = 'hidden ' + 'value'\n"
        "    raise RuntimeError('broken on purpose')\n"
        "tui.boxes.Boxes.action_help = broken\n"
        "from tui.__main__ import main\n"
        "sys.exit(main())\n"
    )
    with Terminal(["-c", script, str(tmp_path), "--view", "run-comparison"], tmp_path) as t:
        t.see("Nothing to show")
        t.quiet()
        t.send(b"?")
        assert t.ended() == 1 and t.restored
        t.see("broken on purpose")
        assert b"hidden value" not in t.output
