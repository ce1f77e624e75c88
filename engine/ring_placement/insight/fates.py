"""What becomes of each node in a scenario, in one word."""

from __future__ import annotations

from typing import Any

from engine.ring_placement.scenarios.scenario_state import Scenario

BY_REGIME = {"transient": "down", "unhealthy": "down", "left": "gone", "returned": "back"}
"""What becomes of a node that fails, by what the ring knows of it."""


def fates_of(s: Scenario[Any]) -> dict[str, str]:
    """Return by ID what becomes of each node before or after the scenario: down, gone, back, leaving, new, over (its capacity),
    unhealthy (another state than ACTIVE), or "" where nothing does."""
    members = {m.id: m for m in s.members}
    down, leaving, added = set(s.down), set(s.leaving), set(s.added)
    fates = {}
    for name, load in zip(s.outcome.nodes, s.outcome.after.tolist(), strict=True):
        limit = s.capacity.get(name) if s.comparable else None
        if name in down:
            fate = BY_REGIME[s.regime]
        elif name not in members:
            fate = "gone"
        elif name in leaving or members[name].state == "LEAVING":
            fate = "leaving"
        elif members[name].state != "ACTIVE":
            fate = "unhealthy"
        elif name in added:
            fate = "new"
        else:
            fate = "over" if limit is not None and load > limit else ""
        fates[name] = fate
    for m in s.members:
        if m.state == "UNHEALTHY":
            fates.setdefault(m.id, "unhealthy")
    return fates
