"""From inputs and parameters to placements: live, before the scenario, and after it."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any, Generic

import msgspec
import numpy as np

from engine.core.reading import Problem
from engine.core.view import Context, Inputs
from engine.ring_placement.parameters import RingParameters, parse_capacity, parse_now
from engine.ring_placement.pyroscope.placement import Placement
from engine.ring_placement.pyroscope.ring import Member, Ring, in_byte_order
from engine.ring_placement.scenarios.cluster import Cluster, read_cluster
from engine.ring_placement.scenarios.failover import member_mask, named_members, pad_ids, scale_members
from engine.ring_placement.scenarios.replica_rows import ReplicatedPlacement, Rows
from engine.ring_placement.scenarios.replicated_rings import ReplicatedRing
from engine.ring_placement.scenarios.segment_writers import SegmentWriters, build_keys
from engine.ring_placement.scenarios.strategy import Outcome, P, Strategy

KEEP = 6  # number of recent scenarios whose partial results stay in the memo, so that going back to one is immediate

PER_CORE = 8_000_000
"""Bytes per second (uncompressed profiles) that one core takes: Pyroscope's rule of thumb of 8 MB/s."""


class LiveState(msgspec.Struct, Generic[P], frozen=True, eq=False):
    """The cluster without a scenario: its members as seen at ``now_ns``, its strategy with the load, and the placement. ``key``
    identifies it in the memo."""

    cluster: Cluster
    members: tuple[Member, ...]
    now_ns: int
    strategy: Strategy[P]
    placement: P
    key: Hashable


def live_state(inputs: Inputs, p: RingParameters, context: Context) -> LiveState[Any]:
    """Combine the files, judge the members' health and place the keys; a step whose inputs did not change comes from the memo."""
    memo = context.memo
    cluster_key = (inputs.version, p.ring, p.load, p.strategy, context.at_ms)
    cluster = memo.value(
        "cluster", cluster_key, lambda: read_cluster(inputs, p.ring, p.load, context.at_ms, p.strategy), keep=KEEP
    )
    now_ns = (cluster.ring.now_ns if cluster.ring else 0) if p.now is None else parse_now(p.now)
    key = (
        *cluster_key,
        now_ns,
        *(getattr(p, name) for name in ("now", "heartbeat_timeout", "replication_factor", "zone_awareness", "operation",
                                        "read_operation", "read_sharding", "lookback", "exclude_le", "request_series")),
    )  # fmt: skip

    def make() -> LiveState[Any]:
        context.check()
        members = tuple(in_byte_order(_judged(cluster, p, now_ns)))
        strategy: Strategy[Any]
        is_known = cluster.ring is not None and cluster.ring.strategy != ""
        if cluster.ring is not None and cluster.ring.strategy in ("token-ring", "partition-ring"):
            kept: dict[Hashable, Rows] = memo.state("replica rows", dict)
            replicated = ReplicatedRing.of(cluster, now_ns, p, kept)
            members, strategy = replicated.with_owners(members), replicated
        else:
            # Without a ring, or with one of unknown kind, nothing is placed; only observed data is shown.
            keys, texts = build_keys(cluster, Ring.of(members if is_known else ()))
            strategy = SegmentWriters(keys, texts)
        context.check()
        as_is = msgspec.structs.replace(p, tenant_shards=None, dataset_shards=None, tokens=None)
        placement = strategy.place(members if is_known else (), as_is, None, context.check)
        return LiveState(cluster, members, now_ns, strategy, placement, key)

    return memo.value("live", key, make, keep=KEEP)


def _judged(cluster: Cluster, p: RingParameters, now_ns: int) -> list[Member]:
    """Return the members with their states at ``now_ns``. A page has judged its heartbeats itself, by a timeout that is at least
    the age of every ACTIVE member; a key of a store has not."""
    ring, settings = cluster.ring, cluster.settings
    if ring is None:
        return []
    members = [dataclasses.replace(m, state="EXCLUDED") if m.zone in settings.excluded else m for m in ring.members]
    timeout_s = p.heartbeat_timeout
    if timeout_s is None:
        timeout_s = settings.system.timeout_s if settings.timeout_s is None else settings.timeout_s
        if ring.kind in ("page", "html"):
            beats = [m.heartbeat_s for m in members if m.state == "ACTIVE" and m.heartbeat_s is not None]
            timeout_s = max(timeout_s, ring.now_ns / 10**9 - min(beats)) if beats and timeout_s else timeout_s
            timeout_s = timeout_s if p.now is not None else 0.0
    return [m.at(now_ns, timeout_s) for m in members]


