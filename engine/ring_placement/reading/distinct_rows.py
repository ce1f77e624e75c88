"""The distinct rows of a frame and, for each row, the number of its distinct one: faster than a join for many rows."""

from __future__ import annotations

import numpy as np
import polars as pl

_SCATTER = np.uint64(0x9E3779B97F4A7C15)
"""An odd multiplier that carries every bit upwards (2^64 over the golden ratio)."""
_SLOT_BITS = 21
"""Binary logarithm of the largest table of slots (16 MiB, about a processor's cache)."""


def distinct_rows(frame: pl.DataFrame) -> tuple[pl.DataFrame, np.ndarray]:
    """Return the distinct rows of ``frame``, sorted, and for each row the number (int32) of its distinct one."""
    columns = frame.columns
    if not frame.height:
        return frame, np.empty(0, dtype=np.int32)
    # Comparing one number is cheaper than comparing texts. Equal numbers of different rows are possible, so look.
    leader = _leaders(_row_hashes(frame))
    leaders = pl.Series(leader.astype(np.uint32))
    if not all(frame.select(pl.col(c).gather(leaders).eq_missing(pl.col(c)).all() for c in columns).row(0)):
        leader = frame.with_row_index("at").select(pl.col("at").first().over(columns))["at"].to_numpy().astype(np.int64)
    leads = np.zeros(frame.height, dtype=bool)
    leads[leader] = True
    first = np.flatnonzero(leads)
    distinct = frame[pl.Series(first.astype(np.uint32))]
    order = distinct.select(pl.arg_sort_by(columns, nulls_last=True)).to_series()
    number = np.empty(frame.height, dtype=np.int32)
    number[first[order.to_numpy()]] = np.arange(distinct.height, dtype=np.int32)
    return distinct[order], number[leader]


def _row_hashes(frame: pl.DataFrame) -> np.ndarray:
    """Hash each row (uint64): equal rows have equal numbers, which are not stable between processes."""
    rows = np.zeros(frame.height, dtype=np.uint64)
    for column in frame.select(pl.all().hash()).iter_columns():
        rows = (rows ^ column.to_numpy()) * _SCATTER
    return rows


def _leaders(hashes: np.ndarray) -> np.ndarray:
    """Return for each of ``hashes`` (uint64) the index (int64) of an equal one, the same index for all equal ones.

    Every hash writes its index into a slot of a table and reads which index stayed there; those that read the index of
    another hash are tried again with other bits. Where few are distinct that is much less work than sorting or hashing.
    """
    bits = min(max(len(hashes).bit_length() + 1, 8), _SLOT_BITS)
    slots = np.empty(1 << bits, dtype=np.int64)
    out = left = np.arange(len(hashes))
    left_hashes = state = hashes
    while len(left):
        # A signed view, not a copy: indexing by what NumPy indexes with itself is several times faster.
        at = (state >> np.uint64(64 - bits)).view(np.int64)
        slots[at] = left
        winner = slots[at]
        if left is out:
            out = winner
        else:
            out[left] = winner
        again = np.flatnonzero(hashes[winner] != left_hashes)
        left, left_hashes, state = left[again], left_hashes[again], state[again]
        state = (state ^ (state >> np.uint64(29))) * _SCATTER
    return out
