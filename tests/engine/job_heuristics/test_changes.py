"""Frames of all jobs that take the new rows of a few, and what is known to have changed."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.job_heuristics.model.changes import Changes, rows_of, spliced

NAMES = [f"job_{n}" for n in range(24)]


def rows(counts: dict[str, int], mark: str, order: list[str]) -> pl.DataFrame:
    names = [job for job in order for _ in range(counts.get(job, 0))]
    return pl.DataFrame(
        {"job_id": names, "value": [f"{mark}{n}" for n in range(len(names))]},
        schema={"job_id": pl.String, "value": pl.String},
    )


@settings(deadline=None, max_examples=60)
@given(
    st.permutations(NAMES),
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3)),
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3)),
)
def test_spliced_is_a_plain_replacement(order: list[str], before: dict[str, int], after: dict[str, int]) -> None:
    old, new = rows(before, "old", order), rows(after, "new", order)
    made = spliced(old, new, frozenset(after), {job: k for k, job in enumerate(order)})
    parts = [(new if job in after else old).filter(pl.col("job_id") == job) for job in order]
    assert made.equals(pl.concat(parts))


@settings(deadline=None, max_examples=60)
@given(st.permutations(NAMES), st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3)), st.booleans())
def test_rows_of_a_job_are_found_in_any_order(order: list[str], counts: dict[str, int], ordered: bool) -> None:
    table = rows(counts, "", order)
    place = {job: k for k, job in enumerate(order if ordered else NAMES)}
    for job in (*NAMES, "job_unknown"):
        begin, end = rows_of(table["job_id"], job, place)
        assert table.slice(begin, end - begin).equals(table.filter(pl.col("job_id") == job))


def test_a_job_that_moves_is_put_where_it_belongs() -> None:
    old = rows(dict.fromkeys(NAMES[:4], 2), "old", NAMES[:4])
    order = [NAMES[1], NAMES[2], NAMES[0], NAMES[3]]
    new = rows({NAMES[0]: 1}, "new", order)
    made = spliced(old, new, frozenset({NAMES[0]}), {job: k for k, job in enumerate(order)})
    assert made["job_id"].to_list() == [NAMES[1]] * 2 + [NAMES[2]] * 2 + [NAMES[0]] + [NAMES[3]] * 2


def test_many_splices_keep_few_chunks() -> None:
    order = NAMES[:3]
    held = rows(dict.fromkeys(order, 2), "old", order)
    for turn in range(100):
        one = rows({order[1]: 2}, f"{turn}-", order)
        held = spliced(held, one, frozenset({order[1]}), {job: k for k, job in enumerate(order)})
    assert held.n_chunks() <= 30
    assert held["value"].to_list() == ["old0", "old1", "99-0", "99-1", "old4", "old5"]


def test_changes_since() -> None:
    changes = Changes(7, {5: None, 6: frozenset({"a"}), 7: frozenset({"b"})})
    assert changes.since(7) == frozenset()
    assert changes.since(6) == {"b"}
    assert changes.since(5) == {"a", "b"}
    assert changes.since(4) is None, "with generation 5 everything changed"
    assert changes.since(2) is None, "no longer known"
    assert changes.since(None) is None
    assert changes.since(8) is None
