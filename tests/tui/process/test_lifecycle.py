"""Life-cycle decisions that need no terminal: refusal, environment, themes, clipboard."""

from __future__ import annotations

import os
import pty
import time
from pathlib import Path

import pytest

from engine.core import units
from tui.process import clipboard, lifecycle
from tui.themes import theme_for

KNOWN = ("ansi-dark", "ansi-light", "loadlens-dark", "loadlens-light", "nord")


@pytest.mark.parametrize(
    ("terminal", "env", "refused"),
    [(True, {"TERM": "xterm"}, False), (False, {"TERM": "xterm"}, True), (True, {"TERM": "dumb"}, True), (True, {}, False)],
)  # fmt: skip
def test_refusal_names_the_alternative(terminal: bool, env: dict[str, str], refused: bool) -> None:
    reason = lifecycle.refusal(terminal, env)
    assert (reason is not None) == refused
    assert reason is None or "loadlens report" in reason


def test_prepare_respects_the_user() -> None:
    env = {"TEXTUAL_FPS": "7", "SSH_CONNECTION": "x"}
    lifecycle.prepare(env)
    assert env["TEXTUAL_FPS"] == "7" and env["TEXTUAL_ANIMATIONS"] == "none" and int(env["POLARS_MAX_THREADS"]) >= 1
    remote: dict[str, str] = {"SSH_TTY": "/dev/pts/1"}
    lifecycle.prepare(remote)
    assert remote["TEXTUAL_FPS"] == "15"
    local: dict[str, str] = {}
    lifecycle.prepare(local)
    assert local["TEXTUAL_FPS"] == "30"


FULL = {"COLORTERM": "truecolor", "TERM": "xterm-256color"}


@pytest.mark.parametrize(
    ("wanted", "env", "name", "complains"),
    [
        ("auto", FULL, "loadlens-dark", False),
        ("light", FULL, "loadlens-light", False),
        ("auto", {"TERM": "tmux-256color"}, "loadlens-dark", False),
        ("auto", {"TERM": "xterm"}, "ansi-dark", False),
        ("light", {"TERM": "linux"}, "ansi-light", False),
        ("dark", {}, "ansi-dark", False),
        ("auto", {**FULL, "NO_COLOR": ""}, "ansi-dark", False),
        ("nord", FULL, "nord", False),
        ("nope", FULL, "loadlens-dark", True),
    ],
)
def test_theme(wanted: str, env: dict[str, str], name: str, complains: bool) -> None:
    found, complaint = theme_for(wanted, env, KNOWN)
    assert found == name and bool(complaint) == complains


@pytest.mark.parametrize(("name", "shown"), [("local", "1970-01-01 05:30:00"), ("UTC", "1970-01-01 00:00:00")])
def test_times_are_shown_in_the_zone_of_the_settings(monkeypatch: pytest.MonkeyPatch, name: str, shown: str) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        lifecycle.use_time_zone(name, os.environ)
        assert units.moment(0) == shown
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_lost_terminal_is_noticed() -> None:
    master, slave = pty.openpty()
    try:
        assert not os.isatty(slave) or lifecycle.terminal_lost(slave) in (True, False)
        os.close(master)
        assert lifecycle.terminal_lost(slave)
    finally:
        os.close(slave)
    read, write = os.pipe()
    os.close(write)
    assert lifecycle.terminal_lost(read)
    os.close(read)
    assert lifecycle.terminal_lost(read), "a closed descriptor"


class _App:
    def __init__(self) -> None:
        self.copied: list[str] = []

    def copy_to_clipboard(self, text: str) -> None:
        self.copied.append(text)


def test_copy_keeps_a_file_and_uses_osc52(tmp_path: Path) -> None:
    app = _App()
    sentence = clipboard.copy("a [/b] text\udcff", app, {}, tmp_path)  # type: ignore[arg-type]
    assert app.copied == ["a [/b] text?"] and (tmp_path / "copied.txt").read_text() == "a [/b] text?"
    assert str(tmp_path) in sentence
    assert (tmp_path / "copied.txt").stat().st_mode & 0o077 == 0


def test_what_is_too_long_for_the_terminal_is_in_the_file(tmp_path: Path) -> None:
    app = _App()
    sentence = clipboard.copy("x" * 100_000, app, {}, tmp_path)  # type: ignore[arg-type]
    assert not app.copied and "too long" in sentence and len((tmp_path / "copied.txt").read_text()) == 100_000


def test_tmux_is_asked_first(tmp_path: Path) -> None:
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "tmux").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/args\ncat > {tmp_path}/got\n')
    (bin_ / "tmux").chmod(0o755)
    app = _App()
    old = os.environ["PATH"]
    os.environ["PATH"] = f"{bin_}:{old}"
    try:
        sentence = clipboard.copy("hello", app, {"TMUX": "/tmp/x"}, tmp_path / "cache")  # type: ignore[arg-type]
    finally:
        os.environ["PATH"] = old
    assert (tmp_path / "got").read_text() == "hello" and "load-buffer -w -" in (tmp_path / "args").read_text()
    assert "tmux" in sentence and not app.copied


def test_a_cache_that_cannot_be_written_does_not_stop_copying(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    app = _App()
    assert "copied" in clipboard.copy("x", app, {}, blocked / "below")  # type: ignore[arg-type]
    assert app.copied == ["x"]
