"""The notes of a result: what was used, what was assumed, and what is missing."""

from __future__ import annotations

from engine import units
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.scenarios.scenario_state import LiveState, Scenario


def state_notes(s: Scenario, p: RingParameters) -> list[str]:
    """List notes on the ring, the load and the parameters in force."""
    state = s.live
    notes = _ring_notes(state, p)
    if state.cluster.load_source:
        notes.append(f"load: {state.cluster.load_source}, {state.cluster.unit}")
    else:
        notes.append("no load in the files: placements only")
    if state.keys.row_weight.dtype.kind == "f":
        notes.append("loads have fractions of a byte per second; node totals are rounded")
    if state.keys.pinned is not None:
        approximate = s.after.ring.total != state.keys.pinned_total
        notes.append(
            "load known by tenant and shard only: datasets in the totals are such pairs"
            + ("; where they lie on the new ring is approximate" if approximate else "")
        )
    if s.capacity and not s.comparable:
        notes.append(
            "cores give a capacity in uncompressed profile bytes, the load is in another unit: no headroom is computed"
        )
    if p.regime != "transient" and not s.down and p.fail:
        notes.append("no failing member is in the ring")
    if p.scale_ids == "padded":
        notes.append("IDs are taken as if their ordinals were zero-padded")
    has_what_if = p.tenant_shards is not None or p.dataset_shards is not None or p.tokens is not None
    if has_what_if and s.before is not state.placement:
        notes.append(
            "before and after both have the limits and tokens given; the difference is the failure or scale step"
        )
    return notes


def _ring_notes(state: LiveState, p: RingParameters) -> list[str]:
    file, ring = state.cluster.ring, state.placement.ring
    if file is None:
        return ["no ring file: nothing can be placed; only what was observed is shown"]
    notes = [f"ring: {file.label} ({file.kind}), {ring.total} shards"]
    if file.others:
        plural = "s" if file.others > 1 else ""
        notes.append(f"{file.others} other ring file{plural} not used; -o ring= chooses one")
    if not ring.members:
        notes.append("empty ring: no healthy instance, Pyroscope answers UNAVAILABLE")
        notes += _stale_note(state, p)
    elif ring.total == 0:
        notes.append("the healthy instances have no tokens: every request is rejected")
    return notes


def _stale_note(state: LiveState, p: RingParameters) -> list[str]:
    """Name the option that judges heartbeats at the time they were written, where they are old only because the file is."""
    heartbeats = [m.heartbeat_s for m in state.members if m.state == "UNHEALTHY" and m.heartbeat_s]
    if p.now is not None or not heartbeats:
        return []
    newest = max(heartbeats)
    behind = units.duration(state.now_ns / 1_000_000 - newest * 1000)
    return [
        f"the newest heartbeat is {behind} before the file's time; -o now={newest} looks at the ring as it was then"
    ]
