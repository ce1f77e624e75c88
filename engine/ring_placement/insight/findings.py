"""Findings on rings of every kind: overloaded nodes, and what the members themselves show."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from engine.core import units
from engine.core.tables import Kind
from engine.core.view import Finding, Level
from engine.ring_placement.scenarios.scenario_state import Scenario

MAX_NAMED = 50  # most findings of one kind that are listed one by one


def overloads(s: Scenario[Any], kind: Kind) -> list[Finding]:
    """List the nodes above their capacity: before anything fails, or because of the scenario's failure."""
    if not s.capacity or not s.comparable:
        return []
    findings, now = [], dict(zip(s.planned.ring.ids, s.planned.loads.tolist(), strict=True))
    for name, after in zip(s.outcome.nodes, s.outcome.after.tolist(), strict=True):
        limit, load = s.capacity.get(name, inf), now.get(name, 0)
        level: Level = "severe" if load > limit else "moderate"
        when, carried = ("before anything fails", load) if load > limit else ("in the scenario", after)
        if load > limit or (s.down and after > limit):
            text = f"carries {units.text(kind, carried)} {when}, its capacity is {units.text(kind, limit)}"
            findings.append(Finding(level, name, text, ("nodes", (name,))))
    return findings


def some(names: Sequence[str], most: int = 3) -> str:
    """Name the first ``most`` of ``names`` and count the others, as a part of a sentence."""
    shown = list(names) if len(names) <= most + 1 else [*names[:most], f"{len(names) - most} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def member_findings(s: Scenario[Any]) -> list[Finding]:
    """List what the members themselves show: heartbeats that are too old, addresses of several members, pages that disagree."""
    members = [m for m in s.members if m.state not in ("LEFT", "EXCLUDED")]
    findings = []
    late = [m.id for m in members if m.state == "UNHEALTHY" and not m.is_tombstone]
    if late and s.planned.ring.members:
        subject = late[0] if len(late) == 1 else f"{len(late)} members"
        whose = "its heartbeat is" if len(late) == 1 else f"the heartbeats of {some(late)} are"
        text = f"{whose} too old; bring back, or forget on the ring page, what does not come back"
        findings.append(Finding("moderate", subject, text, ("nodes", (late[0],))))
    by_address: dict[str, list[str]] = {}
    for m in members:
        by_address.setdefault(m.address, []).append(m.id)
    shared = [(address, names) for address, names in by_address.items() if address and len(names) > 1]
    if shared:
        (address, names), more = shared[0], len(shared) - 1
        also = f", and so do members of {more} more address{'es' if more > 1 else ''}" if more else ""
        text = f"share the address {address}{also}: requests for them reach one process, which fails for all; forget what is gone"
        findings.append(Finding("moderate", some(names), text, ("nodes", (names[0],))))
    disagreements = s.live.cluster.ring.disagreements if s.live.cluster.ring is not None else ()
    return [*findings, *(Finding("moderate", label, text) for label, text in disagreements)][:MAX_NAMED]
