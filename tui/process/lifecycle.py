"""The process and its terminal: refuse what cannot work, restore the terminal in any case, exit when it is lost.

Textual 8.2 leaves the screen broken on SIGTERM and spins for ever when its terminal vanished while SIGHUP was ignored.
Nothing here imports Textual: ``prepare`` must run before it is imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

HANGUP = 128 + signal.SIGHUP
TERMINATED = 128 + signal.SIGTERM  # exit codes after these signals, as shells report them
SAVE_TIMEOUT_S = 5.0
"""Seconds that a process without a terminal may take to save its state and to remove temporary files."""
HANGUP_TIMEOUT_S = 2.0
"""Seconds from a hang-up to the end of the process: writing to the lost terminal may block for ever."""
TERMINAL_CHECK_S = 1.0  # seconds between looks at whether the terminal is still there

RESTORE = "\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[<u\x1b[0m"
"""Escape sequences that undo everything a full-screen program may have switched on."""


def over_ssh(environ: Mapping[str, str] | None = None) -> bool:
    """Return whether this is a remote session, where bytes on the wire cost time."""
    env = os.environ if environ is None else environ
    return bool(env.get("SSH_CONNECTION") or env.get("SSH_TTY") or env.get("SSH_CLIENT"))


def encoding() -> str:
    """Return the encoding of text sent to the terminal (``PYTHONIOENCODING`` may set it); Textual draws on standard error."""
    return getattr(sys.__stderr__, "encoding", None) or "utf-8"


def refusal(terminal: bool, environ: Mapping[str, str]) -> str | None:
    """Return why a dashboard cannot be shown, with what to do instead; None if it can.

    ``terminal``: standard input and output are terminals.
    """
    if not terminal:
        return "the dashboard needs a terminal; for scripts: loadlens report VIEW PATH"
    if environ.get("TERM", "") == "dumb":
        return "TERM=dumb cannot show the dashboard; use: loadlens report VIEW PATH --format text"
    return None


def prepare(environ: MutableMapping[str, str], fps: int = 0) -> None:
    """Set the variables that Textual and Polars read when they are imported, unless the user has set them.

    ``fps``: frames per second, 0 for the default.
    """
    environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    environ.setdefault("TEXTUAL_FPS", str(fps or (15 if over_ssh(environ) else 30)))
    environ.setdefault("POLARS_MAX_THREADS", str(max(1, (os.cpu_count() or 2) - 1)))


def use_time_zone(name: str, environ: MutableMapping[str, str]) -> None:
    """Show times in ``name``: ``UTC``, or ``local`` for the time zone of the machine."""
    if name == "UTC":
        environ["TZ"] = name
        time.tzset()


def terminal_lost(descriptor: int = 0) -> bool:
    """Return whether the terminal behind ``descriptor`` is gone."""
    try:
        os.tcgetpgrp(descriptor)
    except OSError:
        return True
    return False


def watch_terminal(save: Callable[[], None]) -> threading.Event:
    """Start a thread that ends the process when its terminal is gone, after ``save``; setting the event ends the thread."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(TERMINAL_CHECK_S):
            if terminal_lost():
                exit_without_terminal(save)

    threading.Thread(target=watch, name="terminal watchdog", daemon=True).start()
    return stop


def exit_without_terminal(save: Callable[[], None]) -> None:
    """End the process without touching the terminal, after ``save`` or ``SAVE_TIMEOUT_S``."""
    saver = threading.Thread(target=save, daemon=True)
    saver.start()
    saver.join(SAVE_TIMEOUT_S)
    os._exit(HANGUP)


def install_signals(loop: asyncio.AbstractEventLoop, leave: Callable[[int], None], save: Callable[[], None]) -> None:
    """Handle SIGTERM and SIGHUP by ``leave`` with exit codes 143 and 129; a hang-up first calls ``save``."""

    def hang_up() -> None:
        exit_anyway = threading.Timer(HANGUP_TIMEOUT_S, exit_without_terminal, [save])
        exit_anyway.daemon = True
        exit_anyway.start()
        save()
        leave(HANGUP)

    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        loop.add_signal_handler(signal.SIGTERM, leave, TERMINATED)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup: the watchdog looks after a lost terminal
            loop.add_signal_handler(signal.SIGHUP, hang_up)


@contextlib.contextmanager
def loop_handles_signals() -> Iterator[None]:
    """Give Ctrl+C to the event loop that runs inside, and restore the signal handlers that it drops when it closes."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


@contextlib.contextmanager
def restored_terminal() -> Iterator[None]:
    """Restore the terminal's modes at the end, also after a crash that Textual did not see."""
    import termios

    saved: list[Any] | None = None
    try:
        saved = termios.tcgetattr(0)
    except (termios.error, OSError):
        pass

    def end(number: int, frame: object) -> None:
        """End at once: the signal came before the event loop handles it, or after, when nothing is left to save."""
        with contextlib.suppress(OSError, ValueError):
            os.write(2, RESTORE.encode())
        if saved is not None:
            with contextlib.suppress(termios.error, OSError):
                termios.tcsetattr(0, termios.TCSANOW, saved)
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError, ValueError):
            os.write(2, RESTORE.encode())
        raise
    finally:
        if saved is not None:
            with contextlib.suppress(termios.error, OSError):
                termios.tcsetattr(0, termios.TCSANOW, saved)
