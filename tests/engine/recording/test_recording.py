from __future__ import annotations

import io
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from engine.recording import player as playing
from engine.recording.layout import MAGIC, BadRecording, Entry, Writer, entries, packed, unpacked
from engine.recording.player import NEIGHBOUR, Player
from engine.recording.recorder import Full, Recorder

START_MS = 1_760_000_000_000


class Clock:
    """A clock that a test sets."""

    ms = START_MS

    def __call__(self) -> int:
        return self.ms


def until(true: Callable[[], Any], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "never came true"
        time.sleep(0.005)


def tree(*roots: Path) -> list[dict[str, bytes]]:
    """What is below each root, by relative path; empty in the middle of a change."""
    found = []
    try:
        for root in roots:
            paths = [path for path in root.rglob("*") if path.is_file()] if root.is_dir() else [root] * root.exists()
            found.append({str(path.relative_to(root)): path.read_bytes() for path in paths if path.name != NEIGHBOUR})
    except FileNotFoundError:
        return []
    return found


def record(path: Path, *steps: tuple[Entry, bytes]) -> Path:
    """Write a recording of just these entries after its beginning."""
    with path.open("wb") as file:
        writer = Writer(file)
        writer.write(Entry(kind="begin", at_ms=START_MS, roots=("0/data/",)))
        for entry, content in steps:
            writer.write(entry, content)
        writer.close()
    return path


def put(path: str, content: bytes = b"x", **more: Any) -> tuple[Entry, bytes]:
    return Entry(kind="replace", at_ms=START_MS, path=path, size=len(content), **more), content


def played(path: Path, target: Path, *, limit: int = 10 << 20, most: int = 100) -> Player:
    """Play a recording to its end, as fast as it can be."""
    target.mkdir()
    with path.open("rb") as file:
        player = Player(file, target, limit=limit, most=most, speed=1e9)
        player.prepare()
        player.join(20)
    assert player.ended
    return player


def change(folder: Path, draw: random.Random) -> None:
    """Do to the files of a folder what programs do: write, grow, replace, cut, rename, delete."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    kind = draw.choice(("new", "grow", "grow", "replace", "in place", "rename", "delete"))
    if kind == "new" or not files:
        path = folder / draw.choice(("a", "b/c", "b/d e", "ü\udcff"))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(draw.randbytes(draw.choice((0, 10, 3000))))
        return
    path = draw.choice(files)
    if kind == "grow":
        with path.open("ab") as file:
            file.write(draw.randbytes(draw.choice((1, 2000))))
    elif kind == "replace":
        (folder / "new.tmp").write_bytes(draw.randbytes(20))
        (folder / "new.tmp").replace(path)
    elif kind == "in place":
        path.write_bytes(draw.randbytes(draw.choice((0, 20, 4000))))
    elif kind == "rename":
        path.replace(path.with_name(f"{draw.randint(0, 9)}"))
    else:
        path.unlink()


@pytest.mark.parametrize("seed", range(6))
def test_what_is_played_is_what_was_recorded(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playing, "LOOK_S", 0.002)
    draw, clock = random.Random(seed), Clock()
    folder, single = tmp_path / "data", tmp_path / "one.csv"
    folder.mkdir()
    single.write_bytes(b"a,b\n")
    recorder = Recorder(tmp_path / "recorded", 1 << 20, clock)
    seen = []
    for _ in range(20):
        change(folder, draw)
        paths = [os.fspath(path) for path in (*folder.rglob("*"), single) if path.is_file()]
        draw.shuffle(paths)
        recorder.take([str(folder), str(single)], paths)
        seen.append(tree(folder, single))
        clock.ms += 1000
    recorder.close()
    with (tmp_path / "recorded").open("rb") as file:
        player = Player(file, tmp_path / "to", limit=1 << 20, most=100, speed=1e-9)
        player.prepare("a view")
        for moment, wanted in enumerate(seen):
            until(lambda wanted=wanted: tree(*player.roots) == wanted)  # type: ignore[misc]
            player.prepare()
            player._moment_ms = START_MS + 1000.0 * (moment + 1)
        player.join(20)
    assert [root.name for root in player.roots] == ["data", "one.csv"]
    assert player.ended and not player.problem
    assert player.now_ms() >= clock.ms


def test_a_clock_that_is_set_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a pause of an hour nor one look over all that came later; and any time of modification can be played."""
    recorder = Recorder(tmp_path / "recorded", 1 << 20)
    right_ns = time.time_ns()
    for step_s, modified_s in ((0, -1e9), (3600, 1e9), (-86_400, 0), (-1.7e9, 2e9)):
        monkeypatch.setattr(time, "time_ns", lambda step_s=step_s: right_ns + int(step_s * 1e9))
        (tmp_path / "a.log").write_bytes(b"%d" % step_s)
        os.utime(tmp_path / "a.log", (modified_s, modified_s))
        recorder.take([str(tmp_path)], [str(tmp_path / "a.log")])
    recorder.close()
    with (tmp_path / "recorded").open("rb") as file:
        heads = [entry for entry, _ in entries(file)]
    assert [entry.modified_ns for entry in heads if entry.more] == [0, 10**18, 0, 2 * 10**18]
    times = [entry.at_ms for entry in heads]
    assert (
        times == sorted(times)
        and times[0] == pytest.approx(right_ns // 10**6, abs=60_000)
        and times[-1] - times[0] < 60_000
    )


def test_times_of_modification_are_those_of_the_files(tmp_path: Path) -> None:
    recording = record(tmp_path / "r", put("0/data/a", b"abc", modified_ns=5_000_000_000))
    player = played(recording, tmp_path / "to")
    assert (player.roots[0] / "a").stat().st_mtime == 5.0


def test_it_ends_where_it_may_not_grow_and_never_writes_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(3 << 20))
    recorder = Recorder(tmp_path / "r", 2 << 20)
    with pytest.raises(Full):
        recorder.take([str(tmp_path)], [str(tmp_path / "big")])
    recorder.close()
    with pytest.raises(FileExistsError):
        Recorder(tmp_path / "r", 1)
    assert (tmp_path / "r").stat().st_mode & 0o777 == 0o600
    player = played(tmp_path / "r", tmp_path / "to")
    assert tree(player.roots[0]) == [{}], "what is not whole is not put in its place"


@pytest.mark.parametrize("follow", [False, True])
def test_links_to_elsewhere_are_recorded_where_they_are_followed(follow: bool, tmp_path: Path) -> None:
    """A file may become a link after the session has seen it."""
    root = tmp_path / "data"
    root.mkdir()
    (tmp_path / "a").write_bytes(b"abc")
    (root / "a").symlink_to(tmp_path / "a")
    recorder = Recorder(tmp_path / "r", 1 << 20)
    recorder.take([str(root)], [str(root / "a")], follow=follow)
    recorder.close()
    with (tmp_path / "r").open("rb") as file:
        assert any(content == b"abc" for _, content in entries(file)) == follow


HOSTILE = (
    "/etc/x", "../x", "0/../../x", "0/data/../../../x", "%2e%2e/x", "0/data/%2E%2E%2F%2E%2E%2Fx", "0//x", "", ".", "0/./x",
    "%2Fx", "0/data/a%00b", "0/" + "d/" * 80 + "x", "0/" + "n" * 300, "x" * 5000,
)  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE)
def test_no_path_leads_out(path: str, tmp_path: Path) -> None:
    with pytest.raises(BadRecording):
        unpacked(path)
    player = played(record(tmp_path / "r", put(path), put("0/data/good")), tmp_path / "to")
    assert tree(tmp_path / "to") == [{"0/data/good": b"x"}] and not player.problem
    assert {each.name for each in tmp_path.iterdir()} == {"r", "to"}


