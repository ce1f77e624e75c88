"""Start the dashboard, on the operator's files or on the sample data. Textual is imported last."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tui.cli.arguments import check_paths, load_settings
from tui.cli.output import UsageError, message
from tui.process import lifecycle

if TYPE_CHECKING:
    import argparse

    from sample_data.feed import Feeder


def show(arguments: argparse.Namespace) -> int:
    """Show the dashboard on files and folders; return the exit code. Raises UsageError."""
    _require_terminal()
    paths = arguments.paths or ["."]
    check_paths(paths)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # an exception in the middle of an import would only show a traceback
    return _run([Path(path) for path in paths], arguments)


def show_demo(arguments: argparse.Namespace) -> int:
    """Show the dashboard on sample data played into a temporary folder; return the exit code. Raises UsageError."""
    _require_terminal()
    from sample_data.feed import playing

    if not arguments.speed > 0:  # nor a NaN
        raise UsageError("--speed: a number above 0 is wanted")
    with contextlib.ExitStack() as stack:
        try:
            feeder = stack.enter_context(playing(arguments.speed))
        except OSError as error:
            raise UsageError(f"no temporary folder for the sample data: {error.strerror or error}") from error
        return _run([feeder.target], arguments, feeder)


def _require_terminal() -> None:
    """Raise UsageError where no dashboard can be shown."""
    ttys = [stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)]
    reason = lifecycle.refusal(all(ttys), os.environ)
    if reason is not None:
        raise UsageError(reason)


def _run(roots: list[Path], arguments: argparse.Namespace, feeder: Feeder | None = None) -> int:
    """Run the dashboard until the operator quits; return the exit code.

    0 after quit, 129 after a hang-up, 143 after SIGTERM, 1 after a crash.
    """
    settings = load_settings(arguments)
    if feeder is not None:  # its folder is gone when it ends
        import msgspec

        settings = dataclasses.replace(settings, live=msgspec.structs.replace(settings.live, cache=False))
    lifecycle.draw_on_standard_output()
    lifecycle.prepare(os.environ, settings.ui.frames_per_second)
    lifecycle.use_time_zone(settings.ui.time_zone, os.environ)
    from engine.settings import folders
    from tui.process import logs

    with logs.to_file(folders()["log"]):
        from tui import textual_internals
        from tui.app import Dashboard

        textual_internals.tolerate_bad_bytes()
        with lifecycle.restored_terminal():
            app = Dashboard(
                roots,
                settings,
                view=arguments.view,
                demo=feeder is not None,
                guards=True,
                prepare=feeder.prepare if feeder is not None else None,
                lost=feeder.remove if feeder is not None else None,
            )
            with lifecycle.loop_handles_signals():
                app.run(mouse=app.wants_mouse)
        app.client.close()
        if app.state.problem:
            message(f"loadlens: tab and choices were not saved: {app.state.problem}")
    return app.return_code or 0
