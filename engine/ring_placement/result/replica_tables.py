"""Result tables of rings with replicas: nodes, tenants, partitions, keys, and a rolling restart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from engine.ring_placement import tables
from engine.ring_placement.dskit.partition_ring import STATES
from engine.ring_placement.dskit.token_ring import SPACE
from engine.ring_placement.insight.replica_findings import key_pairs
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.reading.document import columns_of
from engine.ring_placement.scenarios.replica_rows import ReplicatedPlacement
from engine.ring_placement.scenarios.scenario_state import ReplicatedScenario, replicated_ring
from engine.ring_placement.scenarios.sweep_totals import Sweep
from engine.view import Context

NAMED_TENANTS = 8
"""Tenants that are named of each node."""
LISTED_INSTANCES = 2_000_000
"""Instances that the table of tenants lists in all; shards of the whole ring are left out beyond."""


def node_table(s: ReplicatedScenario, context: Context) -> pl.DataFrame:
    """Build table ``nodes``: every member, with ownership, what it holds, and the partner that makes it dangerous."""
    index = {name: i for i, name in enumerate(s.outcome.nodes)}
    before, after = np.rint(s.outcome.before).astype(np.int64), np.rint(s.outcome.after).astype(np.int64)
    alive = {i for i, ok in zip(s.after.ring.ids, s.after.alive, strict=True) if ok}
    loads = [after[index[i]] for i in alive if i in index]
    mean = float(np.mean(loads)) if loads else 0.0
    facts = _ring_facts(s, context)
    observed = s.live.cluster.tenants.observed.group_by("instance").agg(pl.col("load").sum())
    written = dict(observed.iter_rows())
    rows = []
    listed = {m.id: m for m in s.members}
    for m in (*s.before.ring.members, *s.live.members):
        listed.setdefault(m.id, m)
    down = set(s.down)
    for m in listed.values():
        i = index.get(m.id)
        load_before, load_after = (0, 0) if i is None else (int(before[i]), int(after[i]))
        capacity = s.capacity.get(m.id)
        limit = capacity if s.comparable and m.id in alive else None
        rows.append((
            m.id, m.state, m.zone, m.tokens, load_before, load_after, load_after - load_before,
            load_after / mean if mean > 0 else None, capacity, None if limit is None else limit - load_after,
            None if limit is None else load_after > limit, m.id in down or m.id in s.removed,
            round(written[m.id]) if m.id in written else None, *facts.get(m.id, (None,) * 7), m.address,
            m.heartbeat_s * 1000 if m.heartbeat_s is not None else None,
        ))  # fmt: skip
    return tables.NODES.sorted(tables.NODES.frame(columns_of(tables.NODES, rows)))


def _ring_facts(s: ReplicatedScenario, context: Context) -> dict[str, tuple[Any, ...]]:
    """Return by ID ownership, token ranges and share of keys in the scenario; number of tenants and the largest ones, worst
    partner and its loss on the planned ring."""
    planned, ring = s.planned, s.planned.ring
    pairs = key_pairs(s, context)
    count = len(ring.members)
    shares = planned.rows.shares
    tenants = np.zeros(count, dtype=np.int64)
    largest: list[list[str]] = [[] for _ in range(count)]
    if shares is not None:
        holders = np.bincount(planned.rows.shard_of, minlength=len(shares))
        tenants = (shares > 0).T.astype(np.int64) @ holders
        # Tenants by load, and of each node the first ones whose shard has it.
        order = np.lexsort((np.arange(len(planned.tenants.names)), -planned.tenants.total))
        on_it = (shares > 0).T[:, planned.rows.shard_of[order]]
        for k in range(count):
            context.check()
            first = np.flatnonzero(on_it[k])[:NAMED_TENANTS]
            largest[k] = [planned.tenants.names[t] for t in order[first].tolist()]
    after = s.after.ring
    ranges = (None,) * len(after.ids) if planned.partitions is not None else after.tokens.token_ranges
    now = {
        name: (own, None if r is None else len(r), held)
        for name, own, r, held in zip(
            after.ids, (after.tokens.ownership / SPACE).tolist(), ranges, s.after.share.tolist(), strict=True
        )
    }
    gone = (0.0, None, 0.0)
    partners: list[tuple[str | None, float | None]] = [(None, None)] * count
    if count > 1 and planned.partitions is None:
        lost = pairs.matrix()
        np.fill_diagonal(lost, -1.0)
        worst = lost.argmax(axis=1)
        most = lost[np.arange(count), worst]
        partners = [
            (ring.ids[w] if m > 0 else None, max(m, 0.0)) for w, m in zip(worst.tolist(), most.tolist(), strict=True)
        ]
    return {
        name: (
            *(now.get(name, gone) if ring.total else (None, None, now.get(name, gone)[2])),
            int(tenants[i]),
            largest[i],
            *partners[i],
        )
        for i, name in enumerate(ring.ids)
    }


def lists_of(shards: Sequence[np.ndarray], shard_of: np.ndarray, names: pl.Series) -> pl.Series:
    """Return for each tenant the ``names`` of the members of its shard."""
    sizes = np.array([len(members) for members in shards], dtype=np.int64)
    if int(sizes[shard_of].sum()) > LISTED_INSTANCES:
        sizes = np.where(sizes == sizes.max(), 0, sizes)
    chosen = [m if size else m[:0] for m, size in zip(shards, sizes.tolist(), strict=True)]
    lists = pl.Series([names.gather(pl.Series(m.astype(np.uint32))) for m in chosen], dtype=pl.List(names.dtype))
    return lists.gather(pl.Series(shard_of.astype(np.uint32)))


def tenant_table(s: ReplicatedScenario) -> pl.DataFrame:
    """Build table ``tenants``: the shard of each tenant in the scenario, and what it loses."""
    after, tenants = s.after, s.after.tenants
    rows = after.rows
    ids = pl.Series(after.ring.ids, dtype=pl.String)
    lost, reads = after.lost_share[rows.shard_of], after.reads_ok[rows.read_of]
    frame: dict[str, Any] = {
        "tenant": tenants.names,
        "shard_size": tenants.sizes,
        "load": tenants.total,
        "write_lost_share": lost,
        "write_lost_load": lost_load(after),
        "reads_ok": reads,
        "spread": spreads(after)[rows.shard_of],
    }
    answers = after.alive if after.partitions is None else after.ring.reading & ~after.failed
    if after.partitions is None:
        frame["instances"] = lists_of(rows.shards, rows.shard_of, ids)
        frame["read_instances"] = lists_of(rows.reads, rows.read_of, ids)
        frame["instances_down"] = np.array([int((~answers[m]).sum()) for m in rows.shards], dtype=np.int64)[
            rows.shard_of
        ]
    else:
        number = {name: n for n, name in enumerate(after.ring.ids)}
        owners = [np.array([number[o] for o in p.owners if o in number], dtype=np.int64)
                  for p in after.partitions.partitions]  # fmt: skip
        for column, shards, of in (
            ("instances", rows.shards, rows.shard_of),
            ("read_instances", rows.reads, rows.read_of),
        ):
            held = [np.unique(np.concatenate([np.empty(0, np.int64), *(owners[k] for k in shard)])) for shard in shards]
            frame[column] = lists_of(held, of, ids)
            if column == "instances":
                frame["instances_down"] = np.array([int((~answers[m]).sum()) for m in held], dtype=np.int64)[of]
        partition_ids = pl.Series(after.partitions.ids, dtype=pl.Int64)
        frame["partitions"] = lists_of(rows.shards, rows.shard_of, partition_ids)
        frame["read_partitions"] = lists_of(rows.reads, rows.read_of, partition_ids)
    return tables.TENANTS.sorted(tables.TENANTS.frame(frame))


def lost_load(placement: ReplicatedPlacement) -> np.ndarray:
    """Return the load of each tenant that cannot be written."""
    rows, tenants = placement.rows, placement.tenants
    out: np.ndarray = tenants.loads * placement.lost_share[rows.shard_of]
    if len(tenants.key_tenant):
        lost = np.append(placement.lost, True)[rows.key_row]  # the last entry answers for -1
        out = out + np.bincount(tenants.key_tenant[lost], tenants.key_weight[lost], len(out))
    return out


def spreads(placement: ReplicatedPlacement) -> np.ndarray:
    """Return the largest share of each shard's members over the mean; 1 where nothing is placed."""
    shares = placement.rows.shares
    if shares is None:
        return np.ones(len(placement.rows.shards))
    held = (shares > 0).sum(axis=1)
    total = shares.sum(axis=1)
    out: np.ndarray = np.where(total > 0, shares.max(axis=1, initial=0.0) * held / np.where(total > 0, total, 1), 1.0)
    return out


