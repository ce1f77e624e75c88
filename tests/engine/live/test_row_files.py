"""Rows on disk: a store that may hold next to nothing in memory gives the rows of one that holds all."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from engine.core.tables import Column, Parts, Rows, Table
from engine.core.view import FILE
from engine.live import store
from engine.live.store import RowFile, RowFiles, Store

TABLES = (
    Table("few", "", (Column("n", pl.Int64, ""), Column("text", pl.String, ""))),
    Table("many", "", (Column("x", pl.Float64, ""), Column("lists", pl.List(pl.Int32), "")), seldom=True),
)
WHERE = {"few": pl.col("n") > 2, "many": pl.col("x") < 0.3}


def same(one: Store, other: Store, files: frozenset[int]) -> None:
    """Compare whatever can be asked of two stores."""
    for mine, theirs in zip((one.snapshot(), one), (other.snapshot(), other), strict=True):
        for table in TABLES:
            if mine is not one:
                assert_frame_equal(mine(table.name), theirs(table.name))  # type: ignore[operator]
                parts = list(mine.parts(table.name, files))  # type: ignore[union-attr]
                whole = theirs.of(table.name, files)  # type: ignore[union-attr]
                assert_frame_equal(pl.concat(parts) if parts else whole.clear(), whole)
                some = list(mine.parts(table.name, files, WHERE[table.name]))  # type: ignore[union-attr]
                assert_frame_equal(pl.concat(some) if some else whole.clear(), whole.filter(WHERE[table.name]))
            else:
                assert_frame_equal(
                    *(
                        pl.concat([store.snapshot().of(table.name, frozenset()), *store.firm_rows()(table.name, files)])
                        for store in (one, other)
                    )
                )
    for provisional in (False, True):
        for table in TABLES:
            mine_, theirs_ = (
                [frame for name, frame in each.frames(provisional=provisional) if name == table.name]
                for each in (one, other)
            )
            assert bool(mine_) == bool(theirs_)
            if mine_:
                assert_frame_equal(pl.concat(mine_), pl.concat(theirs_))


def in_parts(frame: pl.DataFrame) -> Parts:
    return Parts(frame.height, frame.columns, lambda: frame.iter_slices(2))


@pytest.mark.parametrize("seed", range(2))
def test_rows_on_disk_are_those_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(store, "SELDOM_BYTES", 300)
    chance = random.Random(seed)
    monkeypatch.setattr(store, "PUT_ROWS", 9)
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
            given: dict[str, Rows] = dict(rows)
            if each is small and chance.random() < 0.5:
                given = {table.name: in_parts(table.frame(rows[table.name])) for table in TABLES}
            each.put(file, given, each.check(given), provisional=step % 7 == 0)
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


def test_rows_whose_making_fails_cost_their_own_file_alone() -> None:
    def broken() -> Iterator[pl.DataFrame]:
        yield pl.DataFrame({"n": [1], "text": ["a"]})
        raise ValueError("no more")

    some = Store(TABLES)
    for file, rows in (
        (1, {"n": [7], "text": ["b"]}), (2, Parts(2, ["n", "text"], broken)), (3, {"n": [8], "text": ["c"]}),
    ):  # fmt: skip
        some.put(file, {"few": rows}, 1)
    assert list(some.flush()) == [2]
    assert some.snapshot()("few")["n"].to_list() == [7, 8]
