"""Partial results: an update gives the same as computing everything, whatever came before."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.incremental import FramePartials, Memo, Partials

STAMPS = st.dictionaries(st.integers(0, 9), st.integers(0, 3))


def test_a_value_is_made_once_per_key() -> None:
    memo, calls = Memo(), list[int]()

    def value(key: int, keep: int = 1) -> int:
        return memo.value("square", key, lambda: calls.append(key) or key * key, keep)

    assert [value(k) for k in (2, 2, 3, 2)] == [4, 4, 9, 4] and calls == [2, 3, 2]
    calls.clear()
    assert [value(k, 2) for k in (3, 2, 3, 4, 3, 2)] == [9, 4, 9, 16, 9, 4]
    assert calls == [3, 4, 2], "the least recently used key goes first"


def test_a_failed_make_is_not_kept() -> None:
    memo = Memo()
    with pytest.raises(ZeroDivisionError):
        memo.value("x", 1, lambda: 1 // 0)
    assert memo.value("x", 1, lambda: 7) == 7
    assert memo.state("list", list) is memo.state("list", list)


@given(st.lists(st.tuples(STAMPS, st.integers(0, 1)), max_size=6))
def test_partials_equal_a_fresh_computation(steps: list[tuple[dict[int, int], int]]) -> None:
    partials: Partials[int, tuple[int, int, int]] = Partials()
    before: dict[int, tuple[int, int, int]] = {}
    for stamps, key in steps:
        asked: list[int] = []

        def compute(groups: Collection[int], s: dict[int, int] = stamps, k: int = key, a: list[int] = asked):  # type: ignore[no-untyped-def]
            a.extend(groups)
            return {group: (group, s[group], k) for group in groups}

        revisions = dict(partials.revisions)
        delta = partials.update(stamps, compute, key=key)
        expected = {group: (group, stamp, key) for group, stamp in stamps.items()}
        assert dict(partials) == expected and list(partials) == list(stamps) and len(partials) == len(stamps)
        assert set(asked) == delta.changed and len(asked) == len(delta.changed)
        assert {g for g in expected if before.get(g) != expected[g]} <= delta.changed
        assert delta.removed == before.keys() - stamps.keys()
        assert {g for g in stamps if partials.revisions[g] != revisions.get(g)} == delta.changed
        before = expected


def test_partials_stay_when_computing_fails() -> None:
    partials: Partials[str, int] = Partials()
    partials.update({"a": 1}, lambda groups: {"a": 5})
    with pytest.raises(RuntimeError):
        partials.update({"a": 2, "b": 1}, _fail)
    assert dict(partials) == {"a": 5}
    assert partials.update({"a": 1}, _fail).changed == frozenset()


def _fail(groups: Collection[str]) -> dict[str, int]:
    raise RuntimeError


@given(st.lists(STAMPS, max_size=6))
def test_frames_equal_a_fresh_computation(steps: list[dict[int, int]]) -> None:
    partials: FramePartials[int] = FramePartials("group")
    for stamps in steps:

        def rows(groups: Collection[int], s: dict[int, int] = stamps) -> dict[str, pl.DataFrame]:
            listed = [(g, n) for g in groups for n in range(s[g])]
            return {"rows": pl.DataFrame(listed, schema={"group": pl.Int64, "n": pl.Int64}, orient="row")}

        partials.update(stamps, rows)
        if stamps or partials.revisions:
            assert partials.frame("rows").equals(rows(stamps)["rows"])
