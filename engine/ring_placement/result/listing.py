"""The placements table: one row per key, or per (dataset, offset) where the keys carry no fingerprint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from engine.ring_placement import tables
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.keys import FINGERPRINT, Placement
from engine.ring_placement.pyroscope.subrings import TRIES, first_distinct
from engine.ring_placement.scenarios.scenario_state import Scenario, remember


@dataclass(frozen=True, eq=False)
class _Listed:
    """Rows to list: dataset row, offset, weight, fingerprint with a mask of where there is one; ``count`` of all."""

    rows: np.ndarray
    offsets: np.ndarray
    weight: np.ndarray
    prints: np.ndarray
    printed: np.ndarray
    count: int


def _largest(weight: np.ndarray, limit: int) -> np.ndarray:
    """Indices of the ``limit`` largest weights, in their order."""
    if len(weight) <= limit:
        return np.arange(len(weight))
    if not limit:
        return np.empty(0, dtype=np.int64)
    few = np.arange(len(weight))
    if len(weight) > 8 * limit:
        # A sample tells a bound that most entries are below, so that only the rest has to be partitioned.
        sample = weight[:: max(1, len(weight) // 100_000)]
        share = 2 * limit / len(weight)
        bound = np.partition(sample, -int(share * len(sample)) - 1)[-int(share * len(sample)) - 1]
        above = np.flatnonzero(weight >= bound)
        few = above if len(above) >= limit else few
    return np.sort(few[np.argpartition(-weight[few], limit - 1)[:limit]])


def _rows(placement: Placement, limit: int) -> _Listed:
    """Key rows with a fingerprint one by one, all others folded to (dataset, offset); the largest loads are kept."""
    keys = placement.keys
    total = placement.ranges.total
    printed = keys.row_kind == FINGERPRINT
    size = np.maximum(placement.ranges.dataset_size, 1)
    pieces: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, bool]] = []
    count = 0
    if printed.any():
        # Which rows are the largest depends on nothing that a scenario changes.
        count += int(printed.sum())
        cached = keys.shared.get(("largest", limit))
        if cached is None:
            at = np.flatnonzero(printed)
            cached = keys.shared["largest", limit] = at[_largest(keys.row_weight[at], limit)]
        at = cached
        rows, value, weight = keys.row_dataset[at].astype(np.int64), keys.row_value[at], keys.row_weight[at]
        # A key of a dataset that picks at random has a share in every offset.
        many = np.where(keys.spread[rows], size[rows], 1)
        share = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        if weight.dtype.kind == "f":
            split = np.repeat(weight / many, many)
        else:
            split = np.repeat(weight // many, many) + (share < np.repeat(weight % many, many))
        rows, value = np.repeat(rows, many), np.repeat(value, many)
        picked = (value % size[rows].astype(np.uint64)).astype(np.int64)
        pieces.append((rows, np.where(keys.spread[rows], share, picked), split, value, True))
    if not printed.all() or not len(printed):
        others = np.flatnonzero(~printed)
        if total <= 0:
            rows = np.unique(keys.row_dataset[others]).astype(np.int64)
            nothing = np.zeros(len(rows), dtype=np.int64)
            pieces.append((rows, nothing, nothing, nothing.astype(np.uint64), False))
            count += len(rows)
        else:
            groups = placement.groups
            if printed.any():
                some = {n: getattr(keys, n)[others] for n in ("row_dataset", "row_kind", "row_value", "row_weight")}
                groups = replace(keys, **some).fold(placement.ranges)
            at = _largest(groups.weight, limit)
            count += len(groups.rows)
            rows = groups.rows[at].astype(np.int64)
            pieces.append((rows, groups.offsets[at], groups.weight[at], np.zeros(len(at), dtype=np.uint64), False))
    rows, offsets, weight, value = (np.concatenate([piece[k] for piece in pieces]) for k in range(4))
    flag = np.concatenate([np.full(len(piece[0]), piece[4]) for piece in pieces])
    keep = _largest(weight, limit)
    return _Listed(rows[keep], offsets[keep], weight[keep], value[keep], flag[keep], count)


def _static(s: Scenario, limit: int, relaid: Placement) -> tuple[pl.DataFrame, np.ndarray, int]:
    listed = _rows(relaid, limit)
    rows, offsets, weight = listed.rows, listed.offsets, listed.weight
    keys, ring, old = relaid.keys, relaid.ring, s.before
    texts = s.live.texts
    index = pl.Series(rows.astype(np.uint32))
    named = texts.select(pl.col("tenant", "dataset", "limits_from").gather(index))
    ids = pl.Series(list(ring.ids) or [""], dtype=pl.String)
    none = pl.Series([None] * len(rows), dtype=pl.String)
    chain = first_distinct(relaid.ranges, rows, offsets, ring.owner, ring.active, TRIES)
    if ring.total:
        position = relaid.ranges.positions(rows, offsets)
        owner = ids.gather(pl.Series(ring.owner[position].astype(np.uint32)))
        shard = pl.Series(position + 1)
    else:
        owner, shard = none, pl.Series(np.zeros(len(rows), dtype=np.int64))
    ids = pl.Series([*ring.ids, None], dtype=pl.String)
    flat = ids.gather(pl.Series(np.where(chain < 0, len(ring.ids), chain).ravel().astype(np.uint32)))
    lists = flat.reshape((len(rows), TRIES)).arr.to_list() if len(rows) else pl.Series([], dtype=pl.List(pl.String))
    if len(rows) and chain.min() < 0:
        lists = lists.list.drop_nulls()
    what_if = relaid.keys.tenant_limit is not s.live.keys.tenant_limit or (
        relaid.keys.dataset_limit is not s.live.keys.dataset_limit
    )
    if old.ring.total and len(rows):
        size = np.maximum(old.ranges.dataset_size[rows], 1)
        use = listed.printed & ~keys.spread[rows]
        earlier = np.where(use, (listed.prints % size.astype(np.uint64)).astype(np.int64), offsets % size)
        old_position = old.ranges.positions(rows, earlier)
        old_ids = pl.Series(list(old.ring.ids), dtype=pl.String)
        was = old_ids.gather(pl.Series(old.ring.owner[old_position].astype(np.uint32)))
        shard_was: Any = pl.Series(old_position + 1)
    else:
        was, shard_was = none, pl.Series([None] * len(rows), dtype=pl.Int64)
    frame = named.with_columns(
        _hex(listed).alias("fingerprint"),
        pl.Series("tenant_shards", keys.tenant_limit[rows]),
        pl.Series("dataset_shards", keys.dataset_limit[rows]),
        pl.Series("offset", offsets),
        shard.alias("shard"),
        owner.alias("instance"),
        lists.alias("candidates"),
        pl.Series("bytes_per_s", np.rint(weight).astype(np.int64)),
        (pl.lit("what-if") if what_if else pl.col("limits_from")).alias("limits_from"),
        shard_was.alias("shard_before"),
        was.alias("instance_before"),
    ).with_row_index("row")
    frame = frame.sort(["tenant", "dataset", "fingerprint", "offset", "shard", "row"], nulls_last=True)
    order = frame["row"].to_numpy().astype(np.int64)
    return frame.drop("row"), chain[order], listed.count


def _hex(listed: _Listed) -> pl.Series:
    texts = [
        f"{v:016x}" if known else None for v, known in zip(listed.prints.tolist(), listed.printed.tolist(), strict=True)
    ]
    return pl.Series(texts, dtype=pl.String)


def placements(s: Scenario, p: RingParameters, memo: dict[Any, Any], notes: list[str]) -> pl.DataFrame:
    """Rows of the table in the scenario's ring. What does not depend on the failing set is kept from last time."""
    relaid = s.after if s.after.ring is not s.mid.ring else s.mid
    key = (s.mid_key, s.down if relaid is s.after else (), p.placement_rows, s.before is s.live.placement)
    frame, chain, count = remember(memo, "placements", key, lambda: _static(s, p.placement_rows, relaid))
    if count > frame.height:
        notes.append(f"placements lists the {frame.height} largest of {count} rows; -o placement-rows= changes that")
    down = set(s.down) if relaid is s.mid and p.regime == "transient" else set()
    failed = np.array([i in down for i in relaid.ring.ids] + [False], dtype=bool)
    taker = np.full(len(chain), -1, dtype=np.int64)
    open_ = np.arange(len(chain))
    for k in range(chain.shape[1]):
        node = chain[open_, k]
        good = (node >= 0) & ~failed[node]
        taker[open_[good]] = node[good]
        open_ = open_[~good & (node >= 0)]
        if not len(open_):
            break
    ids = pl.Series([*relaid.ring.ids, None], dtype=pl.String)
    stored = ids.gather(pl.Series(np.where(taker < 0, len(relaid.ring.ids), taker).astype(np.uint32)))
    return tables.PLACEMENTS.frame(frame.with_columns(stored.alias("stored_by")))
