"""The process and its terminal: refuse what cannot work, restore whatever happens, leave when the terminal is gone.

Textual 8.2 alone dies of a byte that is not UTF-8, leaves the screen broken on SIGTERM and spins for ever when its terminal
vanished while SIGHUP was ignored. Nothing here imports Textual at module level: ``prepare`` must run before it is imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

log = logging.getLogger("loadlens.lifecycle")

HANGUP = 128 + signal.SIGHUP
TERMINATED = 128 + signal.SIGTERM
LAST_WORDS_S = 5.0
"""So long a process without a terminal may take to save its state and to remove what is temporary."""

RESTORE = "\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[<u\x1b[0m"
"""What undoes everything a full-screen program may have switched on."""


def over_ssh(environ: Mapping[str, str] | None = None) -> bool:
    """Whether this is a remote session, where bytes cost time."""
    env = os.environ if environ is None else environ
    return bool(env.get("SSH_CONNECTION") or env.get("SSH_TTY") or env.get("SSH_CLIENT"))


def encoding() -> str:
    """How text is encoded on its way to the terminal (``PYTHONIOENCODING`` may say so); Textual draws on standard error."""
    return getattr(sys.__stderr__, "encoding", None) or "utf-8"


def refusal(stdin_tty: bool, stdout_tty: bool, environ: Mapping[str, str]) -> str | None:
    """Why a dashboard cannot be shown here, as a sentence with what to do instead; None if it can."""
    if not (stdin_tty and stdout_tty):
        return "the dashboard needs a terminal; use 'loadlens report VIEW PATH' where there is none"
    if environ.get("TERM", "") == "dumb":
        return "this terminal (TERM=dumb) cannot show a dashboard; use 'loadlens report VIEW PATH'"
    return None


def prepare(environ: MutableMapping[str, str], fps: int = 0) -> None:
    """Settings that Textual and Polars read when they are imported. What the user set stays."""
    environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    environ.setdefault("TEXTUAL_FPS", str(fps or (15 if over_ssh(environ) else 30)))
    environ.setdefault("POLARS_MAX_THREADS", str(max(1, (os.cpu_count() or 2) - 1)))


def few_colours(environ: Mapping[str, str]) -> bool:
    """Whether the terminal has 16 colours or fewer, or the user wants none."""
    if "NO_COLOR" in environ:
        return True
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return False
    term = environ.get("TERM", "")
    return "256color" not in term and "direct" not in term and "kitty" not in term and "ghostty" not in term


def theme_for(wanted: str, environ: Mapping[str, str], known: tuple[str, ...]) -> tuple[str, str]:
    """The Textual theme for a setting, and a complaint (or empty). ``auto`` is dark, in 16 colours the terminal's own;
    NO_COLOR and 16 colours turn dark and light into their ``ansi-`` forms, since rounded colours are unreadable."""
    names = {"dark": "loadlens-dark", "light": "loadlens-light"}
    few = few_colours(environ)
    if wanted in ("", "auto"):
        wanted = "dark"
    if wanted in ("dark", "light"):
        return (f"ansi-{wanted}" if few else names[wanted]), ""
    if wanted in known:
        return wanted, ""
    fallback = "ansi-dark" if few else names["dark"]
    return fallback, f"no theme {wanted!r}; there are dark, light, {', '.join(sorted(known))}"


def tolerate_bad_bytes() -> None:
    """Let a byte that is not UTF-8 (line noise, old mouse reports) become U+FFFD instead of ending the program."""
    import codecs

    from textual.drivers import linux_driver

    def tolerant(encoding: str) -> Callable[..., Any]:
        made = codecs.getincrementaldecoder(encoding)
        return lambda errors="replace": made(errors="replace")

    if hasattr(linux_driver, "getincrementaldecoder"):
        linux_driver.getincrementaldecoder = tolerant
    else:  # another Textual: a test sends such a byte and tells
        log.warning("the terminal driver has changed; bytes that are not UTF-8 may end the program")


def terminal_lost(descriptor: int = 0) -> bool:
    """Whether the terminal behind ``descriptor`` is gone."""
    try:
        if not os.isatty(descriptor):
            return True
        os.tcgetpgrp(descriptor)
    except OSError:
        return True
    return False


class Watchdog:
    """A thread that ends the process when its terminal is gone, after ``last_words`` (saving state)."""

    def __init__(self, last_words: Callable[[], None], *, every: float = 1.0, descriptor: int = 0) -> None:
        self._last_words = last_words
        self._every = every
        self._descriptor = descriptor
        self._stop = threading.Event()

    def start(self) -> None:
        """Begin to look."""
        threading.Thread(target=self._run, name="terminal watchdog", daemon=True).start()

    def stop(self) -> None:
        """Do not look any more."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            if terminal_lost(self._descriptor):
                leave_now(self._last_words)


def leave_now(last_words: Callable[[], None]) -> None:
    """End the process without touching the terminal; ``last_words`` get some seconds, should the machine be busy."""
    saver = threading.Thread(target=last_words, daemon=True)
    saver.start()
    saver.join(LAST_WORDS_S)
    os._exit(HANGUP)


def install_signals(
    loop: asyncio.AbstractEventLoop, leave: Callable[[int], None], last_words: Callable[[], None]
) -> None:
    """SIGTERM and SIGHUP leave in order (exit codes 143 and 129). After a hang-up writing may block for ever: two
    seconds later the process ends in any case."""

    def hang_up() -> None:
        def insist() -> None:
            time.sleep(2.0)
            leave_now(last_words)

        threading.Thread(target=insist, name="hang up", daemon=True).start()
        last_words()
        leave(HANGUP)

    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        loop.add_signal_handler(signal.SIGTERM, leave, TERMINATED)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup: the watchdog looks after a lost terminal
            loop.add_signal_handler(signal.SIGHUP, hang_up)


@contextlib.contextmanager
def loop_handles_signals() -> Iterator[None]:
    """Around an event loop: it looks after Ctrl+C in its own way, and the handlers that it forgets when it closes come
    back."""
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
    """Put the terminal back as it was, also after a crash that Textual did not see."""
    import termios

    saved: list[Any] | None = None
    try:
        saved = termios.tcgetattr(0)
    except (termios.error, OSError):
        pass
    clean = False
    try:
        yield
        clean = True
    finally:
        if not clean:
            with contextlib.suppress(OSError, ValueError):
                os.write(2, RESTORE.encode())
        if saved is not None:
            with contextlib.suppress(termios.error, OSError):
                termios.tcsetattr(0, termios.TCSANOW, saved)


def say(text: str) -> None:
    """One line to standard error."""
    sys.stderr.write(text.rstrip("\n") + "\n")
