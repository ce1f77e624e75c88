"""Result table of keys: where each goes.

Of segment writers a row is a key, or a (dataset, offset) of keys without a fingerprint; of rings with replicas a token.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from engine.core.incremental import Memo
from engine.ring_placement import tables
from engine.ring_placement.dskit.token_ring import SPACE
from engine.ring_placement.insight.holders import (
    answers_of,
    takers,
)
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.hashing import hex16
from engine.ring_placement.pyroscope.placement import FINGERPRINT, Keys, Placement, spread_evenly
from engine.ring_placement.pyroscope.ring import Ring
from engine.ring_placement.pyroscope.subrings import TRIES, first_distinct
from engine.ring_placement.scenarios.scenario_state import (
    KEEP,
    ReplicatedScenario,
    SegmentScenario,
    SegmentState,
    segment_load,
)

_AT_ONCE = 1 << 20
"""Keys searched for the largest at a time: there may be millions."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows to list: dataset (index), offset, weight, fingerprint (uint64) and whether there is one."""

    datasets: np.ndarray
    offsets: np.ndarray
    weight: np.ndarray
    fingerprints: np.ndarray
    has_fingerprint: np.ndarray


def segment_placements(s: SegmentScenario, p: RingParameters, memo: Memo, notes: list[str]) -> pl.DataFrame:
    """Build table ``placements`` of the scenario's ring; a note is added to ``notes`` if rows are left out.

    Columns that do not depend on the failing set come from the memo.
    """
    placement = s.after if s.after.ring is not s.planned.ring else s.planned
    key = (s.planned_key, s.down if placement is s.after else (), p.placement_rows, s.before is s.live.placement)
    frame, candidates, count = memo.value(
        "placements", key, lambda: _before_failure(s, p.placement_rows, placement, memo), keep=KEEP
    )
    if count > frame.height:
        notes.append(f"placements lists the {frame.height} largest of {count} rows; -o placement-rows= changes that")
    down = set(s.down) if placement is s.planned and p.regime == "transient" else set()
    taken = placement.ring.names(takers(placement, candidates, down))
    return tables.PLACEMENTS.frame(frame.with_columns(taken.alias("stored_by")))


def _before_failure(
    s: SegmentScenario, limit: int, placement: Placement, memo: Memo
) -> tuple[pl.DataFrame, np.ndarray, int]:
    """Build the columns that do not depend on who fails.

    Returns the frame in its final order, the candidates of each row (int32, shape (rows, TRIES)), and the number of rows
    there are without ``limit``.
    """
    rows, count = _largest_rows(s.live, placement, limit, memo)
    datasets, offsets, keys, ring = rows.datasets, rows.offsets, placement.keys, placement.ring
    candidates = first_distinct(placement.ranges, datasets, offsets, ring.owner, ring.active, TRIES)
    position, owner = _owners(placement, datasets, offsets)
    old_position, old_owner = _owners(s.before, datasets, _offsets_before(s.before, rows, keys))
    what_if = (
        keys.tenant_limit is not segment_load(s.live).keys.tenant_limit
        or keys.dataset_limit is not segment_load(s.live).keys.dataset_limit
    )
    texts = segment_load(s.live).texts.select(
        pl.col("tenant", "dataset", "limits_from").gather(pl.Series(datasets.astype(np.uint32)))
    )
    frame = texts.with_columns(
        _hex(rows).alias("fingerprint"),
        pl.Series("tenant_shards", keys.tenant_limit[datasets]),
        pl.Series("dataset_shards", keys.dataset_limit[datasets]),
        pl.Series("offset", offsets),
        position.fill_null(-1).alias("shard") + 1,
        owner.alias("instance"),
        _candidate_lists(ring, candidates).alias("candidates"),
        pl.Series("bytes_per_s", np.rint(rows.weight).astype(np.int64)),
        (pl.lit("what-if") if what_if else pl.col("limits_from")).alias("limits_from"),
        (old_position + 1).alias("shard_before"),
        old_owner.alias("instance_before"),
    ).with_row_index("row")
    frame = frame.sort(["tenant", "dataset", "fingerprint", "offset", "shard", "row"], nulls_last=True)
    return frame.drop("row"), candidates[frame["row"].to_numpy().astype(np.int64)], count


def _owners(placement: Placement, datasets: np.ndarray, offsets: np.ndarray) -> tuple[pl.Series, pl.Series]:
    """Return shard position and owner's ID of each (dataset, offset), null on a ring without shards."""
    ring = placement.ring
    if not ring.total or not len(datasets):
        return (pl.Series([None] * len(datasets), dtype=dtype) for dtype in (pl.Int64, pl.String))  # type: ignore[return-value]
    position = placement.ranges.positions(datasets, offsets)
    return pl.Series(position), ring.names(ring.owner[position])


def _offsets_before(before: Placement, rows: _Rows, keys: Keys) -> np.ndarray:
    """Return the offset of each row in the ranges of ``before``, whose size may differ."""
    size = np.maximum(before.ranges.dataset_size[rows.datasets], 1)
    by_fingerprint = rows.has_fingerprint & ~keys.round_robin[rows.datasets]
    picked = (rows.fingerprints % size.astype(np.uint64)).astype(np.int64)
    return np.where(by_fingerprint, picked, rows.offsets % size)


def _candidate_lists(ring: Ring, candidates: np.ndarray) -> pl.Series:
    """Return the IDs of each row's candidates as a list column."""
    if not len(candidates):
        return pl.Series([], dtype=pl.List(pl.String))
    lists = ring.names(candidates.ravel()).reshape((len(candidates), TRIES)).arr.to_list()
    return lists.list.drop_nulls() if candidates.min() < 0 else lists