def test_changes_that_cannot_be_made_are_left_out(tmp_path: Path) -> None:
    steps = [
        put("0/data/a"),
        put("0/data/a/b"),  # below a file
        put("0/data"),  # a file in the place of a folder
        (Entry(kind="remove", at_ms=START_MS, path="0/data"), b""),
        (Entry(kind="append", at_ms=START_MS - 10**9, path="0/data/a", size=1), b"y"),  # a clock that was set back
        put("0/data/c"),
    ]
    player = played(record(tmp_path / "r", *steps), tmp_path / "to")
    assert tree(player.roots[0]) == [{"a": b"xy", "c": b"x"}]


def test_bombs_are_bounded(tmp_path: Path) -> None:
    zeros = bytes(1 << 20)
    many = played(record(tmp_path / "r", *(put(f"0/data/{n}", b"") for n in range(500))), tmp_path / "to", most=20)
    assert "more than" in many.problem and len(tree(many.roots[0])[0]) <= 20
    large = record(tmp_path / "s", *(put("0/data/a", zeros, more=True) for _ in range(50)))
    assert large.stat().st_size < 100_000
    player = played(large, tmp_path / "to2", limit=3 << 20)
    assert "more than 3 MB" in player.problem
    assert sum(path.stat().st_size for path in (tmp_path / "to2").rglob("*")) < 4 << 20
    deep = (put(f"0/data/{n}/" + "d/" * 50 + "a") for n in range(50))
    folders = played(record(tmp_path / "d", *deep), tmp_path / "to3", most=120)
    assert "folders" in folders.problem and len([*(tmp_path / "to3").rglob("*")]) <= 240
    ends = ((Entry(kind="end", at_ms=START_MS, size=len(zeros)), zeros) for _ in range(50))
    player = played(record(tmp_path / "e", *ends), tmp_path / "to4", limit=3 << 20)
    assert "more than 3 MB" in player.problem
    with pytest.raises(BadRecording, match="folders"):
        roots = tuple(f"{n}/data/" for n in range(30))
        begin = msgspec.json.encode(Entry(kind="begin", at_ms=START_MS, roots=roots))
        Player(io.BytesIO(_stream(_head(begin))), tmp_path / "to5", limit=1, most=20)


