"""Rows on disk: a store that may hold next to nothing in memory gives the rows of one that holds all."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from engine.inputs import FILE
from engine.live import store
from engine.live.row_files import RowFile, RowFiles
from engine.live.store import Store
from engine.tables import Column, Table

TABLES = (
    Table("few", "", (Column("n", pl.Int64, ""), Column("text", pl.String, ""))),
    Table("many", "", (Column("x", pl.Float64, ""), Column("lists", pl.List(pl.Int32), "")), seldom=True),
)


def same(one: Store, other: Store, files: frozenset[int]) -> None:
    """Compare whatever can be asked of two stores."""
    for mine, theirs in zip((one.snapshot(), one), (other.snapshot(), other), strict=True):
        for table in TABLES:
            if mine is not one:
                assert_frame_equal(mine(table.name), theirs(table.name))  # type: ignore[operator]
                parts = list(mine.parts(table.name, files))  # type: ignore[union-attr]
                whole = theirs.of(table.name, files)  # type: ignore[union-attr]
                assert_frame_equal(pl.concat(parts) if parts else whole.clear(), whole)
            else:
                assert_frame_equal(one.firm(table.name, files), other.firm(table.name, files))
    for provisional in (False, True):
        for table in TABLES:
            mine_, theirs_ = (each.frames(provisional=provisional)[table.name] for each in (one, other))
            assert_frame_equal(mine_, theirs_)


@pytest.mark.parametrize("seed", range(4))
def test_rows_on_disk_are_those_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(store, "SELDOM_BYTES", 300)
    chance = random.Random(seed)
    small, large = Store(TABLES, RowFiles(lambda: tmp_path), 2_000), Store(TABLES)
    alive: list[int] = []
    before = [large.snapshot(), small.snapshot()]
    for step in range(1, 60):
        file = step if chance.random() < 0.8 or not alive else chance.choice(alive)
        height = chance.randrange(9)
        rows = {
            "few": {"n": list(range(height)), "text": [f"{step}·{n}" for n in range(height)]},
            "many": {"x": [chance.random() for _ in range(height)], "lists": [[n, step] for n in range(height)]},
        }
        for each in (small, large):
            each.put(file, rows, 2 * height, provisional=step % 7 == 0)
            if step % 5 == 0 and alive:
                each.forget(alive[:1])
            if step % 11 == 0:
                each.forget_provisional(file)
            assert not each.flush()
        alive = [n for n in [*alive[step % 5 == 0 :], file] if n != 0]
        if step % 6 == 0:
            same(small, large, frozenset(chance.sample(alive, len(alive) // 2)))
        if step == 30:
            before = [large.snapshot(), small.snapshot()]
            then = [before[0](table.name) for table in TABLES]
    assert any(isinstance(chunk.rows, RowFile) for chunk in small.chunks()["many"])
    for table, rows_then in zip(TABLES, then, strict=True):
        assert_frame_equal(before[1](table.name), rows_then)  # an old snapshot keeps what has gone
    held = sum(chunk.nbytes for chunks in small.chunks().values() for chunk in chunks)
    assert held < sum(chunk.nbytes for chunks in large.chunks().values() for chunk in chunks) / 2
    assert not list(tmp_path.iterdir())  # files without a name


def test_rows_that_cannot_be_put_on_disk_stay_with_a_problem(tmp_path: Path) -> None:
    files = RowFiles(lambda: tmp_path / "missing")
    small = Store(TABLES, files, 10)
    small.put(1, {"few": {"n": [1, 2, 3], "text": ["a", "b", "c"]}}, 3)
    assert not small.flush()
    assert small.snapshot()("few")[FILE].to_list() == [1, 1, 1]
    assert files.problem is not None and files.problem.kind == "memory"
    (tmp_path / "missing").mkdir()
    small.put(2, {"few": {"n": [4], "text": ["d"]}}, 1)
    assert not small.flush()
    assert files.problem is None and small.snapshot()("few")["n"].to_list() == [1, 2, 3, 4]