def partition_table(s: ReplicatedScenario) -> pl.DataFrame | None:
    """Build table ``partitions``; None for a token ring."""
    after = s.after
    if after.partitions is None:
        return None
    registered = set(after.ring.ids)
    answers = {i for i, ok in zip(after.ring.ids, after.ring.reading & ~after.failed, strict=True) if ok}
    rows = after.rows
    assert rows.partition is not None
    own = rows.partition >= 0
    count = len(after.partitions.partitions)
    whole = own & (rows.shard == 0)
    share = np.bincount(rows.partition[whole], rows.length[whole], count) / SPACE
    load = np.bincount(rows.partition[own], after.weight[own], count)
    listed = [
        (p.id, STATES[p.state], [o for o in p.owners if o in registered], [o for o in p.owners if o in answers],
         float(share[k]), float(load[k]), p.changed_s * 1000 if p.changed_s else None, p.locked)
        for k, p in enumerate(after.partitions.partitions)
    ]  # fmt: skip
    return tables.PARTITIONS.sorted(tables.PARTITIONS.frame(columns_of(tables.PARTITIONS, listed)))


def placements_table(s: ReplicatedScenario, p: RingParameters, notes: list[str]) -> pl.DataFrame:
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
    answer = _answers(s, np.unique(row))
    frame = pl.DataFrame({
        "tenant": pl.Series(tenants.names, dtype=pl.String).gather(pl.Series(tenants.key_tenant[first].astype(np.uint32))),
        "token": tenants.key_token[first],
        "bytes_per_s": np.rint(weight).astype(np.int64),
        "row": row,
    })  # fmt: skip
    frame = frame.join(answer, on="row", how="left", maintain_order="left").drop("row")
    return tables.PLACEMENTS.sorted(tables.PLACEMENTS.frame(frame))


