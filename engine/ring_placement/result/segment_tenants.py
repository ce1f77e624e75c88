"""Result tables of segment writers: tenants, placements (where each key lies), and the rules that Pyroscope writes next."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec.structs import replace

from engine.core.incremental import Memo
from engine.ring_placement import tables
from engine.ring_placement.insight.holders import takers
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.adaptive_placement import (
    BY_FINGERPRINT,
    DEFAULTS,
    ROUND_ROBIN,
    RULES_RETENTION_NS,
    DatasetStats,
    DistributionStats,
    Rule,
    Ruler,
    Rules,
    integer_mean,
    integer_std_dev,
)
from engine.ring_placement.pyroscope.placement import FINGERPRINT, Placement, spread_evenly, weigh
from engine.ring_placement.pyroscope.ring import TRIES, Ring, first_distinct, hex16
from engine.ring_placement.reading.document import columns_of
from engine.ring_placement.scenarios.cluster import Cluster
from engine.ring_placement.scenarios.failover import member_mask
from engine.ring_placement.scenarios.scenario_state import KEEP, SegmentScenario, SegmentState, segment_load

_DENSE = 1 << 23  # most pairs of tenant and member that are marked in one array


def tenant_table(s: SegmentScenario, memo: Memo) -> pl.DataFrame:
    """Build table ``tenants`` of segment writers: load, the nodes that store it, and how many of its nodes are down.

    Columns that do not depend on the failing set come from the memo.
    """
    after = s.after
    laid_out = after if after.ring is not s.planned.ring else s.planned
    key = (s.planned_key, s.down if laid_out is after else ())
    frame = memo.value("tenants", key, lambda: _tenants_before_failure(laid_out), keep=KEEP)
    load = frame["load"].to_numpy()
    if after.ring.total > 0:
        at = np.flatnonzero(after.receivers < 0)
        lost = weigh(_tenants(after, at), after.groups.weight[at].astype(np.float64), frame.height)
        share = np.divide(lost, load, out=np.zeros(frame.height), where=load > 0)
    else:
        lost, share = load, np.ones(frame.height)
    frame = frame.with_columns(
        pl.Series("write_lost_share", share),
        pl.Series("write_lost_load", lost.astype(np.float64)),  # without any row they would be integers
        pl.Series("instances_down", _down(s)),
    )
    if s.live.cluster.ring is None:
        unknown = ("write_lost_share", "write_lost_load", "instances_down")
        frame = frame.with_columns(pl.lit(None).alias(name) for name in unknown)
        frame = tables.TENANTS.frame(frame)
    return tables.TENANTS.sorted(frame)


def _tenants_before_failure(placement: Placement) -> pl.DataFrame:
    """Build the columns that do not depend on who fails, one row per tenant in the order of the keys."""
    keys, groups, count = placement.keys, placement.groups, len(placement.keys.tenants)
    limit = np.zeros(count, dtype=np.int64)
    limit[keys.tenant_of] = keys.tenant_limit
    tenant, weight = keys.tenant_of[groups.datasets], groups.weight
    if placement.ring.total <= 0:
        tenant, weight = keys.tenant_of[keys.row_dataset], keys.row_weight
    frame = pl.DataFrame({
        "number": np.arange(count),
        "tenant": pl.Series(keys.tenants, dtype=pl.String),
        "shard_size": limit,
        "load": weigh(tenant, weight.astype(np.float64), count),
    })  # fmt: skip
    width = max(len(placement.ring.members), 1)
    at = np.flatnonzero(placement.receivers >= 0)
    cells = _distinct(_tenants(placement, at) * width + placement.receivers[at], len(placement.keys.tenants) * width)
    names = pl.Series(placement.ring.ids or [""], dtype=pl.String)
    rows = pl.DataFrame({
        "number": pl.Series(cells // width).set_sorted(),  # grouping sorted numbers takes a tenth of the time
        "instances": names.gather(pl.Series((cells % width).astype(np.uint32))),
    })  # fmt: skip
    frame = frame.join(
        rows.group_by("number", maintain_order=True).agg("instances"), on="number", how="left", maintain_order="left"
    )
    return tables.TENANTS.frame(frame.drop("number"))


def _tenants(placement: Placement, groups: np.ndarray) -> np.ndarray:
    return placement.keys.tenant_of[placement.groups.datasets[groups]].astype(np.int64)


def _distinct(cells: np.ndarray, size: int) -> np.ndarray:
    if size > _DENSE:
        return np.unique(cells)
    found = np.zeros(size, dtype=bool)
    found[cells] = True
    return np.flatnonzero(found)


def _down(s: SegmentScenario) -> np.ndarray:
    """Count for each tenant the members that stored its data before and are down in the scenario."""
    before, count = s.before, len(s.before.keys.tenants)
    gone = {*s.down, *s.leaving, *s.removed} if s.regime != "returned" else set()
    is_gone = np.append(member_mask(before.ring, gone), False)  # the last entry answers for -1
    at = np.flatnonzero(is_gone[before.receivers])
    width = len(is_gone)
    return np.bincount(
        _distinct(_tenants(before, at) * width + before.receivers[at], count * width) // width, minlength=count
    )


_AT_ONCE = 1 << 20  # keys searched for the largest at a time: there may be millions


def placement_table(s: SegmentScenario, p: RingParameters, memo: Memo, notes: list[str]) -> pl.DataFrame:
    """Build table ``placements`` of the scenario's ring; a note is added to ``notes`` if rows are left out.

    Columns that do not depend on the failing set come from the memo.
    """
    placement = s.after if s.after.ring is not s.planned.ring else s.planned
    key = (s.planned_key, s.down if placement is s.after else (), p.placement_rows, s.before is s.live.placement)
    frame, candidates, count = memo.value(
        "placements", key, lambda: _placements_before_failure(s, p.placement_rows, placement, memo), keep=KEEP
    )
    if count > frame.height:
        notes.append(f"placements lists the {frame.height} largest of {count} rows; -o placement-rows= changes that")
    down = set(s.down) if placement is s.planned and p.regime == "transient" else set()
    taken = placement.ring.names(takers(placement, candidates, down))
    return tables.PLACEMENTS.frame(frame.with_columns(taken.alias("stored_by")))


def _placements_before_failure(
    s: SegmentScenario, limit: int, placement: Placement, memo: Memo
) -> tuple[pl.DataFrame, np.ndarray, int]:
    """Build the columns that do not depend on who fails.

    Returns the frame in its final order, the candidates of each row (int32, shape (rows, TRIES)), and the number of rows
    there are without ``limit``.
    """
    rows, count = _largest_rows(s.live, placement, limit, memo)
    datasets, offsets = rows["dataset"].to_numpy(), rows["offset"].to_numpy()
    keys, ring = placement.keys, placement.ring
    candidates = first_distinct(placement.ranges, datasets, offsets, ring.owner, ring.active, TRIES)
    position, owner = _owners(placement, datasets, offsets)
    # The size of the range may have been another one.
    size = np.maximum(s.before.ranges.dataset_size[datasets], 1)
    by_fingerprint = rows["fingerprint"].is_not_null().to_numpy() & ~keys.round_robin[datasets]
    picked = rows["fingerprint"].fill_null(0).to_numpy() % size.astype(np.uint64)
    old_position, old_owner = _owners(
        s.before, datasets, np.where(by_fingerprint, picked.astype(np.int64), offsets % size)
    )
    what_if = (
        keys.tenant_limit is not segment_load(s.live).keys.tenant_limit
        or keys.dataset_limit is not segment_load(s.live).keys.dataset_limit
    )
    texts = segment_load(s.live).texts.select(
        pl.col("tenant", "dataset", "limits_from").gather(pl.Series(datasets.astype(np.uint32)))
    )
    prints = [None if value is None else hex16(value) for value in rows["fingerprint"].to_list()]
    frame = texts.with_columns(
        pl.Series("fingerprint", prints, dtype=pl.String),
        pl.Series("tenant_shards", keys.tenant_limit[datasets]),
        pl.Series("dataset_shards", keys.dataset_limit[datasets]),
        pl.Series("offset", offsets),
        (position if s.live.cluster.ring is None else position.fill_null(-1)).alias("shard") + 1,
        owner.alias("instance"),
        _candidate_lists(ring, candidates).alias("candidates"),
        pl.Series("bytes_per_s", np.rint(rows["weight"].to_numpy()).astype(np.int64)),
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


def _candidate_lists(ring: Ring, candidates: np.ndarray) -> pl.Series:
    if not len(candidates):
        return pl.Series([], dtype=pl.List(pl.String))
    lists = ring.names(candidates.ravel()).reshape((len(candidates), TRIES)).arr.to_list()
    return lists.list.drop_nulls() if candidates.min() < 0 else lists


def _largest_rows(live: SegmentState, placement: Placement, limit: int, memo: Memo) -> tuple[pl.DataFrame, int]:
    """Choose the ``limit`` rows with the largest loads: key rows with a fingerprint one by one, all others folded to
    (dataset, offset). Returns dataset (index), offset, weight and fingerprint (null: none) of each, and the number of all."""
    keys = placement.keys
    has_fingerprint = keys.row_kind == FINGERPRINT
    parts, count = [], int(has_fingerprint.sum())
    if count:

        def choose() -> np.ndarray:
            found = []
            for begin in range(0, len(has_fingerprint), _AT_ONCE):
                at = begin + np.flatnonzero(has_fingerprint[begin : begin + _AT_ONCE])
                found.append(at[largest(keys.row_weight[at], limit)])
            candidates = np.concatenate(found)
            return candidates[largest(keys.row_weight[candidates], limit)]

        # No scenario changes which rows are the largest.
        parts.append(_fingerprint_rows(placement, memo.value("largest rows", (live.key, limit), choose, keep=KEEP)))
    if not has_fingerprint.all() or not len(has_fingerprint):
        folded, folded_count = _folded_rows(placement, np.flatnonzero(~has_fingerprint), limit)
        parts.append(folded)
        count += folded_count
    rows = pl.concat(parts, how="vertical_relaxed")
    return rows[largest(rows["weight"].to_numpy(), limit)], count


def _rows(datasets: np.ndarray, offsets: np.ndarray, weight: np.ndarray, prints: np.ndarray | None) -> pl.DataFrame:
    known = pl.Series([None] * len(datasets) if prints is None else prints, dtype=pl.UInt64)
    return pl.DataFrame(
        {"dataset": datasets.astype(np.int64), "offset": offsets, "weight": weight, "fingerprint": known}
    )


def _fingerprint_rows(placement: Placement, at: np.ndarray) -> pl.DataFrame:
    """Return the key rows ``at``; a row of a dataset that picks at random has a share in every offset."""
    keys = placement.keys
    datasets, fingerprints = keys.row_dataset[at].astype(np.int64), keys.row_value[at]
    size = np.maximum(placement.ranges.dataset_size, 1)
    shares = np.where(keys.round_robin[datasets], size[datasets], 1)
    row, share, weight = spread_evenly(np.arange(len(at)), keys.row_weight[at], shares)
    datasets, fingerprints = datasets[row], fingerprints[row]
    picked = (fingerprints % size[datasets].astype(np.uint64)).astype(np.int64)
    return _rows(datasets, np.where(keys.round_robin[datasets], share, picked), weight, fingerprints)


def _folded_rows(placement: Placement, others: np.ndarray, limit: int) -> tuple[pl.DataFrame, int]:
    """Return the largest (dataset, offset) groups of the key rows ``others``, and the number of all."""
    keys = placement.keys
    if placement.ranges.total <= 0:
        datasets = np.unique(keys.row_dataset[others])
        zeros = np.zeros(len(datasets), dtype=np.int64)
        return _rows(datasets, zeros, zeros, None), len(datasets)
    groups = placement.groups
    if len(others) < len(keys.row_kind):
        columns = {name: getattr(keys, name)[others] for name in ("row_dataset", "row_kind", "row_value", "row_weight")}
        groups = replace(keys, **columns).fold(placement.ranges)
    at = largest(groups.weight, limit)
    return _rows(groups.datasets[at], groups.offsets[at], groups.weight[at], None), len(groups.datasets)


def largest(weight: np.ndarray, limit: int) -> np.ndarray:
    """Return the indices of the ``limit`` largest weights, ascending."""
    if len(weight) <= limit:
        return np.arange(len(weight))
    if not limit:
        return np.empty(0, dtype=np.int64)
    return np.sort(np.argpartition(-weight, limit - 1)[:limit])


STRATEGY_NAMES = {BY_FINGERPRINT: "fingerprint", ROUND_ROBIN: "round-robin"}


NO_RULES = "no rules"  # strategy if the ruler fails: a unit of 0 bytes per shard is a division by zero in Pyroscope


EXPIRED = "expired"  # strategy of a dataset without stats whose rule is too old to be written again


def strategy_table(state: SegmentState) -> pl.DataFrame:
    """Build table ``strategy``: the rule in force of each dataset, and the one that Pyroscope's ruler writes next from the
    stored stats, by the stored deviation and by the true one.

    The ruler is one that has loaded the stored rules, as after a change of leader. See ``docs/models/ring-placement.md``,
    "Distribution stats" to "Ruler".
    """
    cluster = state.cluster
    stored = _stored_stats(cluster.stats)
    true = replace(
        stored, datasets=tuple(replace(each, std_dev=integer_std_dev(each.usage)) for each in stored.datasets)
    )
    usage = {(each.tenant, each.name): each for each in stored.datasets}
    now, corrected = (_next_rules(cluster, stats) for stats in (stored, true))
    rows = []
    for key in {**usage, **cluster.rules}:
        known, rule = usage.get(key), cluster.rules.get(key)
        following = now.get(key)
        rows.append((
            *key, len(known.usage) if known else 0, integer_mean(known.usage) if known else None,
            known.std_dev if known else None, integer_std_dev(known.usage) if known else None,
            rule.dataset_limit if rule else None, following.dataset_limit if following else None,
            *(STRATEGY_NAMES.get(by[key].load_balancing, "fingerprint") if key in by else EXPIRED if by else NO_RULES
              for by in (now, corrected)),
        ))  # fmt: skip
    return tables.STRATEGY.sorted(tables.STRATEGY.frame(columns_of(tables.STRATEGY, rows)))


def _stored_stats(rows: pl.DataFrame) -> DistributionStats:
    key = ["tenant", "dataset"]
    datasets = rows.group_by(key, maintain_order=True).agg("shard", "instance", "usage", pl.col("std_dev").first())
    return DistributionStats(
        tuple(
            DatasetStats(tenant, name, tuple(zip(shards, owners, strict=True)), tuple(usage), std_dev)
            for tenant, name, shards, owners, usage, std_dev in datasets.iter_rows()
        ),
        rows["created_at"][0],
    )


def _next_rules(cluster: Cluster, stats: DistributionStats) -> dict[tuple[str, str], Rule]:
    """Return the rules that a ruler writes for ``stats`` after loading the stored ones; none if it fails."""
    ruler = Ruler(lambda tenant: cluster.limits.get(tenant, DEFAULTS))
    loaded_at = cluster.rule_rows["created_at"].max() if cluster.rule_rows.height else None
    created = loaded_at if isinstance(loaded_at, int) else stats.created_at
    ruler.load(Rules((), tuple(cluster.rules.values()), created))
    stats = replace(stats, created_at=max(stats.created_at, created + 1))  # the next tick: it is after the rules
    ruler.expire(stats.created_at - RULES_RETENTION_NS)
    try:
        return {(rule.tenant, rule.name): rule for rule in ruler.build(stats).datasets}
    except ZeroDivisionError:
        return {}