class Plan(msgspec.Struct, Generic[P], frozen=True, eq=False):
    """The ring that the parameters describe, before anything fails.

    ``base``: with the limits, tokens and IDs of the parameters; ``planned``: also with the scale step and the members that
    are LEAVING; ``planned_key`` identifies it in the memo. ``members``: every member; ``added`` (by the scale step) and
    ``leaving``: IDs. ``changed``: whether ``base`` differs from the live state.
    """

    base: P
    planned: P
    planned_key: Hashable
    members: list[Member]
    added: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    changed: bool = False


class Scenario(msgspec.Struct, Generic[P], frozen=True, eq=False, dict=True):
    """A scenario and its effect.

    ``before``: what it is compared with; ``planned``: the ring as it lays it out, before anything fails (``planned_key``
    identifies it in the memo); ``after``: what is left. ``members``: every member of the scenario; ``down``, ``added`` (by
    a scale step), ``removed`` (by one) and ``leaving`` their IDs; ``padded`` whether IDs are renamed. ``capacity`` (bytes
    per second) by ID; ``comparable`` False where it is in another byte unit than the load. ``rounds`` of a
    cascade: the IDs that fail in each.
    """

    live: LiveState[P]
    regime: str
    before: P
    planned: P
    after: P
    outcome: Outcome
    members: tuple[Member, ...]
    down: tuple[str, ...]
    added: tuple[str, ...]
    removed: frozenset[str]
    padded: bool
    leaving: tuple[str, ...]
    capacity: dict[str, int]
    comparable: bool
    rounds: tuple[tuple[str, ...], ...]
    planned_key: Hashable
    notes: tuple[str, ...]
    problems: tuple[Problem, ...]

    @cached_property
    def capacity_array(self) -> np.ndarray | None:
        """Capacity of each member of the planned ring (inf: not given), or None without one that may be compared."""
        if not self.capacity or not self.comparable:
            return None
        return np.array([self.capacity.get(i, np.inf) for i in self.planned.ring.ids], dtype=np.float64)

    @cached_property
    def zones(self) -> dict[str, tuple[int, ...]]:
        """Members of the planned ring (indices) by zone, sorted by name."""
        zones: dict[str, tuple[int, ...]] = {}
        for i, member in enumerate(self.planned.ring.members):
            zones[member.zone] = (*zones.get(member.zone, ()), i)
        return dict(sorted(zones.items()))


class _Messages(msgspec.Struct):
    notes: list[str] = msgspec.field(default_factory=list)
    problems: list[Problem] = msgspec.field(default_factory=list)

    def bad_option(self, option: str, reason: str) -> None:
        self.problems.append(Problem.at(f"-o {option}", "bad-option", reason))

    def named_members(self, option: str, wanted: Sequence[str], members: Sequence[Member]) -> list[str]:
        """Look up the members that ``wanted`` names; an unknown name is a problem of ``option``."""
        ids, unknown = named_members(wanted, members)
        for name in unknown:
            self.bad_option(option, f"{name!r} is neither a member nor zone:NAME")
        return ids


def apply_scenario(state: LiveState[P], p: RingParameters, context: Context) -> Scenario[P]:
    """Apply the parameters' scenario to the live state."""
    messages = _Messages()
    layout = _lay_out(state, p, context, messages)
    context.check()
    planned, base = layout.planned, layout.base
    in_ring = set(planned.ring.ids)
    wanted = messages.named_members("fail", p.fail, layout.members)
    down = tuple(i for i in wanted if i in in_ring)
    if len(down) < len(wanted):
        idle = ", ".join(i for i in wanted if i not in in_ring)
        messages.notes.append(f"already out of the ring, so failing changes nothing: {idle}")
    # A failure or a scale step is compared with the ring as configured; limits and tokens alone with the live one.
    before = base if down or layout.leaving or p.scale is not None else state.placement
    capacity, comparable = _capacities(layout.members, p, state.cluster.load_source)
    failed = member_mask(planned.ring, down)
    rounds: tuple[tuple[str, ...], ...] = ()
    if p.cascade and p.regime == "transient" and capacity and comparable:
        limits = np.array([capacity.get(i, np.inf) for i in planned.ring.ids], dtype=np.float64)
        failed, rounds = cascade(state.strategy, planned, failed, limits, p.cascade_factor)
    elif p.cascade:
        messages.notes.append("a cascade needs a capacity in the load's unit and the transient regime")
    removed = frozenset() if before is state.placement and layout.changed else frozenset(before.ring.ids) - in_ring
    outcome, after = _outcome(state.strategy, before, layout, p.regime, down, failed, removed, context)
    if layout.added and not down and not layout.leaving:
        # What a new node has to receive is not needless.
        arrived = sum(outcome.after[outcome.nodes.index(i)].item() for i in layout.added)
        outcome = msgspec.structs.replace(outcome, needless_moved_bytes=max(0, outcome.needless_moved_bytes - arrived))
    return Scenario(
        live=state, regime=p.regime, before=before, planned=planned, after=after, outcome=outcome,
        members=tuple(in_byte_order(layout.members)), down=tuple(planned.ring.ids[i] for i in np.flatnonzero(failed)),
        added=layout.added, removed=removed if p.scale is not None else frozenset(), padded=p.scale_ids == "padded",
        leaving=layout.leaving, capacity=capacity, comparable=comparable, rounds=rounds,
        planned_key=layout.planned_key, notes=tuple(messages.notes), problems=tuple(messages.problems),
    )  # fmt: skip