def _hex(rows: _Rows) -> pl.Series:
    texts = [
        hex16(value) if known else None
        for value, known in zip(rows.fingerprints.tolist(), rows.has_fingerprint.tolist(), strict=True)
    ]
    return pl.Series(texts, dtype=pl.String)


def _largest_rows(live: SegmentState, placement: Placement, limit: int, memo: Memo) -> tuple[_Rows, int]:
    """Choose the ``limit`` rows with the largest loads: key rows with a fingerprint one by one, all others folded to
    (dataset, offset). Returns them, and the number of all rows."""
    keys = placement.keys
    has_fingerprint = keys.row_kind == FINGERPRINT
    parts = []
    count = 0
    if has_fingerprint.any():
        count += int(has_fingerprint.sum())

        def choose() -> np.ndarray:
            found = []
            for begin in range(0, len(has_fingerprint), _AT_ONCE):
                at = begin + np.flatnonzero(has_fingerprint[begin : begin + _AT_ONCE])
                found.append(at[largest(keys.row_weight[at], limit)])
            candidates = np.concatenate(found)
            return candidates[largest(keys.row_weight[candidates], limit)]

        # No scenario changes which rows are the largest.
        at = memo.value("largest rows", (live.key, limit), choose, keep=KEEP)
        parts.append(_fingerprint_rows(placement, at))
    if not has_fingerprint.all() or not len(has_fingerprint):
        folded, folded_count = _folded_rows(placement, np.flatnonzero(~has_fingerprint), limit)
        parts.append(folded)
        count += folded_count
    names = ("datasets", "offsets", "weight", "fingerprints", "has_fingerprint")
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    keep = largest(columns["weight"], limit)
    return _Rows(**{name: values[keep] for name, values in columns.items()}), count


def _fingerprint_rows(placement: Placement, at: np.ndarray) -> _Rows:
    """Return the key rows ``at``; a row of a dataset that picks at random has a share in every offset."""
    keys = placement.keys
    datasets, fingerprints = keys.row_dataset[at].astype(np.int64), keys.row_value[at]
    size = np.maximum(placement.ranges.dataset_size, 1)
    shares = np.where(keys.round_robin[datasets], size[datasets], 1)
    row, share, weight = spread_evenly(np.arange(len(at)), keys.row_weight[at], shares)
    datasets, fingerprints = datasets[row], fingerprints[row]
    picked = (fingerprints % size[datasets].astype(np.uint64)).astype(np.int64)
    offsets = np.where(keys.round_robin[datasets], share, picked)
    return _Rows(datasets, offsets, weight, fingerprints, np.full(len(row), True))


def _folded_rows(placement: Placement, others: np.ndarray, limit: int) -> tuple[_Rows, int]:
    """Return the largest (dataset, offset) groups of the key rows ``others``, and the number of all."""
    keys = placement.keys
    if placement.ranges.total <= 0:
        datasets = np.unique(keys.row_dataset[others]).astype(np.int64)
        zeros = np.zeros(len(datasets), dtype=np.int64)
        return _Rows(datasets, zeros, zeros, zeros.astype(np.uint64), zeros > 0), len(datasets)
    groups = placement.groups
    if len(others) < len(keys.row_kind):
        columns = {name: getattr(keys, name)[others] for name in ("row_dataset", "row_kind", "row_value", "row_weight")}
        groups = replace(keys, **columns).fold(placement.ranges)
    at = largest(groups.weight, limit)
    rows = _Rows(
        groups.datasets[at].astype(np.int64), groups.offsets[at], groups.weight[at],
        np.zeros(len(at), dtype=np.uint64), np.zeros(len(at), dtype=bool),
    )  # fmt: skip
    return rows, len(groups.datasets)


def largest(weight: np.ndarray, limit: int) -> np.ndarray:
    """Return the indices of the ``limit`` largest weights, ascending."""
    if len(weight) <= limit:
        return np.arange(len(weight))
    if not limit:
        return np.empty(0, dtype=np.int64)
    return np.sort(np.argpartition(-weight, limit - 1)[:limit])


def replica_placements(s: ReplicatedScenario, p: RingParameters, notes: list[str]) -> pl.DataFrame:
    """Build table ``placements``: the replica set of each key in the scenario. Equal keys of a tenant are one row."""
    after, tenants = s.after, s.after.tenants
    code = tenants.key_tenant * SPACE + tenants.key_token
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    weight = np.bincount(inverse, tenants.key_weight, len(first))
    if len(first) > p.placement_rows:
        keep = np.sort(np.argsort(-weight, kind="stable")[: p.placement_rows])
        notes.append(f"placements lists the {len(keep)} largest of {len(first)} keys; -o placement-rows= changes that")
        first, weight = first[keep], weight[keep]
    row = after.rows.key_row[first]
    answer = answers_of(s, np.unique(row))
    frame = pl.DataFrame({
        "tenant": pl.Series(tenants.names, dtype=pl.String).gather(pl.Series(tenants.key_tenant[first].astype(np.uint32))),
        "token": tenants.key_token[first],
        "bytes_per_s": np.rint(weight).astype(np.int64),
        "row": row,
    })  # fmt: skip
    frame = frame.join(answer, on="row", how="left", maintain_order="left").drop("row")
    return tables.PLACEMENTS.sorted(tables.PLACEMENTS.frame(frame))