def _stream(*pieces: bytes) -> bytes:
    return MAGIC + zstandard.ZstdCompressor().compress(b"".join(pieces))


def _head(text: bytes) -> bytes:
    return len(text).to_bytes(4, "little") + text


BEGIN = msgspec.json.encode(Entry(kind="begin", at_ms=START_MS, roots=("0/data/",)))


@pytest.mark.parametrize(
    "data",
    [
        b"", b"x,y\n1,2\n", MAGIC, MAGIC + b"no stream", _stream(), _stream(b"\xff\xff\xff\xff"), _stream(_head(b"[" * 60_000)),
        _stream(_head(b'{"kind":"begin","at_ms":1e999}')), _stream(_head(b'{"kind":"link","at_ms":1}')), _stream(_head(b"{}")),
        _stream(_head(b'{"kind":"begin","at_ms":1,"size":2000000}')), _stream(_head(b'{"kind":"begin","at_ms":1,"to":"/"}')),
        _stream(_head(b'{"kind":"begin","at_ms":1,"roots":["../x/"]}')), _stream(_head(b'{"kind":"end","at_ms":1}')),
        _stream(_head(b'{"kind":"begin","at_ms":99999999999999999999}')),
    ],
)  # fmt: skip
def test_what_is_no_recording_is_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(BadRecording):
        Player(io.BytesIO(data), tmp_path, limit=1, most=1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seed", range(20))
def test_damage_ends_it_and_what_came_before_is_there(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    data = bytearray(
        record(
            tmp_path / "r", put("0/data/a"), *(put(f"0/data/{n}", draw.randbytes(99)) for n in range(9))
        ).read_bytes()
    )
    for _ in range(3):
        data[draw.randrange(len(MAGIC) + 60, len(data))] = draw.randrange(256)
    del data[draw.randrange(len(MAGIC) + 60, len(data)) :]
    (tmp_path / "to").mkdir()
    try:
        player = Player(io.BytesIO(bytes(data)), tmp_path / "to", limit=1 << 20, most=100, speed=1e9)
    except BadRecording:
        return
    player.prepare()
    player.join(20)
    assert player.ended
    assert {each.name for each in tmp_path.iterdir()} == {"r", "to"}


def test_a_killed_recording_can_be_read_to_its_last_look(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    recorder = Recorder(tmp_path / "r", 1 << 20)
    recorder.take([str(tmp_path)], [str(tmp_path / "a")])
    with (tmp_path / "r").open("rb") as file:
        found = list(entries(file))
    assert [entry.kind for entry, _ in found] == ["begin", "replace", "replace"]
    recorder.close()


def test_paths_come_back(tmp_path: Path) -> None:
    for path in ("0/data/a", "0/ü €/x%2Fy", "0/\udcff\udc80", "0/a\nb\x1b[2J"):
        assert unpacked(packed(path)) == path and packed(path).isascii() and packed(path).isprintable()
