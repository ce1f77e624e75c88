"""The store against the plainest possible model of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine.live.store as stores
from engine.core.tables import Column, Table
from engine.live.store import BadRows, Store
from tests.chance import tries

TABLE = Table("t", "", (Column("a", pl.Int64, ""), Column("b", pl.String, "")))


def put(store: Store, file: int, rows: Any, *, provisional: bool = False) -> None:
    store.put(file, rows, store.check(rows), provisional=provisional)


def content(store: Store) -> list[tuple[Any, ...]]:
    return store.snapshot()("t").rows()


FORMS = st.sampled_from(["lists", "arrays", "frame", "one column", "nothing"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 6), st.integers(0, 5), FORMS, st.booleans()),
        st.tuples(st.just("forget"), st.integers(1, 6)),
        st.tuples(st.just("forget provisional"), st.integers(1, 6)),
        st.tuples(st.just("flush")),
    ),
    max_size=40,
)


def form(kind: str, values: list[int]) -> dict[str, Any]:
    names = [f"n{value}" for value in values]
    if kind == "lists":
        return {"t": {"a": values, "b": names}}
    if kind == "arrays":
        return {"t": {"a": np.array(values, dtype=np.int64), "b": names}}
    if kind == "frame":
        return {"t": pl.DataFrame({"b": pl.Series(names, dtype=pl.String), "a": pl.Series(values, dtype=pl.Int64)})}
    return {"t": {"a": values}} if kind == "one column" else {}


@tries(33)
@given(STEPS)
def test_store_equals_a_list_of_rows(steps: list[tuple[Any, ...]]) -> None:
    store = Store([TABLE])
    model: list[tuple[bool, tuple[Any, ...]]] = []
    count = 0
    for step in steps:
        if step[0] == "put":
            _, file, rows, kind, loose = step
            values = list(range(count, count + rows))
            count += rows
            put(store, file, form(kind, values), provisional=loose)
            if kind != "nothing":
                model += [(loose, (v, None if kind == "one column" else f"n{v}", file)) for v in values]
        elif step[0] == "forget":
            store.forget([step[1]])
            model = [row for row in model if row[1][2] != step[1]]
        elif step[0] == "forget provisional":
            store.forget_provisional(step[1])
            model = [row for row in model if not (row[0] and row[1][2] == step[1])]
        else:
            assert store.flush() == {}
    before = content(store)
    assert store.flush() == {}
    assert content(store) == [row for loose, row in model if not loose] + [row for loose, row in model if loose]
    wanted = frozenset({1, 2})
    of_files = store.snapshot().of("t", wanted).rows()
    assert sorted(of_files) == sorted(row for _, row in model if row[2] in wanted)
    firm = [row for part in store.firm_rows()("t", wanted) for row in part.rows()]
    assert firm == [row for loose, row in model if not loose and row[2] in wanted]
    assert before == before


def test_chunks_stay_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MERGE_ROWS", 100)
    store = Store([TABLE])
    most = 0
    for number in range(3000):
        put(store, number % 7, form("lists", [number]))
        store.flush()
        most = max(most, len(store.chunks()["t"]))
    assert most <= 80
    assert [row[0] for row in content(store)] == list(range(3000))


def test_snapshot_is_of_its_moment() -> None:
    store = Store([TABLE])
    put(store, 1, form("lists", [1, 2]))
    store.flush()
    early = store.snapshot()
    store.forget([1])
    put(store, 2, form("lists", [3]))
    store.flush()
    assert early("t").height == 2 and store.snapshot()("t").height == 1
    with pytest.raises(KeyError):
        early("nothing")


def test_rows_that_no_frame_can_be_made_of_are_named() -> None:
    store = Store([TABLE])
    put(store, 1, form("lists", [1]))
    put(store, 2, {"t": {"a": [object()], "b": ["x"]}})
    put(store, 3, form("lists", [3]))
    assert set(store.flush()) == {2}
    assert [row[2] for row in content(store)] == [1, 3]


def test_declared_tables() -> None:
    other = Table("t", "", (Column("a", pl.String, ""),))
    with pytest.raises(ValueError, match="differ"):
        Store([TABLE, other])
    with pytest.raises(ValueError, match="file"):
        Store([Table("u", "", (Column("file", pl.UInt32, ""),))])
    with pytest.raises(BadRows):
        Store([TABLE]).check({"t": {"a": [1], "b": []}})
