"""Pyroscope's segment writers as a strategy: one node stores each key; the candidates behind it take over."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import polars as pl

from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.adaptive_placement import DEFAULTS, ROUND_ROBIN
from engine.ring_placement.pyroscope.placement import FINGERPRINT, FIXED, SPREAD, Keys, Placement, place
from engine.ring_placement.pyroscope.ring import TRIES, Member, Ring, xxh64_column
from engine.ring_placement.scenarios.cluster import Cluster
from engine.ring_placement.scenarios.failover import count_touched, fail_members, place_without, relayout_outcome
from engine.ring_placement.scenarios.load_sources import LOAD_SCHEMA, conform
from engine.ring_placement.scenarios.segment_sweeps import back_again, every_node, every_pair, one_by_one
from engine.ring_placement.scenarios.strategy import Check, Outcome, Step, Sweep


class SegmentWriters(msgspec.Struct, frozen=True, eq=False):
    """The strategy (see ``strategy.Strategy``). ``texts``: tenant, dataset and limits_from of each dataset of ``keys``."""

    keys: Keys
    texts: pl.DataFrame
    kind: str = "segment-writer"

    def place(self, members: Sequence[Member], p: RingParameters, like: Placement | None, check: Check) -> Placement:
        """Lay out the shards of ``members`` and place the keys, with the limits of the parameters."""
        keys = self.keys
        if p.tenant_shards is not None or p.dataset_shards is not None:
            keys = keys.with_limits(p.tenant_shards, p.dataset_shards)
        return place(Ring.of(members), keys, TRIES, like)

    def fail(self, placement: Placement, failed: np.ndarray, regime: str) -> tuple[Outcome, Placement]:
        """Compute regime A, the only one with registered members: a writer whose heartbeat is too old is gone."""
        return fail_members(placement, failed)

    def without(self, placement: Placement, gone: frozenset[str], check: Check) -> Placement:
        """Place the keys on the ring without the members ``gone``."""
        return place_without(placement, gone)

    compare = staticmethod(relayout_outcome)
    touched = staticmethod(count_touched)

    def sweep(
        self,
        placement: Placement,
        kind: str,
        downs: Sequence[tuple[int, ...]],
        regime: str,
        limits: np.ndarray | None,
        step: Step,
    ) -> Sweep:
        """Sweep failing sets. One node LEAVING sends its keys where its crash would, without the failed try."""
        if regime == "returned":
            return back_again(self.sweep(placement, kind, downs, "left", limits, step), placement, limits)
        if kind in ("nodes", "leaving"):
            return every_node(placement, regime, limits, step)
        if kind == "pairs":
            return every_pair(placement, regime, limits, step)
        return one_by_one(placement, downs, regime, limits, step)


_AT_ONCE = 1 << 20  # rows numbered at a time: there may be millions of keys
LIMITS_FROM = ("default", "override", "rule")
"""Values of the column ``limits_from``: where the limits of a dataset come from."""


def build_keys(cluster: Cluster, ring: Ring) -> tuple[Keys, pl.DataFrame]:
    """Build the keys of the cluster's load on ``ring``; without load, keys of the datasets that rules name.

    Returns the keys and, in the order of their datasets, the texts (tenant, dataset, limits_from).
    """
    load = cluster.load
    if not load.height and cluster.rule_rows.height:
        load = _load_of_rules(cluster)
    load = load.with_columns(pl.col("tenant").fill_null(""))
    # Counters know tenant and shard only: each such pair stands for a dataset.
    by_shard = load["dataset"].null_count() == load.height and load.height > 0 and load["shard"].null_count() == 0
    has_hashes = any(load[name].null_count() < load.height for name in ("tenant_hash", "dataset_hash"))
    columns = ["tenant", "tenant_hash", "dataset", "dataset_hash"] if has_hashes else ["tenant", "dataset"]
    datasets, row_dataset = distinct_rows(load.select([*columns, "shard"] if by_shard else columns))
    datasets = datasets.with_columns(pl.col("tenant", "dataset").cast(pl.String))
    tenant_columns = ["tenant", "tenant_hash"] if has_hashes else ["tenant"]
    tenants = datasets.select(tenant_columns).unique(maintain_order=True).with_row_index("number")
    joined = datasets.join(tenants, on=tenant_columns, how="left", maintain_order="left", nulls_equal=True)
    tenant_of = joined["number"].to_numpy()
    tenant_names = tenants["tenant"].to_list()
    names = datasets["dataset"].fill_null("")
    tenant_limit, dataset_limit, round_robin, source = _limits(
        cluster, tenant_names, tenant_of, None if by_shard else datasets
    )
    kind = np.full(load.height, SPREAD, dtype=np.uint8)
    value = np.zeros(load.height, dtype=np.uint64)
    if load["fingerprint"].null_count() < load.height:
        kind[load["fingerprint"].is_not_null().to_numpy()] = FINGERPRINT
        value = load["fingerprint"].fill_null(0).to_numpy().astype(np.uint64, copy=False)
    kind, value = (kind, value)
    total = ring.total
    values = load["bytes"].to_numpy()
    with np.errstate(invalid="ignore"):
        whole = values.astype(np.int64)
    keys = Keys(
        tuple(tenant_names), tenant_of.astype(np.int32),
        _hashes(tenants["tenant"], tenants["tenant_hash"] if has_hashes else None),
        _hashes(names, datasets["dataset_hash"] if has_hashes else None), tenant_limit, dataset_limit, round_robin,
        row_dataset, kind, value, whole if (whole == values).all() else values.astype(np.float64),
    )  # fmt: skip
    if by_shard and total:
        keys = msgspec.structs.replace(keys, pinned=(datasets["shard"].to_numpy() - 1) % total, pinned_total=total)
    elif load["shard"].null_count() < load.height and total:
        offset, allowed = keys.ranges(total).offsets_of(
            keys.row_dataset, load["shard"].fill_null(0).to_numpy().astype(np.int64)
        )
        keys.row_kind[allowed] = FIXED
        keys.row_value[allowed] = offset[allowed].astype(np.uint64)
    labels = pl.Series("limits_from", LIMITS_FROM).gather(pl.Series(source.astype(np.uint32)))
    return keys, datasets.select("tenant", names.alias("dataset")).with_columns(labels)


def distinct_rows(frame: pl.DataFrame) -> tuple[pl.DataFrame, np.ndarray]:
    """Return the distinct rows of ``frame``, sorted, and for each row the number (int32) of its distinct one."""
    columns = frame.columns
    # Faster than a join of all rows: each part has the indices of its distinct rows.
    parts = [part.with_row_index("at").group_by(columns).agg("at") for part in frame.iter_slices(_AT_ONCE)]
    distinct = pl.concat([frame.clear(), *(part.select(columns) for part in parts)]).unique()
    distinct = distinct.sort(columns, nulls_last=True).with_row_index("number")
    number = np.empty(frame.height, dtype=np.int32)
    for chunk, part in enumerate(parts):
        known = part.join(distinct, on=columns, how="left", nulls_equal=True, maintain_order="left")["number"]
        of_part = number[chunk * _AT_ONCE :]
        of_part[part["at"].explode().to_numpy()] = np.repeat(known.to_numpy(), part["at"].list.len().to_numpy())
    return distinct.drop("number"), number


def _load_of_rules(cluster: Cluster) -> pl.DataFrame:
    names = sorted(cluster.rules)
    rows = {"tenant": [n[0] for n in names], "dataset": [n[1] for n in names], "bytes": [0.0] * len(names)}
    return conform(pl.DataFrame(rows), LOAD_SCHEMA)


def _limits(
    cluster: Cluster, tenant_names: list[str], tenant_of: np.ndarray, datasets: pl.DataFrame | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Look up the limits of each dataset (``pyroscope.limits.policy_of`` for many at once).

    ``datasets``: their names, None where rules cannot apply. Returns tenant limits and dataset limits (int64), whether
    requests pick a shard at random (bool), and the index in ``LIMITS_FROM`` (int8).
    """
    per_tenant = [cluster.limits.get(tenant, DEFAULTS) for tenant in tenant_names]
    tenant_limit = np.array([limits.tenant_limit for limits in per_tenant], dtype=np.int64)[tenant_of]
    dataset_limit = np.array([limits.default_dataset_shards for limits in per_tenant], dtype=np.int64)[tenant_of]
    source = np.array([tenant in cluster.limits for tenant in tenant_names], dtype=np.int8)[tenant_of]
    round_robin = np.array([limits.load_balancing == "round-robin" for limits in per_tenant], dtype=bool)[tenant_of]
    if cluster.rule_rows.height and datasets is not None:
        numbered = datasets.select("tenant", pl.col("dataset").fill_null("")).with_row_index("at")
        rules = cluster.rule_rows.join(numbered, on=["tenant", "dataset"], how="inner", maintain_order="left")
        at = rules["at"].to_numpy()
        tenant_limit[at] = rules["tenant_limit"].to_numpy()
        dataset_limit[at] = rules["dataset_limit"].to_numpy()
        round_robin[at] = (rules["load_balancing"] == ROUND_ROBIN).to_numpy()
        source[at] = LIMITS_FROM.index("rule")
    return tenant_limit, dataset_limit, round_robin, source


def _hashes(texts: pl.Series, raw: pl.Series | None) -> np.ndarray:
    """Hash each text (uint64); a value in ``raw``, the hash of the text before cleaning, takes precedence."""
    unique = texts.unique(maintain_order=True)
    if len(unique) < len(texts):
        table = pl.DataFrame({texts.name: unique, "hash": pl.Series(xxh64_column(unique), dtype=pl.UInt64)})
        hashes = texts.to_frame().join(table, on=texts.name, how="left", maintain_order="left")["hash"]
    else:
        hashes = pl.Series("hash", xxh64_column(texts), dtype=pl.UInt64)
    if raw is not None:
        hashes = pl.select(pl.coalesce(raw, hashes)).to_series()
    return hashes.to_numpy().astype(np.uint64)