def _lay_out(state: LiveState[P], p: RingParameters, context: Context, messages: _Messages) -> Plan[P]:
    """Lay out the ring that the parameters describe: limits, tokens and IDs, then the scale step, then who is LEAVING."""
    memo = context.memo
    settings = (p.home_zone, p.tokens, p.tenant_shards, p.dataset_shards, p.scale_ids)
    changed = settings != (None, None, None, None, "plain")
    key = (state.key, *settings)
    members = _configured(state, p, messages)
    returning = set(named_members(p.fail, members)[0]) if p.regime == "returned" else set()
    returning = {m.id for m in members if m.id in returning and m.state == "UNHEALTHY"}
    place, check = state.strategy.place, context.check
    base = (
        memo.value("configured", (*key, p.scale), lambda: place(members, p, state.placement, check), keep=KEEP)
        if changed
        else state.placement
    )
    planned = base
    planned_key: tuple[Hashable, ...] = (*key, p.scale, ())
    added: tuple[str, ...] = ()
    if p.scale is not None:
        members, added = _scaled(state, members, p.scale, p.scale_ids == "padded")
        planned = memo.value("scaled", planned_key, lambda: place(members, p, base, check), keep=KEEP)
    if returning:
        planned_key, alike = (*planned_key, *sorted(returning)), planned
        members = [
            dataclasses.replace(m, state=m.written or "ACTIVE", written="") if m.id in returning else m for m in members
        ]
        planned = memo.value("returning", planned_key, lambda: place(members, p, alike, check), keep=KEEP)
    context.check()
    in_ring = set(planned.ring.ids)
    leaving = tuple(i for i in messages.named_members("leaving", p.leaving, members) if i in in_ring)
    if leaving:
        planned_key = (*planned_key, leaving)
        scaled = planned
        members = [dataclasses.replace(m, state="LEAVING") if m.id in leaving else m for m in members]
        planned = memo.value("leaving", planned_key, lambda: place(members, p, scaled, check), keep=KEEP)
    return Plan(base, planned, planned_key, members, added, leaving, changed)


def _configured(state: LiveState[P], p: RingParameters, messages: _Messages) -> list[Member]:
    """Return the members with the tokens, padded IDs and home zone of the parameters."""
    members = list(state.members)
    if p.home_zone is not None:
        if any(m.zone == p.home_zone for m in members):
            members = [m for m in members if m.zone == p.home_zone]
        else:
            messages.bad_option("home-zone", f"no member is in zone {p.home_zone!r}; all zones are used")
    if p.tokens is not None:
        members = [dataclasses.replace(m, tokens=p.tokens, values=None) if m.placed else m for m in members]
    if p.scale_ids == "padded":
        padded = pad_ids(members, _digits(members, p.scale))
        if len({m.id for m in padded}) == len(members):
            members = padded
    return members


def _digits(members: Sequence[Member], scale: int | None) -> int:
    """Return the number of digits that ordinals are padded to: room for ten times as many members."""
    return len(str(max(len(members), scale or 0) * 10 - 1)) if members or scale else 1


def _scaled(
    state: LiveState[P], members: list[Member], size: int, padded: bool
) -> tuple[list[Member], tuple[str, ...]]:
    """Grow or shrink the placed ``members`` to ``size``. Returns all members, and the IDs of new ones."""
    placed = [m for m in members if m.placed]
    ids = {m.id for m in placed}
    # The ID of a tombstone is free again; the IDs of silent members and of other zones are not.
    others = [m for m in (*members, *state.members) if m.id not in ids and not m.is_tombstone]
    scaled = scale_members(placed, size, _digits(members, size) if padded else 0, others)
    added = tuple(m.id for m in scaled if m.id not in ids)
    remaining = {m.id for m in scaled}
    members = [m for m in members if (m.id in remaining if m.placed else m.id not in added)]
    return members + [m for m in scaled if m.id in added], added


def _capacities(members: Sequence[Member], p: RingParameters, load_source: str) -> tuple[dict[str, int], bool]:
    """Return the capacity by member ID, and whether it is in the load's unit: sizes are, cores mean uncompressed profile
    bytes."""
    every_node, by_node = parse_capacity(p.capacity)
    by_cores = every_node is None and p.cores is not None
    if every_node is None and p.cores is not None:
        every_node = round(p.cores * PER_CORE)
    capacities: dict[str, Any] = {m.id: by_node.get(m.id, every_node) for m in members}
    comparable = not by_cores or load_source in ("ingest", "table", "")
    return {name: size for name, size in capacities.items() if size is not None}, comparable


