"""The way in: checks the terminal, prepares the environment, runs the shell, gives an exit code. Textual comes later."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tui import lifecycle

if TYPE_CHECKING:
    from engine.settings import Settings

USAGE = 2
"""Exit code where no dashboard can be shown."""


def run(
    roots: list[Path],
    settings: Settings,
    *,
    view: str | None = None,
    demo: bool = False,
    prepare: Callable[[str], None] | None = None,
    lost: Callable[[], None] | None = None,
) -> int:
    """Show the dashboard on ``roots`` until the operator leaves; returns the exit code.

    0 after quit, 2 where there is no usable terminal, 129 after a hang-up, 143 after SIGTERM, 1 after a crash. ``view`` is
    shown first; ``demo`` says so in the title. ``prepare`` is called, in a thread, with the name of the view whose files
    are about to be looked at (empty: all others); ``lost`` before the process ends without its terminal.
    """
    reason = lifecycle.refusal(sys.stdin.isatty(), sys.stdout.isatty(), os.environ)
    if reason is not None:
        lifecycle.say(f"loadlens: {reason}")
        return USAGE
    if not sys.stderr.isatty():  # Textual draws on standard error; `loadlens 2>log` shall work all the same
        sys.__stderr__ = sys.__stdout__  # type: ignore[misc]
    lifecycle.prepare(os.environ, settings.ui.frames_per_second)
    from engine.settings import folders
    from tui import logs

    with logs.to_file(folders()["log"]):
        from tui.shell import Shell

        lifecycle.tolerate_bad_bytes()
        with lifecycle.restored_terminal():
            app = Shell(roots, settings, view=view, demo=demo, guards=True, prepare=prepare, lost=lost)
            with lifecycle.loop_handles_signals():
                app.run(mouse=app.wants_mouse)
        app.bridge.close()
    return app.return_code or 0
