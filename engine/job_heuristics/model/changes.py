"""What changed between two assemblies of the model, and how a result frame of all jobs takes the rows of a few."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise

import polars as pl

_FEW = 16
"""Up to so many changed jobs are put in one by one."""
_CHUNKS = 24
"""A frame of more chunks is made one again."""


@dataclass(frozen=True)
class Changes:
    """Generation of a model, and which jobs changed with each of the last generations (None: all of them)."""

    generation: int
    log: Mapping[int, frozenset[str] | None] = field(default_factory=dict, repr=False)

    def since(self, generation: int | None) -> frozenset[str] | None:
        """Jobs that changed, came or went after ``generation``; None: not known, take all for changed."""
        if generation is None or generation > self.generation:
            return None
        touched: frozenset[str] = frozenset()
        for step in range(generation + 1, self.generation + 1):
            found = self.log.get(step)
            if found is None:
                return None
            touched |= found
        return touched


def spliced(old: pl.DataFrame, new: pl.DataFrame, touched: frozenset[str], place: Mapping[str, int]) -> pl.DataFrame:
    """``old`` without the rows of ``touched`` and with those of ``new``, jobs in the order of their ``place``.

    Rows of one job lie together in both, and the other jobs are in that order already. Few jobs that keep their place
    are replaced where they are: the rest is shared, not copied.
    """
    if not touched:
        return old
    if len(touched) <= _FEW:
        made = _in_place(old, new, touched, place)
        if made is not None:
            return made
    old = old.filter(~pl.col("job_id").is_in(pl.Series(sorted(touched)).implode()))
    both = pl.concat([old, new])
    order = pl.DataFrame(
        {"job_id": list(place), "place": list(place.values())}, schema={"job_id": pl.String, "place": int}
    )
    return (
        both.join(order, on="job_id", how="left", maintain_order="left")
        .sort("place", maintain_order=True)
        .drop("place")
    )


def _in_place(
    old: pl.DataFrame, new: pl.DataFrame, touched: frozenset[str], place: Mapping[str, int]
) -> pl.DataFrame | None:
    """None where a job has new rows and no old ones, or comes to another place."""
    names, fresh = old["job_id"], new["job_id"]
    cuts: list[tuple[int, int, pl.DataFrame]] = []
    for job in touched:
        begin, end = rows_of(names, job, place)
        first, last = (0, new.height) if len(touched) == 1 else _run(fresh, job)
        if begin == end:
            if first < last:
                return None
            continue
        cuts.append((begin, end, new.slice(first, last - first)))
    parts: list[pl.DataFrame] = []
    at = 0
    for begin, end, rows in sorted(cuts, key=lambda cut: cut[0]):
        parts += [old.slice(at, begin - at), rows]
        at = end
    parts = [part for part in (*parts, old.slice(at)) if part.height]
    for before, after in pairwise(parts):
        if place[before["job_id"][-1]] > place[after["job_id"][0]]:
            return None
    # Not ``concat``, which asks the thread pool: to wake it takes longer than the work.
    made = reduce(pl.DataFrame.vstack, parts or [old.clear()])
    return made.rechunk() if made.n_chunks() > _CHUNKS else made


def rows_of(names: pl.Series, job: str, place: Mapping[str, int]) -> tuple[int, int]:
    """Where the rows of ``job`` begin and end in a column of job ids: by bisection, where the jobs are in the order of
    their place; else by looking at every row. Equal where there are none."""
    try:
        wanted = place[job]
        begin = bisect_left(names, wanted, key=place.__getitem__)
        end = bisect_right(names, wanted, lo=begin, key=place.__getitem__)
    except KeyError:  # a job that is gone
        return _run(names, job)
    return (begin, end) if begin < end and names[begin] == job and names[end - 1] == job else _run(names, job)


def _run(names: pl.Series, job: str) -> tuple[int, int]:
    """As ``rows_of``, by looking at every row."""
    found = (names == job).arg_true()
    return (int(found[0]), int(found[-1]) + 1) if len(found) else (0, 0)
