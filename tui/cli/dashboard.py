"""Start the dashboard, on the operator's files or on the sample data. Textual is imported last."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from engine.live.options import LiveSettings
from tui.cli.arguments import check_paths, load_settings
from tui.cli.output import UsageError, message
from tui.process import lifecycle
from tui.process.played_folder import playing
from tui.settings import UiSettings
from tui.status_model import Source

if TYPE_CHECKING:
    import argparse

    from engine.own_files.settings import Settings
    from engine.recording.recorder import Recorder
    from tui.process.played_folder import PlayedFolder, Plays


def show(arguments: argparse.Namespace) -> int:
    """Show the dashboard on files and folders; return the exit code. Raises UsageError."""
    _require_terminal()
    paths = arguments.paths or ["."]
    check_paths(paths)
    settings = load_settings(arguments)
    return _run([Path(path) for path in paths], settings, arguments, Source(recorder=_recorder(arguments, settings)))


def show_demo(arguments: argparse.Namespace) -> int:
    """Show the dashboard on sample data played into a temporary folder; return the exit code. Raises UsageError."""
    _require_terminal()
    from sample_data.feed import Feeder

    settings = _settings_of_play(arguments)
    with _played("demo", lambda folder: Feeder(folder, arguments.speed)) as folder:
        return _run([folder.path], settings, arguments, Source(True, recorder=_recorder(arguments, settings)), folder)


def show_replay(arguments: argparse.Namespace) -> int:
    """Show the dashboard on a recording that is played into a temporary folder; return the exit code. Raises UsageError."""
    _require_terminal()
    from engine.live.files.opening import open_regular
    from engine.recording.layout import BadRecording
    from engine.recording.player import Player

    settings = _settings_of_play(arguments)
    live = settings.of(LiveSettings)
    limit, most = live.max_unpacked_mb << 20, live.max_files
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(open(open_regular(arguments.file)[0], "rb"))  # noqa: PTH123  (a descriptor)
            play = functools.partial(Player, file, limit=limit, most=most, speed=arguments.speed)
            folder = stack.enter_context(_played("replay", play))
        except (OSError, BadRecording) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise UsageError(f"{arguments.file}: {reason or error}") from error
        player = folder.player
        assert isinstance(player, Player)
        return _run(player.roots, settings, arguments, Source(player=player), folder)


def _settings_of_play(arguments: argparse.Namespace) -> Settings:
    """Return settings for a folder that is gone when the program ends. Raises UsageError, also for a speed of 0 or
    below."""
    import msgspec

    if not arguments.speed > 0:  # nor a NaN
        raise UsageError("--speed: a number above 0 is wanted")
    settings = load_settings(arguments)
    return settings.put(msgspec.structs.replace(settings.of(LiveSettings), cache=False))


@contextlib.contextmanager
def _played(name: str, make: Callable[[Path], Plays]) -> Iterator[PlayedFolder]:
    """Make a temporary folder and what plays into it. Raises UsageError."""
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(playing(name, make))
        except OSError as error:
            raise UsageError(f"no temporary folder for the data: {error.strerror or error}") from error
        yield folder


def _recorder(arguments: argparse.Namespace, settings: Settings) -> Recorder | None:
    """Begin the recording that was asked for. Raises UsageError."""
    if not arguments.record:
        return None
    from engine.recording.recorder import Recorder

    try:
        return Recorder(Path(arguments.record), settings.of(LiveSettings).max_unpacked_mb << 20)
    except OSError as error:
        raise UsageError(f"--record {arguments.record}: {error.strerror or error}") from error


def _require_terminal() -> None:
    """Raise UsageError where no dashboard can be shown."""
    ttys = [stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)]
    reason = lifecycle.refusal(all(ttys), os.environ)
    if reason is not None:
        raise UsageError(reason)


def _run(
    roots: list[Path],
    settings: Settings,
    arguments: argparse.Namespace,
    source: Source,
    folder: PlayedFolder | None = None,
) -> int:
    """Run the dashboard until the operator quits; return the exit code. ``folder``: the temporary one that ``roots`` are in.

    0 after quit, 129 after a hang-up, 143 after SIGTERM, 1 after a crash.
    """
    if sys.stderr is None or not sys.stderr.isatty():  # Textual draws on standard error
        sys.__stderr__ = sys.__stdout__  # type: ignore[misc]
    ui = settings.of(UiSettings)
    lifecycle.prepare(os.environ, ui.frames_per_second)
    lifecycle.use_time_zone(ui.time_zone, os.environ)
    from engine.own_files.settings import folders
    from tui.process import logs

    with logs.to_file(folders()["log"]):
        from tui import textual_internals
        from tui.app import Dashboard
        from tui.engine_client import open_session

        textual_internals.tolerate_bad_bytes()
        player = source.player
        with lifecycle.restored_terminal():
            app = Dashboard(
                roots,
                settings,
                view=arguments.view,
                source=source,
                guards=True,
                opener=open_session if player is None else functools.partial(open_session, now_ms=player.now_ms),
                prepare=folder.player.prepare if folder is not None and folder.player is not None else None,
                lost=folder.remove if folder is not None else None,
                clock=time.time if player is None else lambda: player.now_ms() / 1000,
            )
            with lifecycle.loop_handles_signals():
                app.run(mouse=app.boxes.mouse)
        app.client.close()
        if app.state.problem:
            message(f"loadlens: tab and choices were not saved: {app.state.problem}")
        if source.recorder is not None:
            source.recorder.close()
            early = f", but it ended early: {source.recorder.problem}" if source.recorder.problem else ""
            message(f"loadlens: recorded{early}; loadlens replay {arguments.record} plays it")
    return app.return_code or 0
