"""Versions of a ring that were overwritten: what was seen can be shown again, and is what it was."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

import engine.core.view
from engine.core.view import Result
from engine.live.session import Session
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.ring import Member
from tests.contract.samples import QUIET, view
from tests.engine.ring_placement.cases import page, table

NAME = "ring-placement"
FAIL = RingParameters(fail=("segment-writer-1",), regime="left", sweep="nodes", capacity=("3000",))


def ring(count: int, number: int) -> bytes:
    """A page of ``count`` writers, the last with an old heartbeat, written in minute ``number``."""
    members = [Member(f"segment-writer-{i}", "ACTIVE", f"zone-{i % 3}", 4) for i in range(count)]
    return page(members, f"2026-11-20T23:{number:02}:00Z", f"2026-11-20T23:{number - 1:02}:55Z")


def load(factor: int) -> bytes:
    return table([(f"t{i % 3}", f"svc-{i}", 100 * factor + i) for i in range(20)])


def put(folder: Path, name: str, data: bytes, minute: int, *, in_place: bool) -> None:
    """Write a file, over the old one or by renaming, as modified in ``minute``."""
    target = folder / name if in_place else folder / f".{name}.tmp"
    target.write_bytes(data)
    os.utime(target, (1_795_000_000 + 60 * minute,) * 2)
    target.replace(folder / name)


def plain(result: Result) -> Any:
    """A result without the moment that was asked for and what else could be."""
    return dataclasses.replace(result, at_ms=None, detail=msgspec.structs.replace(result.detail, moments=()))


def cold(folder: Path, files: dict[str, tuple[bytes, int]], parameters: RingParameters) -> Result:
    """What a session shows that sees these files (content and minute) only."""
    folder.mkdir()
    for name, (data, minute) in files.items():
        put(folder, name, data, minute, in_place=False)
    session = Session([folder], [view(NAME)], settings=QUIET)
    session.scan(final=True)
    result = session.compute(NAME, parameters)
    session.close()
    return result


@pytest.mark.parametrize("in_place", [True, False])
def test_an_overwritten_version_is_shown_like_a_session_on_that_version(tmp_path: Path, in_place: bool) -> None:
    live = tmp_path / "live"
    live.mkdir()
    session = Session([live], [view(NAME)], settings=QUIET)
    states: list[dict[str, tuple[bytes, int]]] = []
    for number, count in enumerate((5, 4, 6, 7), 1):
        put(live, "ring.json", ring(count, number), number, in_place=in_place)
        session.scan(final=True)
        put(live, "loads.csv", load(number), number, in_place=in_place)  # after the ring, and not a step of its own
        session.scan(final=True)
        states.append({"ring.json": (ring(count, number), number), "loads.csv": (load(number), number)})
    present = session.compute(NAME, FAIL)
    moments = present.detail.moments
    assert len(moments) == 4 and list(moments) == sorted(moments)
    for number, (at_ms, files) in enumerate(zip([*moments[:-1], None], states, strict=True)):
        shown = session.compute(NAME, FAIL, at_ms=at_ms)
        assert shown.at_ms == at_ms
        assert plain(shown).same_as(plain(cold(tmp_path / f"cold-{number}", files, FAIL)))
    assert session.compute(NAME, FAIL).summary["members"] == 7
    # Between two steps the version that had come is in force; a moment before all of them knows none.
    assert session.compute(NAME, FAIL, at_ms=moments[2] - 1).summary["members"] == 4
    session.close()


def test_dated_pages_and_removed_rings_are_moments(tmp_path: Path) -> None:
    put(tmp_path, "ring-1.json", ring(3, 10), 10, in_place=False)
    put(tmp_path, "ring-2.json", ring(4, 20), 20, in_place=False)
    session = Session([tmp_path], [view(NAME)], settings=QUIET)
    session.scan(final=True)
    first = session.compute(NAME, RingParameters()).detail.moments
    assert len(first) == 2 and first[1] - first[0] == 600_000
    for at_ms in (first[0], first[1] - 1):  # judged at the page's time, minutes later too
        shown = session.compute(NAME, RingParameters(), at_ms=at_ms).summary
        assert (shown["members"], shown["healthy"]) == (3, 3)
    (tmp_path / "ring-2.json").unlink()
    session.scan(final=True)
    present = session.compute(NAME, RingParameters())
    assert present.summary["members"] == 3
    moments = present.detail.moments
    assert [session.compute(NAME, RingParameters(), at_ms=at).summary["members"] for at in moments[:-1]][-1] == 4
    session.close()


def test_the_past_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.core.view, "VERSIONS", 3)
    session = Session([tmp_path], [view(NAME)], settings=QUIET)

    def counts() -> list[int]:
        moments = session.compute(NAME, RingParameters()).detail.moments
        return [session.compute(NAME, RingParameters(), at_ms=at).summary["members"] for at in moments[:-1]]

    for number in range(1, 8):
        put(tmp_path, "ring.json", ring(number, number), number, in_place=False)
        session.scan(final=True)
    assert counts() == [4, 5, 6]
    monkeypatch.setattr(engine.core.view, "PAST_BYTES", len(ring(7, 7)) + len(ring(6, 6)))
    put(tmp_path, "ring.json", ring(8, 8), 8, in_place=False)
    session.scan(final=True)
    assert counts() == [6, 7]
    # Other files make no step, nor does a page that does not parse, nor one that is read again once it is quiet.
    put(tmp_path, "loads.csv", load(1), 8, in_place=False)
    session.scan(final=True)
    put(tmp_path, "ring.json", ring(9, 9)[:-60], 9, in_place=True)
    session.scan(final=True)
    assert counts() == [6, 7]
    monkeypatch.undo()
    (tmp_path / "ring.json").write_bytes(ring(9, 10))
    session.scan()
    first = set(session.inputs(NAME).files)
    assert counts() == [6, 7, 8]
    session.scan(final=True)
    assert set(session.inputs(NAME).files) != first, "it was read again"
    assert counts() == [6, 7, 8]
    session.close()
