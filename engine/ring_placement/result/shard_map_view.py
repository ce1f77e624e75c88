"""What the screen draws beyond the tables: the shard map and the time axis."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeBar:
    """One node: ``capacity`` in bytes per second, None where unknown; ``fate``: "" (nothing happens to it), down, gone,
    leaving, new, back or over."""

    id: str
    zone: str
    capacity: float | None
    fate: str


@dataclass(frozen=True, slots=True)
class RegimeTotals:
    """One regime on the time axis: its name, letter, and totals (bytes per second)."""

    regime: str
    letter: str
    max_over_mean: float
    rejected_bytes: float
    moved_bytes: float


@dataclass(frozen=True, slots=True)
class ShardMapView:
    """The shard map before and in the scenario, as indices into ``nodes``.

    ``stored_by``: who takes each shard's load (-1: it is rejected, -2: its owner is out and it has no load). ``timeline``:
    the regimes computed for this scenario. ``flows``: who takes over from failed and leaving nodes (node, taker or -1 where
    it is rejected, bytes per second), the largest first.
    """

    nodes: tuple[NodeBar, ...]
    owner_before: tuple[int, ...]
    owner_after: tuple[int, ...]
    stored_by: tuple[int, ...]
    regime: str
    down: tuple[str, ...]
    timeline: tuple[RegimeTotals, ...] = ()
    flows: tuple[tuple[int, int, float], ...] = ()
