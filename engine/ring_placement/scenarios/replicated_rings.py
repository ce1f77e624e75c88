"""Rings with replicas as a strategy: dskit's token rings, and partition rings with their owners."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from hashlib import blake2b, md5

import msgspec
import numpy as np
import polars as pl

from engine.ring_placement.dskit.replicas import ACTIVE, PartitionRing
from engine.ring_placement.dskit.token_ring import NO_TOKENS, OPERATIONS, Instance, Operation, ShardRing, TokenRing
from engine.ring_placement.dskit.tokens import (
    MAX_INSTANCE,
    MAX_ZONES,
    PER_INSTANCE,
    random_tokens,
    spread_minimizing_tokens,
)
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.ring import PLACED_STATES, Member, in_byte_order
from engine.ring_placement.scenarios.cluster import Cluster
from engine.ring_placement.scenarios.failover import all_members, member_mask, ordinal
from engine.ring_placement.scenarios.replica_rows import (
    Registered,
    ReplicatedPlacement,
    Rows,
    Tenants,
    partition_rows,
    token_rows,
)
from engine.ring_placement.scenarios.replica_sweeps import sweep_replicas
from engine.ring_placement.scenarios.settings import InForce
from engine.ring_placement.scenarios.strategy import Check, Outcome, Step, Sweep

KEEP_ROWS = 4  # number of topologies whose rows are kept
_CELLS = 20_000_000  # most cells up to which loads are compared tenant by tenant


class ReplicatedRing(msgspec.Struct, frozen=True, eq=False):
    """The strategy (see ``strategy.Strategy``). ``listed``: IDs of the members of the files; ``partitions``: of a partition
    ring, else None; ``settings`` in force; ``writing``: operation of writes; ``spread``: whether tokens are spread-minimizing;
    ``tenant_shards`` and ``partition_shards``: of a tenant that no file names; ``without_le``: whether series are placed without
    that label; ``lists_members``: whether the files have a ring of members; ``kept``: rows of recent
    topologies: heartbeats and loads change all the time, topologies rarely."""

    tenants: Tenants
    partition_sizes: np.ndarray
    listed: frozenset[str]
    partitions: PartitionRing | None
    settings: InForce
    writing: Operation
    now_s: int
    spread: bool
    kind: str = "token-ring"
    kept: dict[Hashable, Rows] = msgspec.field(default_factory=dict)
    _zones: tuple[str, ...] = msgspec.field(default=())
    tenant_shards: int = 0
    partition_shards: int = 0
    without_le: bool = False
    lists_members: bool = True

    @classmethod
    def of(
        cls, cluster: Cluster, now_ns: int, p: RingParameters, kept: dict[Hashable, Rows] | None = None
    ) -> ReplicatedRing:
        """Take settings and tenants from the files and the parameters."""
        assert cluster.ring is not None
        ring, loads = cluster.ring, cluster.tenants
        is_partition = ring.strategy == "partition-ring"
        present = [m for m in ring.members if m.state in PLACED_STATES or m.state == "UNHEALTHY"]
        zones = tuple(sorted({m.zone for m in present}))
        settings = cluster.settings
        in_force = InForce.of(settings, p, loads.replication, bool(present) and "" not in zones)
        # Loki shards tenants in its ring of partitions only.
        shards = is_partition or settings.system.name != "Loki"
        sizes = {name: limits.ingestion_shards if shards else 0 for name, limits in cluster.limits.items()}
        if not shards and p.read_sharding == "auto" and p.lookback is None:
            in_force = msgspec.structs.replace(in_force, shards_reads=False)
        without_le = p.exclude_le == "on" or (p.exclude_le == "auto" and bool(settings.exclude_le))
        owners = [len(p.owners) for p in ring.partitions if p.state == ACTIVE and p.owners]
        copies = in_force.replication if not is_partition else sum(owners) / len(owners) if owners else 1.0
        tenants, partition_sizes = _tenants(cluster, sizes, copies, without_le)
        spread_zones = tuple(sorted(settings.zones)) if set(zones) <= set(settings.zones) else zones
        is_spread = _is_spread(present, zones) if settings.tokens is None else settings.tokens == "spread-minimizing"
        return cls(
            tenants, partition_sizes, frozenset(m.id for m in ring.members),
            PartitionRing.of(ring.partitions) if is_partition else None, in_force, OPERATIONS[p.operation],
            now_ns // 10**9, is_spread, "partition-ring" if is_partition else "token-ring",
            {} if kept is None else kept, spread_zones, settings.tenant_shards or 0, settings.partition_shards or 0,
            without_le, ring.lists_members,
        )  # fmt: skip

    @property
    def reading(self) -> Operation:
        """Return the operation of queries."""
        return OPERATIONS[self.settings.reads]

    @property
    def lookback_s(self) -> int | None:
        """Return how far back queries ask former members of a shard; None if they ask the whole ring."""
        return self.settings.lookback_s if self.settings.shards_reads else None

    @property
    def assumed(self) -> str:
        """Name the settings that decide verdicts although no file gives them; "" if files give all."""
        if self.partitions is None:
            return self.settings.assumed
        return "owners assumed healthy" if self.unheard else ""

    @property
    def unheard(self) -> bool:
        """Return whether owners of partitions count as healthy only because no file lists them."""
        return self.partitions is not None and not self.lists_members

    @property
    def is_known(self) -> bool:
        """Return whether the files, or the system that they name, give what a favourable verdict needs."""
        told = bool(self.settings.replication_from) if self.partitions is None else self.lists_members
        return told and not self.settings.doubt

    def with_owners(self, members: tuple[Member, ...]) -> tuple[Member, ...]:
        """Return the members; without a ring of members the owners of partitions, as if healthy."""
        if self.lists_members or self.partitions is None:
            return members
        owners = sorted({owner for p in self.partitions.partitions for owner in p.owners})
        return tuple(Member(owner, "ACTIVE", "", 0) for owner in owners)

    def place(
        self, members: Sequence[Member], p: RingParameters, like: ReplicatedPlacement | None, check: Check
    ) -> ReplicatedPlacement:
        """Lay out the ring of all registered members, the shards of all tenants, and their loads."""
        present = tuple(
            in_byte_order(m for m in members if m.placed or (m.state == "UNHEALTHY" and not m.is_tombstone))
        )
        ring = TokenRing.of(
            [self._instance(m, p) for m in present], self.settings.replication, self.settings.zone_aware
        )
        sizes = self.partition_sizes if self.partitions is not None else self.tenants.sizes
        if p.tenant_shards is not None:
            sizes = np.full_like(sizes, p.tenant_shards)
        return self._placed(present, ring, msgspec.structs.replace(self.tenants, sizes=sizes), check)

    def _placed(
        self, members: tuple[Member, ...], ring: TokenRing, tenants: Tenants, check: Check
    ) -> ReplicatedPlacement:
        registered = Registered(members, ring, ring.healthy(self.writing), ring.healthy(self.reading))
        none = np.zeros(len(members), dtype=bool)
        if self.partitions is None:
            key = _topology(ring, tenants, self.writing, self.lookback_s, self.now_s)
            rows = self.kept.pop(key, None) or token_rows(
                ring, tenants, self.writing, self.lookback_s, self.now_s, check
            )
            self.kept[key] = rows  # the most recently used one is the last
            while len(self.kept) > KEEP_ROWS:
                del self.kept[next(iter(self.kept))]
            return ReplicatedPlacement(registered, rows, tenants, None, none)
        owners = self.partitions.owners_among(registered.ids)
        rows = partition_rows(self.partitions, owners, len(members), tenants, self.lookback_s, self.now_s, check)
        return ReplicatedPlacement(registered, rows, tenants, self.partitions, none)

    def _instance(self, m: Member, p: RingParameters) -> Instance:
        values = m.values
        if values is None:
            # Tokens missing in a file are unknown; tokens of new members, or of another number, are made up.
            is_made_up = m.id not in self.listed or p.tokens is not None
            values = self._new_tokens(m) if is_made_up and m.tokens else NO_TOKENS
        state = m.state if m.state != "UNHEALTHY" else m.written or "ACTIVE"
        return Instance(
            m.id, m.zone, state if state in PLACED_STATES else "ACTIVE", values, m.state != "UNHEALTHY",
            max(m.registered_s or 0, 0), m.read_only, m.read_only_s,
        )  # fmt: skip

    def _new_tokens(self, m: Member) -> np.ndarray:
        parts = ordinal(m.id)
        if self.spread and parts and parts[1] <= MAX_INSTANCE and m.zone in self._zones and m.tokens <= PER_INSTANCE:
            return spread_minimizing_tokens(self._zones.index(m.zone), parts[1], m.tokens)
        return random_tokens(int.from_bytes(md5(m.id.encode(), usedforsecurity=False).digest()[:7], "big"), m.tokens)

    def fail(
        self, placement: ReplicatedPlacement, failed: np.ndarray, regime: str
    ) -> tuple[Outcome, ReplicatedPlacement]:
        """Let members fail while they stay registered: their replicas are lost, the sets stay. The same writes and queries fail
        whether they return errors or are known to be unhealthy."""
        after = placement.with_failed(failed)
        outcome = Outcome(
            placement.ring.ids, placement.loads, after.loads, rejected_before=placement.rejected,
            tenants_touched=self.touched(placement, failed)[2], **after.outcome_totals(),
        )  # fmt: skip
        return outcome, after

    def without(self, placement: ReplicatedPlacement, gone: frozenset[str], check: Check) -> ReplicatedPlacement:
        """Place the load on the ring laid out again without the members ``gone``."""
        members = tuple(m for m in placement.ring.members if m.id not in gone)
        return self._placed(members, placement.ring.tokens.without(gone), placement.tenants, check)

    def compare(
        self, before: ReplicatedPlacement, after: ReplicatedPlacement, gone: frozenset[str] = frozenset()
    ) -> Outcome:
        """Compute the effect of another layout. Moved load is counted tenant by tenant, as the increase at each member."""
        ids, old, new = all_members(before.ring, after.ring)
        loads, later = np.zeros(len(ids)), np.zeros(len(ids))
        loads[old], later[new] = before.loads, after.loads
        share = np.zeros(len(ids))
        share[new] += after.share
        share[old] -= before.share
        moved = _moved(before, after, old, new, len(ids))
        down = member_mask(before.ring, gone)
        return Outcome(
            ids, loads, later, rejected_before=before.rejected, moved_bytes=moved,
            needless_moved_bytes=max(0.0, moved - float(before.loads[down].sum())) if down.any() else 0.0,
            moved_share=float(share.clip(0).sum()), tenants_touched=self.touched(before, down)[2],
            **after.outcome_totals(),
        )  # fmt: skip

    def touched(self, placement: ReplicatedPlacement, down: np.ndarray) -> tuple[int, int, int]:
        """Count the tenants whose shard has a member in ``down`` (bool)."""
        rows = placement.rows
        if not len(rows.shard_of) or not down.any():
            return 0, 0, 0
        hit = np.zeros(len(rows.shards), dtype=bool)
        hit[rows.shard[rows.live(down) > 0]] = True
        return 0, 0, int(hit[rows.shard_of].sum())

    def sweep(
        self,
        placement: ReplicatedPlacement,
        kind: str,
        downs: Sequence[tuple[int, ...]],
        regime: str,
        limits: np.ndarray | None,
        step: Step,
    ) -> Sweep:
        """Sweep failing sets; members stay registered in each of them."""
        return sweep_replicas(
            placement, kind, downs, limits, step, kind != "leaving" or "LEAVING" not in self.reading.healthy
        )


def _topology(
    ring: TokenRing, tenants: Tenants, writing: Operation, lookback_s: int | None, now_s: int
) -> tuple[Hashable, ...]:
    """Return a key of everything that the rows of a token ring depend on."""
    digest = blake2b(ring.tokens.tobytes())
    for array in (ring.owner, tenants.sizes, tenants.key_tenant, tenants.key_token):
        digest.update(array.tobytes())
    members = tuple((i.id, i.zone, i.state in writing.extend) for i in ring.instances)
    drawn = ShardRing(ring, now_s)
    return (members, ring.replication, ring.zone_aware, digest.digest(), tenants.seeds, drawn.flags(0),
            lookback_s, drawn.flags(lookback_s or 0))  # fmt: skip


def _is_spread(members: Sequence[Member], zones: tuple[str, ...]) -> bool:
    """Whether tokens look spread-minimizing: all tokens of zone number z are z modulo 8."""
    with_tokens = [m for m in members if m.values is not None and len(m.values) >= 8]
    return bool(with_tokens) and len(zones) <= MAX_ZONES and all(
        m.values is not None and bool((m.values % MAX_ZONES == zones.index(m.zone)).all()) for m in with_tokens
    )  # fmt: skip


def _tenants(cluster: Cluster, sizes: dict[str, int], copies: float, without_le: bool) -> tuple[Tenants, np.ndarray]:
    """Collect the tenants in limits, loads and keys; ``copies``: replicas of each series. Returns them, and the number of
    partitions of each."""
    loads, settings = cluster.tenants, cluster.settings
    token = "token_without_le" if without_le else "token"
    by_name = dict(loads.loads.iter_rows())
    names = tuple(sorted({*sizes, *cluster.partition_shards, *by_name, *loads.keys["tenant"].unique().to_list()}))
    number = {name: n for n, name in enumerate(names)}
    keys = loads.keys.with_columns(pl.col("tenant").replace_strict(number, return_dtype=pl.Int64).alias("number"))
    keys = keys.with_columns(pl.coalesce(token, "token").alias("token"))
    keys = keys.sort("number", maintain_order=True) if keys.height else keys
    factor = copies if loads.replicated else 1
    tenants = Tenants(
        names,
        tuple(loads.names.get(name, name) for name in names),
        np.array([sizes.get(name, settings.tenant_shards or 0) for name in names], dtype=np.int64),
        np.array([by_name.get(name, 0.0) / factor for name in names], dtype=np.float64),
        keys["number"].to_numpy().astype(np.int64), keys["token"].to_numpy().astype(np.int64),
        keys["weight"].to_numpy().astype(np.float64),
    )  # fmt: skip
    partitions = [cluster.partition_shards.get(name, settings.partition_shards or 0) for name in names]
    return tenants, np.array(partitions, dtype=np.int64)


def _by_tenant(placement: ReplicatedPlacement, at: np.ndarray, count: int) -> np.ndarray | None:
    """Return the load of each tenant on each of ``count`` nodes (``at``: node of each member); None if that is too many cells."""
    rows, tenants = placement.rows, placement.tenants
    if len(tenants.names) * count > _CELLS:
        return None
    shares = rows.shares
    if shares is None:
        return None
    out = np.zeros((len(tenants.names), count))
    out[:, at] = tenants.loads[:, None] * shares[rows.shard_of]
    placed = rows.key_row >= 0
    for column in rows.members.T:
        node = column[rows.key_row[placed]]
        here = node >= 0
        cell = tenants.key_tenant[placed][here] * count + at[node[here]]
        out += np.bincount(cell, tenants.key_weight[placed][here], out.size).reshape(out.shape)
    return out


def _moved(
    before: ReplicatedPlacement, after: ReplicatedPlacement, old: np.ndarray, new: np.ndarray, count: int
) -> float:
    first = _by_tenant(before, old, count)
    second = _by_tenant(after, new, count)
    if first is None or second is None:
        change = np.zeros(count)
        change[new] += after.loads
        change[old] -= before.loads
        return float(change.clip(0).sum())
    return float((second - first).clip(0).sum())
