"""The placements table: one row per key, or per (dataset, offset) where the keys carry no fingerprint."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from engine.ring_placement import tables
from engine.ring_placement.keys import FINGERPRINT, Placement
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.state import Scenario, remember
from engine.ring_placement.subrings import TRIES, first_distinct


def _rows(placement: Placement, limit: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None, int]:
    """Dataset row, offset, weight and fingerprint (None: no key has one; where a row has none, see the mask in the
    fourth) of the rows to list, the largest loads first chosen, and how many there are in all."""
    keys = placement.keys
    total = placement.ranges.total
    printed = keys.row_kind == FINGERPRINT
    if total <= 0 or not printed.any():
        groups = placement.groups
        rows, offsets, weight = groups.rows.astype(np.int64), groups.offsets, groups.weight
        prints = None
        count = len(rows)
        if total <= 0:
            rows = np.unique(keys.row_dataset).astype(np.int64)
            offsets, weight, count = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64), len(rows)
    else:
        size = np.maximum(placement.ranges.dataset_size, 1)
        at = np.flatnonzero(printed)
        rows, value, weight = keys.row_dataset[at].astype(np.int64), keys.row_value[at], keys.row_weight[at]
        single = ~keys.spread[rows] | (size[rows] == 1)
        offsets = np.where(single, (value % size[rows].astype(np.uint64)).astype(np.int64), 0)
        if not single.all():
            # A key of a dataset that picks at random has a share in every offset.
            many = np.where(single, 1, size[rows])
            share = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
            split = np.repeat(weight // many if weight.dtype.kind != "f" else weight / many, many)
            if weight.dtype.kind != "f":
                split = split + (share < np.repeat(weight % many, many))
            offsets = np.where(np.repeat(single, many), np.repeat(offsets, many), share)
            rows, value, weight = np.repeat(rows, many), np.repeat(value, many), split
        prints = value
        if not printed.all():
            others = np.flatnonzero(~printed)
            rest = type(keys)(
                keys.tenants, keys.names, keys.tenant_of, keys.tenant_hash, keys.name_hash, keys.tenant_limit,
                keys.dataset_limit, keys.spread, keys.row_dataset[others], keys.row_kind[others],
                keys.row_value[others], keys.row_weight[others], keys.limit, keys.pinned, keys.pinned_total,
            ).fold(placement.ranges)  # fmt: skip
            rows = np.concatenate((rows, rest.rows.astype(np.int64)))
            offsets, weight = np.concatenate((offsets, rest.offsets)), np.concatenate((weight, rest.weight))
            # Masked: fingerprints of the folded rows do not exist.
            return _largest(rows, offsets, weight, np.ma.masked_array(
                np.concatenate((prints, np.zeros(len(rest.rows), dtype=np.uint64))),
                mask=np.concatenate((np.zeros(len(prints), dtype=bool), np.ones(len(rest.rows), dtype=bool)))),
                limit)  # fmt: skip
        return _largest(rows, offsets, weight, prints, limit)
    return _largest(rows, offsets, weight, prints, limit) if count else (rows, offsets, weight, prints, 0)


def _largest(
    rows: np.ndarray, offsets: np.ndarray, weight: np.ndarray, prints: np.ndarray | None, limit: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None, int]:
    count = len(rows)
    if count > limit:
        keep = np.sort(np.argpartition(-weight.astype(np.float64), limit)[:limit]) if limit else np.empty(0, np.int64)
        rows, offsets, weight = rows[keep], offsets[keep], weight[keep]
        prints = None if prints is None else prints[keep]
    return rows, offsets, weight, prints, count


def _static(s: Scenario, limit: int, relaid: Placement) -> tuple[pl.DataFrame, np.ndarray, np.ndarray, int]:
    rows, offsets, weight, prints, count = _rows(relaid, limit)
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
    columns = []
    for k in range(TRIES):
        at = chain[:, k]
        text = ids.gather(pl.Series(np.maximum(at, 0).astype(np.uint32)))
        columns.append(pl.select(pl.when(pl.Series(at >= 0)).then(text).alias(f"c{k}")).to_series())
    lists = pl.DataFrame(columns).select(
        pl.concat_list(pl.all()).list.drop_nulls().alias("candidates")
    )["candidates"] if len(rows) else pl.Series("candidates", [], dtype=pl.List(pl.String))  # fmt: skip
    what_if = relaid.keys.tenant_limit is not s.live.keys.tenant_limit or (
        relaid.keys.dataset_limit is not s.live.keys.dataset_limit
    )
    if old.ring.total and len(rows):
        size = np.maximum(old.ranges.dataset_size[rows], 1)
        earlier = offsets % size
        if prints is not None:
            plain = np.ma.getdata(prints)
            printed = ~np.ma.getmaskarray(prints)
            use = printed & ~keys.spread[rows]
            earlier = np.where(use, (plain % size.astype(np.uint64)).astype(np.int64), earlier)
        old_position = old.ranges.positions(rows, earlier)
        old_ids = pl.Series(list(old.ring.ids), dtype=pl.String)
        was = old_ids.gather(pl.Series(old.ring.owner[old_position].astype(np.uint32)))
        shard_was: Any = pl.Series(old_position + 1)
    else:
        was, shard_was = none, pl.Series([None] * len(rows), dtype=pl.Int64)
    frame = named.with_columns(
        _hex(prints, len(rows)).alias("fingerprint"),
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
    return frame.drop("row"), order, chain[order], count


def _hex(prints: np.ndarray | None, count: int) -> pl.Series:
    if prints is None:
        return pl.Series([None] * count, dtype=pl.String)
    plain = np.ma.getdata(prints)
    missing = np.ma.getmaskarray(prints)
    return pl.Series(
        [None if m else f"{v:016x}" for v, m in zip(plain.tolist(), missing.tolist(), strict=True)], dtype=pl.String
    )


def placements(s: Scenario, p: RingParameters, memo: dict[Any, Any], notes: list[str]) -> pl.DataFrame:
    """Rows of the table in the scenario's ring. What does not depend on the failing set is kept from last time."""
    relaid = s.after if s.after.ring is not s.mid.ring else s.mid
    key = (s.mid_key, s.down if relaid is s.after else (), p.placement_rows, s.before is s.live.placement)
    frame, _, chain, count = remember(memo, "placements", key, lambda: _static(s, p.placement_rows, relaid))
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
