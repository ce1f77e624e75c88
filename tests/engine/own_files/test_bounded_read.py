"""Files that an operator names are read or refused; no file is waited for without end."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from engine.core import bounded_read
from engine.core.bounded_read import read_bounded
from engine.own_files import settings
from engine.own_files.settings import State, load
from tests.disk import full_after


def test_regular_files_and_pipes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    assert read_bounded(tmp_path / "file") == b"x" * 3_000_000
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(b"y" * 300_000))
    reader, wrote = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK), b""
    writer.start()
    while not wrote:
        wrote = read_bounded(tmp_path / "pipe")
    os.close(reader)
    writer.join()
    assert wrote == b"y" * 300_000


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "large").write_bytes(bytes(2_000_001))
    with pytest.raises(OSError, match="larger than 1 MB"):
        read_bounded(tmp_path / "large", 1 << 20)
    with pytest.raises(OSError, match="neither a regular file nor a pipe"):
        read_bounded("/dev/zero")
    with pytest.raises(IsADirectoryError):
        read_bounded(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_bounded(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    assert read_bounded(tmp_path / "pipe") == b"", "no writer"
    both = os.open(tmp_path / "pipe", os.O_RDWR)
    monkeypatch.setattr(bounded_read, "PATIENCE_S", 0.05)
    with pytest.raises(TimeoutError, match="nothing comes"):
        read_bounded(tmp_path / "pipe")
    os.close(both)


def test_a_state_that_cannot_be_saved_leaves_the_old_one(tmp_path: Path) -> None:
    state = settings.State(tmp_path / "state.toml")
    state.set("tab", value="old")
    assert state.save()
    state.set("tab", value="x" * 10_000)
    with full_after(1_000):
        assert not state.save()
    assert [path.name for path in tmp_path.iterdir()] == ["state.toml"]
    assert settings.State(tmp_path / "state.toml").get("tab") == "old"


def test_settings_that_are_named_and_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(settings.CONFIG_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert settings.load().problems == ()
    monkeypatch.setenv(settings.CONFIG_VARIABLE, str(tmp_path / "none.toml"))
    assert [problem.reason for problem in settings.load().problems] == ["no such file"]
    monkeypatch.setenv(settings.CONFIG_VARIABLE, "/dev/zero")
    assert [problem.reason for problem in settings.load().problems] == ["neither a regular file nor a pipe"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x=" + "[" * 3000 + "]" * 3000, "nested too deeply"),
        (".".join("a" * 20_000) + "=1", "more than 64 parts"),
        ('"b" . ' * 20_000 + "a=1", "more than 64 parts"),
        ("[" + ".".join("a" * 20_000) + "]", "more than 64 parts"),
    ],
    ids=["brackets", "dots", "quoted", "section"],
)
def test_a_hostile_file_is_a_problem(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    read = load(path)
    assert read.unread and reason in read.problems[0].reason
    assert State(path).get("x") is None
