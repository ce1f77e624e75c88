"""What the screen draws beyond the tables: one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
class Moment:
    """One regime on the time axis: its name, letter, when it holds, and its totals."""

    regime: str
    letter: str
    when: str
    worst_instance: str
    worst_load: float
    max_over_mean: float
    rejected_bytes: float
    moved_bytes: float


@dataclass(frozen=True, slots=True)
class Picture:
    """The shard map before and in the scenario as indices into ``nodes``, and who takes each shard's load (-1: nobody,
    -2: its owner is out and it has no load). ``timeline``: the moments computed for this scenario. ``cascade``: the nodes
    of each round."""

    nodes: tuple[NodeBar, ...]
    owner_before: tuple[int, ...]
    owner_after: tuple[int, ...]
    stored_by: tuple[int, ...]
    zones: tuple[str, ...]
    regime: str
    down: tuple[str, ...]
    timeline: tuple[Moment, ...] = ()
    cascade: tuple[tuple[str, ...], ...] = ()
    explanation: Explanation | None = None
    explain_error: str = ""
    flows: tuple[tuple[int, int, float], ...] = ()
    """Who takes what the failed and leaving nodes held: (node, taker or -1 where it is rejected, bytes per second), the
    largest first."""
    unit: str = ""
    ring_label: str = ""
    now_ms: int = 0
    extra: tuple[tuple[str, Any], ...] = ()