def cascade(
    strategy: Strategy[P], placement: P, down: np.ndarray, capacity: np.ndarray, factor: float
) -> tuple[np.ndarray, tuple[tuple[str, ...], ...]]:
    """Let nodes above capacity × ``factor`` fail too, all at once, until nothing changes (regime A throughout; the systems
    have no protection against this).

    ``down``: bool per ring member; ``capacity``: load per ring member, inf if unknown. Returns the members down at the end, and
    the IDs that fail in each round.
    """
    rounds: list[tuple[str, ...]] = []
    while True:
        outcome, _ = strategy.fail(placement, down, "transient")
        over = ~down & (outcome.after > capacity * factor)
        if not over.any():
            return down, tuple(rounds)
        down = down | over
        rounds.append(tuple(placement.ring.ids[i] for i in np.flatnonzero(over)))


def _outcome(
    strategy: Strategy[P],
    before: P,
    layout: Plan[P],
    regime: str,
    down: tuple[str, ...],
    failed: np.ndarray,
    removed: frozenset[str],
    context: Context,
) -> tuple[Outcome, P]:
    """Compute the effect in the chosen regime, and the placement after it.

    ``down``: the members that fail; ``failed``: these and those that a cascade takes down (bool per ring member);
    ``removed``: those that a scale step removes.
    """
    planned, leaving = layout.planned, frozenset(layout.leaving)
    stays = regime in ("transient", "unhealthy")
    if planned is before and stays and not leaving:
        return strategy.fail(planned, failed, regime)
    if stays or not down:
        failure, after = strategy.fail(planned, failed, regime)
        outcome = strategy.compare(before, after, removed | leaving)
        if failed.any():
            planned_loss = leaving | removed
            more = strategy.touched(before, member_mask(before.ring, planned_loss)) if planned_loss else None
            datasets, fully, tenants = failure.datasets_touched, failure.datasets_fully_on_down, failure.tenants_touched
            if more is not None:
                datasets, fully, tenants = max(datasets, more[0]), max(fully, more[1]), max(tenants, more[2])
            outcome = msgspec.structs.replace(
                outcome,
                rerouted_bytes=failure.rerouted_bytes + (outcome.rerouted_bytes if more is not None else 0),
                rejected_bytes=failure.rejected_bytes,
                needless_moved_bytes=max(0, outcome.needless_moved_bytes - failure.rerouted_bytes),
                datasets_touched=datasets,
                datasets_fully_on_down=fully,
                tenants_touched=tenants,
                mean_tries=failure.mean_tries,
            )
        return outcome, after
    key = (layout.planned_key, down)
    away = context.memo.value("left", key, lambda: strategy.without(planned, frozenset(down), context.check), keep=KEEP)
    if regime == "left":
        return strategy.compare(before, away, frozenset(down) | leaving | removed), away
    return _returned(strategy, before, away, planned, frozenset(down)), planned


def _returned(strategy: Strategy[P], before: P, away: P, back: P, down: frozenset[str]) -> Outcome:
    """Compute regime C: the layout is that before the failure, and everything that moved away moves back."""
    outcome = strategy.compare(away, back)
    first = strategy.compare(before, away, down)
    on_returned = back.loads[member_mask(back.ring, down)].sum().item()
    loads = dict(zip(before.ring.ids, before.loads, strict=True))
    return msgspec.structs.replace(
        outcome,
        before=np.array([loads.get(name, 0) for name in outcome.nodes], dtype=before.loads.dtype),
        rejected_before=before.rejected,
        rerouted_bytes=0,
        needless_moved_bytes=max(0, outcome.moved_bytes - on_returned),
        datasets_touched=first.datasets_touched,
        datasets_fully_on_down=first.datasets_fully_on_down,
        tenants_touched=first.tenants_touched,
    )


def segment_load(state: LiveState[Placement]) -> SegmentWriters:
    """Return the strategy of a ring of segment writers, which has its keys."""
    assert isinstance(state.strategy, SegmentWriters)
    return state.strategy


def replicated_ring(state: LiveState[ReplicatedPlacement]) -> ReplicatedRing:
    """Return the strategy of a ring with replicas, which has its settings."""
    assert isinstance(state.strategy, ReplicatedRing)
    return state.strategy


SegmentState = LiveState[Placement]
SegmentScenario = Scenario[Placement]  # the state and the scenario of a ring of segment writers
ReplicatedState = LiveState[ReplicatedPlacement]
ReplicatedScenario = Scenario[ReplicatedPlacement]  # the state and the scenario of a token ring or a partition ring
