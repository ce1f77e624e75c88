from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from engine.live.options import LiveSettings
from engine.live.session import Session
from engine.own_files.settings import Settings, State
from engine.recording.player import Player
from engine.recording.recorder import Recorder
from engine.views import entry
from tests.tui.stage import Stage, play
from tests.tui.terminal import Terminal
from tui.__main__ import main
from tui.app import Dashboard
from tui.engine_client import open_session
from tui.status_model import Source

HEAD = b"t,user_us,a,b\n"
ROWS = [f"{i},{1000 + i * 7 % 90},{100 + i * 3 % 50},{50 + i * 5 % 40}\n".encode() for i in range(80)]
START_MS = 1_760_000_000_000


def recorded(tmp_path: Path) -> Path:
    """Record a session in which a profile grows after a minute; a file that no view reads is beside it."""
    now = [START_MS]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "profile.csv").write_bytes(HEAD + b"".join(ROWS[:40]))
    (tmp_path / "data" / "secret.txt").write_text("no view reads it")
    session = Session([tmp_path / "data"], [entry("query-profile").load()], settings=LiveSettings(cache=False))
    recorder = Recorder(tmp_path / "recorded", 1 << 20, lambda: now[0])
    for end in (40, 80):
        with (tmp_path / "data" / "profile.csv").open("ab") as file:
            file.write(b"".join(ROWS[40:end]))
        session.scan(final=True)
        recorder._take(session)
        now[0] += 60_000
    recorder.close()
    session.close()
    assert recorder.state.startswith("recording 0.0 MB") and not recorder.problem
    return tmp_path / "recorded"


def test_a_recording_is_replayed_on_the_ordinary_dashboard(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "config.toml", (LiveSettings(cache=False, scan_interval_s=0.05),))
    (tmp_path / "to").mkdir()

    async def story() -> Any:
        with recorded(tmp_path).open("rb") as file:
            player = Player(file, tmp_path / "to", limit=1 << 20, most=10)
            app = Dashboard(
                player.roots,
                settings,
                view="query-profile",
                source=Source(player=player),
                opener=functools.partial(open_session, now_ms=player.now_ms),
                prepare=player.prepare,
                entries=(entry("query-profile"),),
                state=State(tmp_path / "state.toml"),
                clock=lambda: player.now_ms() / 1000,
            )
            async with app.run_test(size=(100, 30), notifications=True) as pilot:
                s = Stage(app, None, pilot)  # type: ignore[arg-type]
                await s.until(lambda: app.pane is not None and app.pane.result is not None)
                assert app.pane.result.tables["intervals"].height == 40
                await s.see("REPLAY 2025-10-09 08:53:2")
                player.prepare()
                await s.press("p")
                await s.see("paused")
                await s.press("p", "full_stop", "full_stop")
                await s.see("x4")
                await s.press("comma")
                await s.see("x2")
                player.speed = 1e6
                await s.until(lambda: app.pane.result.tables["intervals"].height == 80)
                await s.see("2025-10-09 08:55:20 ended")
                assert not (tmp_path / "to" / "0" / "data" / "secret.txt").exists(), (
                    "only what a view reads is recorded"
                )

    play(story)


def test_keys_of_a_replay_are_elsewhere_not_there(tmp_path: Path) -> None:
    from tests.tui.stage import stage

    async def story() -> Any:
        async with stage(tmp_path) as s:
            assert not {"comma", "full_stop"} & {k for k, v in s.app.screen.active_bindings.items() if v.enabled}

    play(story)


def test_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "profile.csv").write_bytes(HEAD + b"".join(ROWS))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    words = ["-m", "tui", str(tmp_path / "data"), "--record", str(tmp_path / "r"), "--view", "query-profile"]
    with Terminal(words, tmp_path) as t:
        t.see("0.0 MB", 60)
        t.send(b"q")
        assert t.ended(60) == 0 and b"loadlens replay" in t.output
    with Terminal(["-m", "tui", "replay", str(tmp_path / "r")], tmp_path, env={"TMPDIR": str(temporary)}) as t:
        t.see("REPLAY", 60)
        t.see(" column", 60)
        t.send(b"q")
        assert t.ended(60) == 0
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("replay", "there"), "there: this is no recording of loadlens"),
        (("replay", "."), "not a regular file"),
        (("replay", "nowhere"), "No such file"),
        (("replay", "there", "--speed", "0"), "--speed"),
        ((".", "--record", "there"), "--record there: File exists"),
        ((".", "--record", "nowhere/there"), "No such file"),
    ],
)
def test_what_cannot_be_is_refused(
    words: tuple[str, ...],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOADLENS_CONFIG", "/dev/null")
    monkeypatch.setattr("tui.cli.dashboard._require_terminal", lambda: None)
    (tmp_path / "there").write_text("x,y\n")
    assert main(words) == 2
    assert reason in capfd.readouterr().err
    assert (tmp_path / "there").read_text() == "x,y\n"