def _answers(s: ReplicatedScenario, wanted: np.ndarray) -> pl.DataFrame:
    """Say what the ring answers for each row of ``wanted``: members that take the key, how many may fail, or why not."""
    after = s.after
    ring, rows = after.ring, after.rows
    # Requests to members that fail unnoticed return errors; the ring still names them.
    knows = ring.active if s.regime == "transient" else after.alive
    zoned = " across different availability zones" if replicated_ring(s.live).zone_aware else ""
    out: dict[str, list[Any]] = {name: [] for name in ("replicas", "max_errors", "error", "partition", "lost")}
    for row in wanted.tolist():
        members = [m for m in rows.members[row].tolist() if m >= 0] if row >= 0 else []
        live = [m for m in members if knows[m]]
        error, errors = "", None
        partition = None if rows.partition is None or row < 0 else int(rows.partition[row])
        if rows.partition is not None:
            assert after.partitions is not None
            live = members
            error = "no active partition" if partition is None or partition < 0 else ""
            partition = None if error or partition is None else int(after.partitions.ids[partition])
            errors = None if error else 0
        elif row < 0:
            error = "empty ring"
        elif len(live) < rows.needed[row]:
            bad = ",".join(ring.members[m].address or ring.ids[m] for m in members if not knows[m])
            error = f"at least {rows.needed[row]} live replicas required{zoned}, could only find {len(live)}" + (
                f" - unhealthy instances: {bad}" if bad else ""
            )
        else:
            errors = len(live) - int(rows.needed[row])
        out["replicas"].append([ring.ids[m] for m in live])
        out["max_errors"].append(errors)
        out["error"].append(error)
        out["partition"].append(partition)
        out["lost"].append(bool(row < 0 or after.lost[row]))
    schema: dict[str, Any] = {"replicas": pl.List(pl.String), "max_errors": pl.Int64, "error": pl.String, "partition": pl.Int64,
              "lost": pl.Boolean}  # fmt: skip
    return pl.DataFrame(out, schema=schema).with_columns(pl.Series("row", wanted, dtype=pl.Int64))


def restart_table(s: ReplicatedScenario, context: Context) -> pl.DataFrame:
    """Build table ``restart``: nodes, and whole zones, that leave and come back one after the other."""
    strategy, planned = replicated_ring(s.live), s.planned

    def step(fraction: float) -> None:
        context.check()

    rows: list[tuple[Any, ...]] = []
    zones = list(s.zones.items())
    units = [("node", strategy.sweep(planned, "nodes", [], "transient", None, step), planned.ring.ids)]
    if len(zones) > 1:
        sweep = strategy.sweep(planned, "zones", [members for _, members in zones], "transient", None, step)
        units.append(("zone", sweep, tuple(name for name, _ in zones)))
    answers = "LEAVING" in strategy.reading.healthy
    base_reads = int((~planned.reads_ok[planned.rows.read_of]).sum())
    writes_stay = "LEAVING" in strategy.writing.healthy
    for unit, sweep, names in units:
        if not sweep.down:
            continue
        worst = _worst(sweep)
        lost = sweep.write_lost_share[worst], sweep.tenants_write_lost[worst], sweep.tenants_read_lost[worst]
        base = float(planned.lost_share[0]), int((planned.lost_share > 0)[planned.rows.shard_of].sum()), base_reads
        leaving = (*(base[:2] if writes_stay else lost[:2]), base_reads if answers else lost[2])
        gone = frozenset(planned.ring.ids[m] for m in sweep.down[worst])
        later = strategy.without(planned, gone, context.check)
        away = (float(later.lost_share[0]), int((later.lost_share > 0)[later.rows.shard_of].sum()),
                int((~later.reads_ok[later.rows.read_of]).sum()))  # fmt: skip
        for state, totals in (("LEAVING", leaving), ("gone", away), ("JOINING", lost)):
            rows.append((len(rows) + 1, unit, state, names[worst], *totals))
    return tables.RESTART.frame(columns_of(tables.RESTART, rows))


def _worst(sweep: Sweep) -> int:
    return int(sweep.order()[0])
