"""Contracts of every view, checked on its own sample data."""

from __future__ import annotations

import importlib
import json
import random
import re
from pathlib import Path

import polars as pl
import pytest

from engine.core.incremental import Memo
from engine.core.parameters import options
from engine.core.reading import HEAD, clean
from engine.core.view import LEVELS, Context, Inputs, NoInput, Result
from engine.output import report
from tests.contract.samples import FED, opened, play, view

NOW = 1_800_000_000_000


def computed(name: str, folder: Path) -> tuple[Inputs, Result]:
    session = opened(name, folder)
    chosen = view(name)
    try:
        return session.inputs(name), session.compute(name, chosen.parameters(), now_ms=NOW)
    finally:
        session.close()


Played = tuple[str, Inputs, Result]
"""A view's name, what was read of its played sample, and the result of it."""


@pytest.fixture(scope="module", params=FED)
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = play(request.param, tmp_path_factory.mktemp(request.param), changes=2)
    return request.param, *computed(request.param, folder)


def test_result_has_the_declared_shape(played: Played) -> None:
    name, _, result = played
    chosen = view(name)
    declared = {table.name: table for table in chosen.tables}
    assert result.view == name and result.headline and set(result.tables) <= set(declared)
    assert chosen.tables[0].name in result.tables
    for table_name, frame in result.tables.items():
        assert frame.schema == declared[table_name].schema, table_name
        key = declared[table_name].key
        if key:
            assert not frame.select(key).is_duplicated().any(), table_name
    for finding in result.findings:
        assert finding.level in LEVELS and finding.subject and finding.text
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", key) for key in result.summary)
    json.loads(report.to_json(chosen, result, chosen.parameters(), NOW))


def test_sample_data_are_read_and_something_shows(played: Played) -> None:
    result = played[2]
    assert not {p.kind for p in result.problems} & {"reader-error", "unreadable"}
    assert any(frame.height for frame in result.tables.values())


def test_compute_is_pure(played: Played) -> None:
    """A second computation, with an empty memo and with a used one, gives an equal result."""
    name, inputs, first = played
    chosen = view(name)
    memo = Memo()
    for _ in range(2):
        assert first.same_as(chosen.compute(inputs, chosen.parameters(), Context(NOW, memo=memo)))


@pytest.mark.parametrize("name", FED)
def test_live_steps_give_what_a_fresh_start_gives(name: str, tmp_path: Path) -> None:
    """Deltas are merged, never guessed: after some changes the kept state equals a new reading of all files."""
    steps = importlib.import_module(f"sample_data.{name.replace('-', '_')}.live").steps(tmp_path)
    next(steps)
    session = opened(name, tmp_path)
    parameters = view(name).parameters()
    for _ in range(4):
        session.compute(name, parameters, now_ms=NOW)
        next(steps)
        session.scan(final=True)
    kept = session.compute(name, parameters, now_ms=NOW)
    _, fresh = computed(name, tmp_path)  # what went wrong in one step is not mended by the next
    assert kept.summary == fresh.summary
    for table, frame in fresh.tables.items():
        assert frame.equals(kept.tables[table]), table
    session.close()


def test_parameters_are_documented() -> None:
    for name in FED:
        for found in options(view(name).parameters):
            assert len(found.sentence) > 10, (name, found.key)


def test_columns_are_explained() -> None:
    """The help shows the meaning of each column: a few words that say more than its title."""
    for name in FED:
        for table in view(name).tables:
            for column in table.columns:
                assert len(column.meaning.split()) > 1, (name, table.name, column.name)
                assert column.meaning.lower().rstrip(".") != column.header.lower(), (name, table.name, column.name)


_DIRTY = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def texts_of(result: Result) -> list[str]:
    found = [p.path + p.reason for p in result.problems] + [h.value + h.basis for h in result.headline]
    found += [f.subject + f.text for f in result.findings] + list(result.notes)
    for frame in result.tables.values():
        for column in frame.iter_columns():
            if column.dtype == pl.String:
                found += [text for text in column.to_list() if text is not None]
    return found


def damages(data: bytes, rng: random.Random) -> list[tuple[str, bytes]]:
    """Ways a file gets damaged: cut, bits flipped, zeroed, doubled, foreign bytes, hostile text in its words."""
    if not data:
        return []
    cut = rng.randrange(len(data))
    flipped = bytearray(data)
    for _ in range(max(3, len(data) // 2000)):
        flipped[rng.randrange(len(data))] = rng.randrange(256)
    start = rng.randrange(len(data))
    words = re.sub(
        rb"[a-z]{4,}", lambda m: m[0] + b"\x1b]0;x\x07[/b]\xe2\x80\xae" if rng.random() < 0.05 else m[0], data
    )
    digits = re.sub(rb"\d+", lambda m: b"9" * 40 if rng.random() < 0.02 else m[0], data)
    return [
        ("cut", data[:cut]),
        ("flipped", bytes(flipped)),
        ("zeroed", data[:start] + bytes(min(512, len(data) - start)) + data[start + 512 :]),
        ("doubled", data[:cut] + data),
        ("foreign", b"\xff\xfe\x00" + data),
        ("hostile", words),
        ("huge numbers", digits),
    ]


def head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD)


@pytest.mark.parametrize("name", FED)
def test_damaged_files_never_crash_and_nothing_hostile_comes_out(name: str, tmp_path: Path) -> None:
    folder = play(name, tmp_path / "good", changes=1)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    rng = random.Random(7)
    # One file of each ending, and of each recognised kind, is enough to meet every reader.
    kinds = {path: kind.id for path in files for kind in view(name).kinds if kind.recognise(path.name, head(path))}
    chosen: dict[object, Path] = {}
    for path in files:
        chosen.setdefault(kinds.get(path, path.suffix), path)
    of_kind: dict[object, int] = {}
    for path in files:  # a few of each kind stay for the damaged one to meet
        kind = kinds.get(path, path.suffix)
        of_kind[kind] = of_kind.get(kind, 0) + 1
        if of_kind[kind] > 3:
            path.unlink()
    good = {path: path.read_bytes() for path in chosen.values() if path.stat().st_size}
    bad = {path: dict(damages(data, rng)) for path, data in good.items()}
    for what in next(iter(bad.values())):
        half = rng.sample(sorted(good), (len(good) + 1) // 2)  # so that the damaged meet the whole
        for path in half:
            path.write_bytes(bad[path][what])
        session = opened(name, folder)
        try:
            result = session.compute(name, view(name).parameters(), now_ms=NOW)
        except NoInput as error:
            assert clean(str(error)) == str(error)
            continue
        finally:
            session.close()
            for path in half:
                path.write_bytes(good[path])
        broken = [p for p in result.problems if p.kind in ("reader-error", "internal-error")]
        assert not broken, (what, broken)
        dirty = [text for text in texts_of(result) if _DIRTY.search(text)]
        assert not dirty, (what, dirty[:3])
