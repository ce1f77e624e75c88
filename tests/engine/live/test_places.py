"""Names, links and roots: what is looked at, what counts once, what is passed over."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

import engine.live.ingest.file_content as tail
import engine.live.ingest.follower as follow
from engine.live.files.scan import FirstScan
from engine.live.session import Session
from tests.engine.live.fake import FakeView, keys, kinds, line, session, settings, until, values


@pytest.mark.parametrize("name", [".a.log", "a.log.tmp", "a.log.part", "a.log~", "a.log_tmp", ".a.log.crc", "a.crc"])
def test_scratch_files_are_ignored(tmp_path: Path, live: Session, name: str) -> None:
    (tmp_path / name).write_bytes(line("a", 1))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / name).write_bytes(line("a", 1))
    live.scan()
    live.look({str(tmp_path / name)})
    assert values(live) == [] and live.status.files == 0


def test_ignore_patterns(tmp_path: Path) -> None:
    for name in ("a.log", "b.log", "old/c.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(line(name, 1))
    live = session(tmp_path, ignore=("b.*", "old"))
    live.scan()
    assert keys(live) == ["a.log"]


def test_one_file_under_several_names_counts_once(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    (root / "sub").mkdir(parents=True)
    other.mkdir()
    (root / "a.log").write_bytes(line("a", 1))
    os.link(root / "a.log", root / "hard.log")
    (root / "soft.log").symlink_to("a.log")
    (root / "sub" / "b.log").write_bytes(line("b", 2))
    (root / "again").symlink_to("sub")
    (root / "sub" / "loop").symlink_to("..")
    (other / "link").symlink_to(root)
    live = session(root, root / "sub", other, root, root / "a.log", settle_s=0.0)
    live.scan()
    assert values(live) == [1, 2]
    assert sorted(info.label for info in live.inputs("fake").files.values()) == ["a.log", "sub/b.log"]
    (root / "a.log").unlink()
    live.scan()
    assert values(live) == [1, 2], "it lives on under its other name"
    (root / "hard.log").unlink()
    live.scan()
    assert values(live) == [2]


def test_links_to_files_and_folders_outside(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "a.log").write_bytes(line("a", 1))
    (outside / "b.log").write_bytes(line("b", 2))
    (root / "a.log").symlink_to(outside / "a.log")
    (root / "folder").symlink_to(outside)
    (root / "c.log").symlink_to(outside / "nothing")
    live = session(root, settle_s=0.0, follow_symlinks=True)
    live.scan()
    assert values(live) == [1, 2]
    with (outside / "b.log").open("ab") as file:
        file.write(line("c", 3))
    live.look({str(root / "folder" / "b.log")})
    assert values(live) == [1, 2, 3]
    not_followed = session(root)
    not_followed.scan()
    not_followed.look({str(root / "folder"), str(root / "a.log"), str(root / "folder" / "b.log")})
    assert values(not_followed) == [] and not_followed.status.ignored_count == 3
    (problem,) = not_followed.problems
    assert problem.kind == "link-not-followed" and problem.path == str(root) and problem.reason.startswith("3 symbolic")
    both = session(root, outside)
    both.scan()
    assert values(both) == [1, 2, 3] and both.problems == ()


@pytest.mark.parametrize("follows", [False, True])
def test_a_folder_that_becomes_a_link_after_the_scan_is_not_followed(tmp_path: Path, follows: bool) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "d").mkdir(parents=True)
    (root / "d" / "a.log").write_bytes(line("a", 1))
    chosen = settings(follow_symlinks=follows, scan_interval_s=0.05)
    found = FirstScan([root], chosen)
    (root / "d").rename(outside)
    (root / "d").symlink_to(outside)
    live = Session([root], [FakeView()], settings=chosen, first_scan=found)
    live.scan()
    assert values(live) == ([1] if follows else [])
    (root / "d").unlink()
    outside.rename(root / "d")
    until(lambda: live.scan() is not None and values(live) == [1])
    assert values(live) == [1]
    live.close()


def test_a_link_to_everything_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "all").symlink_to("/")
    live = session(tmp_path / "root")
    live.scan()
    assert kinds(live) == {"link-not-followed"} and live.status.files == 0


def test_there_is_a_bound_on_files_and_on_depth(tmp_path: Path) -> None:
    for number in range(6):
        path = tmp_path / "/".join(["d"] * number) / f"{number}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(line(number, number))
    live = session(tmp_path, max_depth=3, settle_s=0.0)
    live.scan()
    assert values(live) == [0, 1, 2, 3] and kinds(live) == {"too-deep"}
    live = session(tmp_path, max_files=4, settle_s=0.0)
    live.scan()
    assert values(live) == [0, 1, 2, 3] and kinds(live) == {"too-many-files"}
    (tmp_path / "more.log").write_bytes(line("more", 9))
    live.look({str(tmp_path / "more.log")})
    assert live.status.files == 4
    live.scan()
    assert len(values(live)) == 4 and {problem.kind for problem in live.problems} == {"too-many-files"}
    for path in sorted(tmp_path.rglob("*.log"))[:3]:
        path.unlink()
    live.scan()
    assert len(values(live)) == 4 and kinds(live) == set()


def test_broken_and_circular_links_sockets_and_pipes_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(line("a", 1))
    (tmp_path / "broken.log").symlink_to("nowhere")
    (tmp_path / "self.log").symlink_to("self.log")
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "null.log").symlink_to("/dev/zero")
    live = session(tmp_path, settle_s=0.0, follow_symlinks=True)
    (tmp_path / "topipe.log").symlink_to("pipe.log")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket.log"))
        live.scan()
        live.look({str(tmp_path / name) for name in ("pipe.log", "socket.log", "broken.log", "self.log", "null.log")})
    assert values(live) == [1] and kinds(live) == set()
    reasons = {item.path.rsplit("/", 1)[1]: item.reason for item in live.status.ignored}
    assert reasons["pipe.log"] == reasons["null.log"] == "not a regular file"
    assert reasons["broken.log"] == "broken link" and "self.log" in reasons


def test_a_pipe_put_in_the_place_of_a_file_between_scan_and_read(
    tmp_path: Path, live: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(line("a", 1))
    real = follow.Content

    def swapped(name: str, **limits: Any) -> tail.Content:
        path.unlink()
        os.mkfifo(path)
        monkeypatch.setattr(follow, "Content", real)
        return real(name, **limits)

    monkeypatch.setattr(follow, "Content", swapped)
    live.scan()
    assert values(live) == []
    live.scan()
    assert values(live) == []


def test_names_that_are_not_utf8_or_hostile(tmp_path: Path, live: Session) -> None:
    for count, name in enumerate([b"\xff\xfe.log", b"a\x1b[31m\n.log", "ü😀.log".encode(), b"\xed\xa0\x80.log"]):
        (tmp_path / os.fsdecode(name)).write_bytes(line(count, count) + b"bad\n")
    live.scan()
    assert values(live) == [0, 1, 2, 3]
    for info in live.inputs("fake").files.values():
        info.path.encode()
        assert info.path.isprintable() and info.label.isprintable()
    assert all(problem.path.isprintable() for problem in live.inputs("fake").problems)
    assert len(live.inputs("fake").problems) == 4


def test_deep_and_long_paths(tmp_path: Path, live: Session) -> None:
    here = Path.cwd()
    try:
        os.chdir(tmp_path)
        for _ in range(30):  # 30 x 200 characters is beyond PATH_MAX
            Path("d" * 200).mkdir()
            os.chdir("d" * 200)
        Path("a.log").write_bytes(line("a", 1))
    finally:
        os.chdir(here)
    (tmp_path / "b.log").write_bytes(line("b", 2))
    live.scan()
    assert values(live) == [2] and kinds(live) == {"unreadable"}


def test_root_missing_then_there_then_gone_then_a_file(tmp_path: Path) -> None:
    root = tmp_path / "later"
    live = session(root, settle_s=0.0)
    live.scan()
    assert kinds(live) == {"missing-root"} and {problem.kind for problem in live.problems} == {"missing-root"}
    root.mkdir()
    (root / "a.log").write_bytes(line("a", 1))
    live.scan()
    assert values(live) == [1] and kinds(live) == set()
    root.rename(tmp_path / "away")
    live.scan()
    assert values(live) == [] and kinds(live) == {"missing-root"}
    root.write_bytes(line("b", 2))
    live.scan()
    assert values(live) == [2]
    root.write_bytes(line("b", 2) + line("c", 3))
    live.look({str(root)})
    assert values(live) == [2, 3]
    root.unlink()
    (tmp_path / "away").rename(root)
    live.scan()
    assert values(live) == [1]


def test_root_given_as_link_relative_and_with_a_slash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.log").write_bytes(line("a", 1))
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    live = Session(["link/", "real", "./link"], [FakeView()])
    live.scan(final=True)
    live.close()
    assert [info.label for info in live.inputs("fake").files.values()] == ["a.log"]
