"""The program's own files: private, whole or not there, and never in another user's folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from engine.own_files import private_files
from engine.own_files.settings import State
from tests.disk import full_after


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_folders_and_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    state = State(tmp_path / "share" / "loadlens" / "state.toml")
    state.set("tab", value="ring-placement")
    assert state.save()
    assert (mode(state.path.parent), mode(state.path)) == (0o700, 0o600)
    assert mode(tmp_path / "share") == 0o700, "so do those above it that were missing"


@pytest.mark.usefixtures("open_umask")
def test_rights_that_were_too_wide_are_taken_back(tmp_path: Path) -> None:
    folder = tmp_path / "loadlens"
    folder.mkdir(mode=0o777)
    (folder / "state.toml").write_text('tab = "x"\n')
    state = State(folder / "state.toml")
    assert state.get("tab") == "x" and state.save()
    assert (mode(folder), mode(state.path)) == (0o700, 0o600)


def test_files_of_another_user_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state.toml").write_text('tab = "theirs"\n')
    here = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: here + 1)
    state = State(tmp_path / "state.toml")
    assert state.get("tab") is None and state.problem == "the folder belongs to another user"
    assert not state.save() and state.problem == "belongs to another user"
    assert (tmp_path / "state.toml").read_text() == 'tab = "theirs"\n' and len(list(tmp_path.iterdir())) == 1


def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o644)
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(OSError, match=r"regular|directory|reader|such device|another user"):
            os.close(private_files.open_file(path, os.O_WRONLY))
    assert mode(tmp_path / "pipe") == 0o644


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    state = State(tmp_path / "state.toml")
    state.set("tab", value="old")
    assert state.save()
    state.set("tab", value="new" * 100)
    with full_after(50):
        assert not state.save() and state.problem == "File too large"
    assert State(tmp_path / "state.toml").get("tab") == "old" and len(list(tmp_path.iterdir())) == 1
    assert state.save() and state.problem == ""


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    gone = os.fork()
    if not gone:
        os._exit(0)
    os.waitpid(gone, 0)
    mine = tmp_path / f"state.toml.{os.getpid()}.tmp"
    for path in (
        mine,
        tmp_path / f"state.toml.{gone}.tmp",
        tmp_path / "state.toml.99999999999.tmp",
        tmp_path / "state.toml.bak.tmp",
    ):
        path.write_text("half")
    State(tmp_path / "state.toml")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([mine.name, "state.toml.bak.tmp"])
