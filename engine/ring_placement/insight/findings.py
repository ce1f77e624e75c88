"""Findings on rings of every kind: overloaded nodes, and what the members themselves show."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np

from engine.core import units
from engine.core.tables import Kind
from engine.core.view import Finding, Level
from engine.ring_placement.pyroscope.ring import PLACED_STATES, Member
from engine.ring_placement.scenarios.scenario_state import Scenario

MAX_NAMED = 50  # most findings of one kind that are listed one by one


def with_rest(findings: list[Finding], count: int, subject: str, what: str) -> list[Finding]:
    """Add one finding for the rest if ``findings`` are only the first of ``count``."""
    rest = count - MAX_NAMED
    return [*findings, Finding(findings[0].level, subject, f"{rest} more {what}", rest=rest)] if rest > 0 else findings


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


SYSTEMS = ("cortex", "loki", "mimir", "pyroscope", "tempo")
"""Names of systems that one ring is not shared by."""


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
    findings += _odd_heartbeats(s.live.members)
    systems = [name for name in SYSTEMS if any(name in m.id.lower() for m in members)]
    if len(systems) > 1:
        met = (
            f"members are named after {some(systems)}: their memberlists seem to have met; set memberlist.cluster_label"
        )
        findings.append(Finding("moderate", "ring", met))
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


ODD_S = 300  # seconds between a heartbeat and the median of all that are odd for a member that counts as healthy


def _odd_heartbeats(members: Sequence[Member]) -> list[Finding]:
    """List healthy members whose heartbeats are far behind or ahead of the others': the timeout lets both pass."""
    beats = {m.id: m.heartbeat_s for m in members if m.heartbeat_s is not None and m.state in PLACED_STATES}
    middle = float(np.median([*beats.values()])) if beats else 0.0
    findings = []
    for sign, where, what in (
        (-1, "before", "counts as healthy all the same: see whether it runs, and set heartbeat_timeout (0 is never)"),
        (1, "after", "its clock is ahead, so that it will count as healthy that long after it dies: set the clock"),
    ):
        odd = {name: sign * (beat - middle) for name, beat in beats.items() if sign * (beat - middle) > ODD_S}
        if odd:
            text = f"last heartbeat {units.duration(max(odd.values()) * 1000)} {where} the others': {what}"
            findings.append(Finding("moderate", some([*odd]), text, ("nodes", (next(iter(odd)),))))
    return findings
