"""What the screen draws beyond the tables: the shard map, the time axis, and one key explained."""

from __future__ import annotations

from dataclasses import dataclass

from engine.ring_placement.insight.explain import Explanation


@dataclass(frozen=True, slots=True)
class NodeBar:
    """One node: ``before`` and ``after`` in bytes per second, ``capacity`` None where unknown; ``fate``: "" (nothing
    happens to it), down, gone, leaving, new or over."""

    id: str
    state: str
    zone: str
    before: float
    after: float
    capacity: float | None
    fate: str


@dataclass(frozen=True, slots=True)
class RegimeTotals:
    """One regime on the time axis: its name, letter, when it holds, and its totals (bytes per second)."""

    regime: str
    letter: str
    when: str
    worst_instance: str
    worst_load: float
    max_over_mean: float
    rejected_bytes: float
    moved_bytes: float


@dataclass(frozen=True, slots=True)
class ShardMapView:
    """The shard map before and in the scenario, as indices into ``nodes``.

    ``stored_by``: who takes each shard's load (-1: it is rejected, -2: its owner is out and it has no load). ``timeline``:
    the regimes computed for this scenario. ``cascade``: the nodes of each round.
    """

    nodes: tuple[NodeBar, ...]
    owner_before: tuple[int, ...]
    owner_after: tuple[int, ...]
    stored_by: tuple[int, ...]
    zones: tuple[str, ...]
    regime: str
    down: tuple[str, ...]
    timeline: tuple[RegimeTotals, ...] = ()
    cascade: tuple[tuple[str, ...], ...] = ()
    explanation: Explanation | None = None
    explain_error: str = ""
    flows: tuple[tuple[int, int, float], ...] = ()
    """Who takes over from failed and leaving nodes: (node, taker or -1 where it is rejected, bytes per second), the largest
    first."""
    unit: str = ""
    ring_label: str = ""
    now_ms: int = 0
