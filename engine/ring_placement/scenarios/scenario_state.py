"""From inputs and parameters to placements: the live one, the configured one, the one the scenario leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import polars as pl

from engine.inputs import Inputs
from engine.problems import Problem
from engine.ring_placement.parameters import RingParameters, parse_capacity, parse_now
from engine.ring_placement.pyroscope.keys import Keys, Placement, place
from engine.ring_placement.pyroscope.ring import Member, Ring
from engine.ring_placement.pyroscope.subrings import TRIES
from engine.ring_placement.reading.sources import Cluster, build_keys, gather
from engine.ring_placement.scenarios.failover import (
    Outcome,
    departed,
    failing,
    mask,
    relaid,
    touched,
)
from engine.ring_placement.scenarios.scenario import PER_CORE, Round, cascade, fail_set, padded, scaled
from engine.view import Context

T = TypeVar("T")
_KEPT = 6


def remember(memo: dict[Any, Any], name: str, key: Hashable, make: Callable[[], T]) -> T:
    """``make()``, or what it gave for the same ``key`` before; the last few keys are kept per ``name``."""
    kept: dict[Hashable, T] = memo.setdefault(name, {})
    if key in kept:
        value = kept.pop(key)
    else:
        value = make()
        while len(kept) >= _KEPT:
            kept.pop(next(iter(kept)))
    kept[key] = value
    return value


@dataclass(frozen=True, eq=False)
class Live:
    """The live state: the cluster, its members as seen at ``now_ns``, the keys, and where they are placed."""

    cluster: Cluster
    members: tuple[Member, ...]
    now_ns: int
    keys: Keys
    texts: pl.DataFrame
    placement: Placement
    key: Hashable


def live(inputs: Inputs, p: RingParameters, context: Context) -> Live:
    """Read, judge health and place, each step only when its inputs changed."""
    memo = context.memo
    cluster_key = (inputs.version, p.ring, p.load, context.at_ms)
    cluster = remember(memo, "cluster", cluster_key, lambda: gather(inputs, p.ring, p.load, context.at_ms))
    if p.now is not None:
        now_ns = parse_now(p.now)
    elif context.at_ms is not None:
        now_ns = context.at_ms * 1_000_000
    else:
        now_ns = cluster.ring.now_ns if cluster.ring else 0
    key = (*cluster_key, now_ns, p.heartbeat_timeout)

    def make() -> Live:
        context.check()
        listed = cluster.ring.members if cluster.ring else ()
        members = tuple(m.at(now_ns, p.heartbeat_timeout) for m in listed)
        members = tuple(sorted(members, key=lambda m: m.id.encode("utf-8", "surrogatepass")))
        ring = Ring.of(members)
        keys, texts = build_keys(cluster, ring)
        context.check()
        return Live(cluster, members, now_ns, keys, texts, place(ring, keys, TRIES), key)

    return remember(memo, "live", key, make)


@dataclass(frozen=True, eq=False)
class Scenario:
    """``before``: what the scenario is compared with; ``mid``: laid out as the scenario has it, before anything fails;
    ``after``: what is left. ``members``: every member of the scenario; ``down``, ``fresh`` (new by a scale step),
    ``removed`` (by one) and ``leaving`` their IDs; ``padded`` whether IDs are renamed. ``capacity`` by ID;
    ``comparable`` False where it is in another byte unit than the load."""

    live: Live
    regime: str
    before: Placement
    mid: Placement
    after: Placement
    outcome: Outcome
    members: tuple[Member, ...]
    down: tuple[str, ...]
    fresh: tuple[str, ...]
    removed: frozenset[str]
    padded: bool
    leaving: tuple[str, ...]
    capacity: dict[str, int]
    comparable: bool
    rounds: tuple[Round, ...]
    mid_key: Hashable
    notes: tuple[str, ...]
    problems: tuple[Problem, ...]


def _option_problem(option: str, reason: str) -> Problem:
    return Problem.at(f"-o {option}", "bad-option", reason)


def configured(state: Live, p: RingParameters, problems: list[Problem]) -> tuple[list[Member], Keys]:
    """Members and keys with tokens, limits, padding and the home zone of the parameters."""
    members = list(state.members)
    if p.home_zone is not None:
        if any(m.zone == p.home_zone for m in members):
            members = [m for m in members if m.zone == p.home_zone]
        else:
            problems.append(_option_problem("home-zone", f"no member is in zone {p.home_zone!r}; all zones are used"))
    if p.tokens is not None:
        members = [replace(m, tokens=p.tokens) if m.placed else m for m in members]
    if p.scale_ids == "padded":
        width = len(str(max(len(members), p.scale or 0) * 10 - 1)) if members else 1
        names = {m.id for m in padded(members, width)}
        if len(names) == len(members):
            members = padded(members, width)
    keys = state.keys
    if p.tenant_shards is not None or p.dataset_shards is not None:
        keys = keys.with_limits(p.tenant_shards, p.dataset_shards)
    return members, keys


def capacities(members: tuple[Member, ...], p: RingParameters, unit_source: str) -> tuple[dict[str, int], bool]:
    """Capacity by member ID, and whether it may be compared with the load: a size given is in the load's unit, cores
    are in uncompressed profile bytes."""
    common, special = parse_capacity(p.capacity)
    by_cores = common is None and p.cores is not None
    if by_cores and p.cores is not None:
        common = round(p.cores * PER_CORE)
    found = {m.id: special.get(m.id, common) for m in members}
    comparable = not by_cores or unit_source in ("ingest", "table", "")
    return {i: c for i, c in found.items() if c is not None}, comparable


def scenario(state: Live, p: RingParameters, context: Context) -> Scenario:
    """Apply the parameters' scenario to the live state."""
    memo = context.memo
    notes: list[str] = []
    problems: list[Problem] = []
    config_key = (state.key, p.home_zone, p.tokens, p.tenant_shards, p.dataset_shards, p.scale_ids)
    plain = config_key[1:] == (None, None, None, None, "plain")

    members, keys = configured(state, p, problems)
    base = (
        state.placement
        if plain
        else remember(
            memo, "configured", (*config_key, p.scale), lambda: place(Ring.of(members), keys, TRIES, state.placement)
        )
    )
    mid = base
    fresh: tuple[str, ...] = ()
    mid_key: Hashable = (*config_key, None, ())
    if p.scale is not None:
        placed = [m for m in members if m.placed]
        width = len(str(max(len(members), p.scale) * 10 - 1)) if p.scale_ids == "padded" else 0
        chosen = {m.id for m in placed}
        # The ID of a tombstone is free again; that of a silent member, or of one in another zone, is not.
        others = [m for m in (*members, *state.members) if m.id not in chosen and m.state != "LEFT"]
        grown = scaled(placed, p.scale, width, others)
        fresh = tuple(m.id for m in grown if m.id not in chosen)
        kept = {m.id for m in grown}
        members = [m for m in members if (m.id in kept if m.placed else m.id not in fresh)]
        members += [m for m in grown if m.id in fresh]
        mid_key = (*config_key, p.scale, ())
        mid = remember(memo, "scaled", mid_key, lambda: place(Ring.of(members), keys, TRIES, base))
    context.check()
    leaving, unknown = fail_set(p.leaving, members)
    problems += [_option_problem("leaving", f"{name!r} is no member and no zone:NAME") for name in unknown]
    leaving = [i for i in leaving if i in set(mid.ring.ids)]
    if leaving:
        mid_key = (*config_key, p.scale, tuple(leaving))
        laid = mid
        ring = laid.ring.with_state(leaving, "LEAVING")
        mid = remember(memo, "leaving", mid_key, lambda: place(ring, keys, TRIES, laid))
        members = [replace(m, state="LEAVING") if m.id in set(leaving) else m for m in members]
    wanted, unknown = fail_set(p.fail, members)
    problems += [_option_problem("fail", f"{name!r} is no member and no zone:NAME") for name in unknown]
    in_ring = set(mid.ring.ids)
    down = [i for i in wanted if i in in_ring]
    idle = [i for i in wanted if i not in in_ring]
    if idle:
        notes.append(f"already out of the ring, failing changes nothing: {', '.join(idle)}")

    # A failure or a scale step is compared with the ring as configured; limits and tokens alone with the live one.
    changes = bool(down or leaving or p.scale is not None)
    before = base if changes else state.placement
    capacity, comparable = capacities(tuple(members), p, state.cluster.load_source)
    rounds: tuple[Round, ...] = ()
    flags = mask(mid.ring, down)
    if p.cascade and p.regime == "transient" and capacity and comparable:
        limits = np.array([capacity.get(i, np.inf) for i in mid.ring.ids], dtype=np.float64)
        flags, _, rounds = cascade(mid, flags, limits, p.cascade_factor)
    elif p.cascade:
        notes.append("a cascade needs a capacity in the load's unit and the transient regime")

    removed = (
        frozenset(before.ring.ids) - frozenset(mid.ring.ids) if before is not state.placement or plain else frozenset()
    )
    lost = frozenset(down) | frozenset(leaving)
    if mid is before and p.regime == "transient" and not leaving:
        outcome, after = failing(mid, flags)
    elif p.regime == "transient" or not down:
        failure, after = failing(mid, flags)
        outcome = relaid(before, after, removed | frozenset(leaving))
        if flags.any():
            outcome = _with_failure(outcome, failure, before, frozenset(leaving) | removed)
    elif p.regime == "left":
        key = (mid_key, tuple(down))
        after = remember(memo, "left", key, lambda: departed(mid, down))
        outcome = relaid(before, after, lost | removed)
    else:
        key = (mid_key, tuple(down))
        away = remember(memo, "left", key, lambda: departed(mid, down))
        after = mid
        outcome = _returned(before, away, mid, frozenset(down))
    if fresh and p.scale is not None and not down and not leaving:
        # What a new node has to get is not needless.
        position = {name: i for i, name in enumerate(outcome.nodes)}
        arrived = sum(outcome.after[position[i]].item() for i in fresh)
        outcome = replace(outcome, needless_moved_bytes=max(0, outcome.needless_moved_bytes - arrived))
    all_down = tuple(mid.ring.ids[i] for i in np.flatnonzero(flags))
    return Scenario(
        state,
        p.regime,
        before,
        mid,
        after,
        outcome,
        tuple(sorted(members, key=lambda m: m.id.encode("utf-8", "surrogatepass"))),
        all_down,
        fresh,
        removed if p.scale is not None else frozenset(),
        p.scale_ids == "padded",
        tuple(leaving),
        capacity,
        comparable,
        rounds,
        mid_key,
        tuple(notes),
        tuple(problems),
    )


