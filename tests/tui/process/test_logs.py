"""The log file: rotated, private, and never a reason to fail."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from tests.disk import full_after
from tui.process import logs


def test_all_rooms_are_written_and_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_BYTES", 2000)
    path = tmp_path / "state" / "loadlens.log"
    with logs.to_file(path):
        assert not path.exists(), "no line, no file"
        for number in range(200):
            logging.getLogger("engine.live.files.watch").info("line %d \udcff", number)
        try:
            raise RuntimeError("boom")
        except RuntimeError:
            logging.getLogger("loadlens.engine").exception("computing failed")
    assert "computing failed" in path.read_text() and "RuntimeError: boom" in path.read_text()
    assert sorted(p.name for p in path.parent.iterdir()) == ["loadlens.log", "loadlens.log.1", "loadlens.log.2"]
    assert path.with_name("loadlens.log.1").stat().st_size <= 2000
    logging.getLogger("engine.live.files.watch").warning("afterwards")
    assert "afterwards" not in path.read_text()


def test_a_place_that_cannot_be_written_costs_the_log_only(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "state").write_text("in the way")
    ring = logs.Ring()
    with logs.to_file(tmp_path / "state" / "loadlens.log"):
        logs.attach(ring)
        logging.getLogger("engine").error("one")
        logging.getLogger("tui").error("two")
        logs.detach(ring)
    assert [line[2] for line in ring.lines] == ["one", "two"]
    assert capfd.readouterr() == ("", "")


def test_a_full_disk_costs_lines_until_there_is_room_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, now = tmp_path / "state" / "loadlens.log", [1000.0]
    monkeypatch.setattr("tui.process.logs.time.monotonic", lambda: now[0])
    with logs.to_file(path):
        logging.getLogger("engine").error("before")
        with full_after(path.stat().st_size):
            logging.getLogger("engine").error("one")
            logging.getLogger("engine").error("two")
        logging.getLogger("engine").error("too early")
        now[0] += logs.PAUSE_S
        logging.getLogger("engine").error("after")
    text = path.read_text()
    assert "before" in text and "after" in text
    assert not any(word in text for word in ("one", "two", "too early"))
    assert capfd.readouterr() == ("", "")


def test_nobody_else_may_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor a file and a folder that an older version made, nor one that rotation makes."""
    monkeypatch.setattr(logs, "MAX_BYTES", 200)
    path = tmp_path / "state" / "loadlens.log"
    path.parent.mkdir(mode=0o755)
    path.write_text("old\n")
    path.chmod(0o644)
    before = os.umask(0)
    try:
        with logs.to_file(path):
            for number in range(9):
                logging.getLogger("engine").info("line %d of this log", number)
    finally:
        os.umask(before)
    modes = {each.name: each.stat().st_mode & 0o777 for each in (path.parent, *path.parent.iterdir())}
    assert modes == {"state": 0o700, **dict.fromkeys(("loadlens.log", "loadlens.log.1", "loadlens.log.2"), 0o600)}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_home(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o500)
    with logs.to_file(tmp_path / "state" / "loadlens.log"):
        logging.getLogger("engine").error("one")
    tmp_path.chmod(0o700)
    assert capfd.readouterr() == ("", "") and not list(tmp_path.iterdir())
