"""Packed files: read as they are, cut ones as far as they go, bombs refused."""

from __future__ import annotations

import tracemalloc
from functools import cache
from pathlib import Path

import pytest

from engine.core.compression import TooBig
from engine.live.ingest.file_content import Content
from engine.live.session import Session
from tests.engine.live.fake import doc, docs, kinds, line, pack, session, values, view_of


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_packed_files(tmp_path: Path, live: Session, ending: str) -> None:
    (tmp_path / f"a.log{ending}").write_bytes(pack(line("a", 1), ending) + pack(line("b", 2), ending))
    (tmp_path / f"x.doc{ending}").write_bytes(pack(doc("x", 3), ending))
    (tmp_path / "named.wrongly").write_bytes(pack(line("c", 4), ending))
    live.scan()
    assert values(live) == [1, 2, 4] and docs(live) == [("x", 3, 0)]
    assert {read[0] for read in view_of(live).log.reads} == {"a.log", "named.wrongly"}
    with (tmp_path / f"a.log{ending}").open("ab") as file:
        file.write(pack(line("d", 5), ending))
    live.scan()
    assert values(live) == [1, 2, 4, 5]


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_cut_packed_file_gives_what_can_be_unpacked(tmp_path: Path, live: Session, ending: str) -> None:
    import random

    seed = random.Random(1)
    data = b"".join(line(seed.random(), i) for i in range(20_000))
    whole = pack(data, ending)
    (tmp_path / f"a.log{ending}").write_bytes(whole[: len(whole) * 9 // 10])
    live.scan()
    got = values(live)
    assert kinds(live) == {"cut-file"}
    assert 1000 < len(got) < 20_000 and sorted(got) == list(range(len(got))), "no half record at the cut"
    (tmp_path / f"a.log{ending}").write_bytes(whole)
    live.scan()
    assert len(values(live)) == 20_000 and kinds(live) == set()


def test_cut_packed_file_is_no_problem_while_it_grows(tmp_path: Path) -> None:
    whole = pack(line("a", 1) * 10_000, ".gz")
    (tmp_path / "a.log.gz").write_bytes(whole[:-4])
    live = session(tmp_path, settle_s=30)
    live.scan()
    assert kinds(live) == set() and live.due() is not None


@pytest.mark.parametrize("place", [3, 100, -9, -4])
def test_damaged_packed_file(tmp_path: Path, live: Session, place: int) -> None:
    data = bytearray(pack(b"".join(line(i * 7919, i) for i in range(5000)), ".gz"))
    data[place] ^= 0xFF
    (tmp_path / "a.log.gz").write_bytes(data)
    live.scan()
    assert kinds(live) <= {"damaged-archive", "cut-file", "bad-record"}
    assert kinds(live) or len(values(live)) == 5000


@pytest.mark.parametrize("ending", [".gz", ".zst"])
@pytest.mark.parametrize("name", ["bomb.log", "bomb.doc"])
def test_bomb(tmp_path: Path, ending: str, name: str) -> None:
    start = line("a", 1) if name.endswith("log") else b'{"doc"'
    bomb = pack(start + bytes(20 << 20), ending)
    assert len(bomb) < 100_000
    (tmp_path / f"{name}{ending}").write_bytes(bomb)
    live = session(tmp_path, settle_s=0.0, max_unpacked_mb=16)
    live.scan()
    assert kinds(live) == {"too-big"} and values(live) == [] and docs(live) == []
    assert {problem.kind for problem in live.problems} == {"too-big"}


@cache
def zeros(ending: str) -> bytes:
    """40 MB of nothing, packed."""
    return pack(bytes(40 << 20), ending)


@pytest.mark.parametrize("ending", [".gz", ".zst"])
@pytest.mark.parametrize(("limit", "peak"), [(48 << 20, 2.5 * (40 << 20)), (16 << 20, 32 << 20)])
def test_memory_of_a_packed_document(tmp_path: Path, ending: str, limit: int, peak: float) -> None:
    """Twice what is kept, and of what is refused only the pieces in hand."""
    path = tmp_path / f"x.json{ending}"
    path.write_bytes(zeros(ending))
    tracemalloc.start()
    try:
        with Content(str(path), max_unpacked=1 << 30, max_document=limit) as content:
            if limit > 40 << 20:
                assert len(content.whole()) == 40 << 20
            else:
                with pytest.raises(TooBig, match="max-file-mb"):
                    content.whole()
        assert tracemalloc.get_traced_memory()[1] < peak
    finally:
        tracemalloc.stop()


def test_too_large_document(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(doc("x", *range(400_000)))
    live = session(tmp_path, settle_s=0.0, max_file_mb=1)
    live.scan()
    assert kinds(live) == {"too-big"} and docs(live) == []