def _with_failure(outcome: Outcome, failure: Outcome, before: Placement, planned: frozenset[str]) -> Outcome:
    """``outcome`` of a new layout with the totals of what fails in it (regime A) or is leaving."""
    datasets, fully, tenants = failure.datasets_touched, failure.datasets_fully_on_down, failure.tenants_touched
    if planned:
        # Both a planned and an unplanned loss: count what either touches on the ring it acts on.
        more = touched(before, mask(before.ring, planned))
        datasets, fully, tenants = max(datasets, more[0]), max(fully, more[1]), max(tenants, more[2])
    return replace(
        outcome,
        rerouted_bytes=failure.rerouted_bytes + (outcome.rerouted_bytes if planned else 0),
        rejected_bytes=failure.rejected_bytes,
        needless_moved_bytes=max(0, outcome.needless_moved_bytes - failure.rerouted_bytes),
        datasets_touched=datasets,
        datasets_fully_on_down=fully,
        tenants_touched=tenants,
        mean_tries=failure.mean_tries,
    )


def _returned(before: Placement, away: Placement, back: Placement, down: frozenset[str]) -> Outcome:
    """Regime C: the map is as before the failure, and everything that moved away moves back."""
    outcome = relaid(away, back)
    first = relaid(before, away, down)
    on_returned = back.loads[mask(back.ring, down)].sum().item()
    loads = {name: i for i, name in enumerate(outcome.nodes)}
    earlier = np.zeros(len(outcome.nodes), dtype=before.loads.dtype)
    for name, load in zip(before.ring.ids, before.loads, strict=True):
        if name in loads:
            earlier[loads[name]] = load
    return replace(
        outcome,
        before=earlier,
        rejected_before=before.rejected,
        rerouted_bytes=0,
        needless_moved_bytes=max(0, outcome.moved_bytes - on_returned),
        datasets_touched=first.datasets_touched,
        datasets_fully_on_down=first.datasets_fully_on_down,
        tenants_touched=first.tenants_touched,
    )
