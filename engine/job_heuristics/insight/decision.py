"""Why a verdict is what it is, and how far it is from the next level, in words with the job's own numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.job_heuristics.insight.severity_rules import MINUTE, Gate, Tree
from engine.job_heuristics.tables import SEVERITIES


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of a verdict: its value, the four limits, the severity it would give alone, whether it ``decides``
    (is the one that keeps the verdict where it is), and ready texts."""

    key: str
    label: str
    unit: str
    value: float
    limits: tuple[float, ...]
    rising: bool
    level: int
    decides: bool
    value_text: str
    limits_text: str

    @property
    def phrase(self) -> str:
        """Value and what it is: ``160 tasks``, ``0.3 min average run time``, ``factor ... 3``."""
        if self.unit == "tasks":
            where = self.label.removeprefix("tasks ")
            return self.value_text if self.key == "tasks" else f"{self.value_text} {where}"
        if self.unit in ("", "10000"):
            return f"{self.label} {self.value_text}"
        return f"{self.value_text} {self.label}"


@dataclass(frozen=True, slots=True)
class Why:
    """One verdict explained: ``level`` 0-4, its limits branch by branch, which decides and what one level up (worse)
    and down (better) would take. ``margin`` is the smallest relative move that changes the verdict, infinite if no
    single move can."""

    heuristic: str
    side: str
    level: int
    branches: tuple[tuple[Limit, ...], ...]
    reason: str
    worse: str
    better: str
    margin: float


def amount(value: float, unit: str) -> str:
    """A value in the words of its unit: minutes, MB, MB/s, tasks or a bare number."""
    if not np.isfinite(value):
        return "infinite" if value > 0 else "undefined"
    if unit == "ms":
        return f"{value / MINUTE:.1f} min" if value >= MINUTE / 10 or value == 0 else f"{value / 1000:.2f} s"
    if unit in ("bytes", "bytes/s"):
        tail = "/s" if unit == "bytes/s" else ""
        for size, name in ((2**40, "TB"), (2**30, "GB"), (2**20, "MB"), (2**10, "KB")):
            if value >= size:
                return f"{value / size:.1f} {name}{tail}"
        return f"{value:.0f} bytes{tail}"
    if unit == "tasks":
        return f"{value:,.0f} task{'' if round(value) == 1 else 's'}"
    if unit == "10000":
        return f"{value / 10_000:.4g}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _step(gate: Gate, value: float, level: int, worse: bool) -> tuple[float, float] | None:
    """How far one gate is from giving at least ``level`` (``worse``) or less than ``level``: (gap, limit). None if it
    cannot be reached by this gate."""
    limit = gate.limits[level - 1]
    if worse:
        gap = limit - value if gate.rising else value - limit
        return (max(0.0, gap), limit)
    gap = value - limit if gate.rising else limit - value
    return (max(0.0, gap), limit) if np.isfinite(gap) else None


def _move(gate: Gate, gap: float, worse: bool) -> str:
    grows = gate.rising == worse
    if gate.unit == "tasks":
        # Below a limit means one less than it.
        count = int(np.ceil(gap)) if worse else int(np.floor(gap)) + 1
        where = f" ({gate.label})" if gate.key != "tasks" else ""
        return f"{count:,} {'more' if grows else 'fewer'} task{'' if count == 1 else 's'}{where}"
    if gap == 0:
        return f"any {'rise' if grows else 'fall'} of {gate.label} below its limit" if not worse else gate.label
    if gate.unit in ("", "10000"):
        return f"{gate.label} {amount(gap, gate.unit)} {'higher' if grows else 'lower'}"
    return f"{amount(gap, gate.unit)} {'more' if grows else 'less'} {gate.label}"


def _relative(gap: float, limit: float, value: float) -> float:
    scale = max(abs(limit), abs(value))
    return gap / scale if scale > 0 else 0.0


def explain(tree: Tree) -> Why:
    """A verdict's explanation from its tree with one copy (the tasks as they are)."""
    level = int(tree.levels()[0])
    held = [[(g, float(g.value[0]), int(g.levels()[0])) for g in branch] for branch in tree.branches]
    strength = [min(lev for _, _, lev in branch) for branch in held]
    best = max(strength, default=0)
    branches = tuple(
        tuple(
            Limit(
                g.key,
                g.label,
                g.unit,
                value,
                tuple(g.limits),
                g.rising,
                lev,
                tree.measured and strength[b] == best and lev == strength[b],
                amount(value, g.unit),
                f"{'>=' if g.rising else '<='} {', '.join(amount(x, g.unit) for x in g.limits)}",
            )
            for g, value, lev in branch
        )
        for b, branch in enumerate(held)
    )
    if not tree.measured:
        return Why(tree.heuristic, tree.side, 0, branches, f"No {tree.side} task to judge.", "", "", float("inf"))
    deciding = [limit for branch in branches for limit in branch if limit.decides]
    reason = _reason(level, deciding)
    up, up_margin = _worse(held, level)
    down, down_margin = _better(held, strength, level)
    return Why(tree.heuristic, tree.side, level, branches, reason, up, down, min(up_margin, down_margin))


def _reason(level: int, deciding: list[Limit]) -> str:
    parts = [f"{limit.phrase} (limits {limit.limits_text})" for limit in deciding[:3]]
    verb = (
        ("keep" if len(parts) > 1 else "keeps") + " it at" if level < 4 else "make it" if len(parts) > 1 else "makes it"
    )
    return f"{'; '.join(parts)} {verb} {SEVERITIES[level]}."


def _worse(held: list[list[tuple[Gate, float, int]]], level: int) -> tuple[str, float]:
    """The easiest way to the next worse level: one branch of which every gate must reach it."""
    if level >= 4:
        return "already at the worst level", float("inf")
    ways = []
    for branch in held:
        moves: list[str] = []
        margin = 0.0
        for gate, value, lev in branch:
            if lev > level:
                continue
            step = _step(gate, value, level + 1, True)
            if step is None or not np.isfinite(value):
                moves = []
                margin = float("inf")
                break
            moves.append(_move(gate, step[0], True))
            margin = max(margin, _relative(step[0], step[1], value))
        if moves:
            ways.append((margin, f"{SEVERITIES[level + 1]} with {' and '.join(moves)}"))
    if not ways:
        return "", float("inf")
    margin, text = min(ways)
    return text, margin


def _better(held: list[list[tuple[Gate, float, int]]], strength: list[int], level: int) -> tuple[str, float]:
    """The easiest way to the next better level: in every branch that holds the level, one gate must drop below it."""
    if level == 0:
        return "already at the best level", float("inf")
    moves, worst = [], 0.0
    for branch, held_at in zip(held, strength, strict=True):
        if held_at < level:
            continue
        ways = []
        for gate, value, _ in branch:
            step = _step(gate, value, level, False)
            if step is not None:
                ways.append((_relative(step[0], step[1], value), _move(gate, step[0], False)))
        if not ways:
            return "", float("inf")
        margin, text = min(ways)
        moves.append(text)
        worst = max(worst, margin)
    return f"{SEVERITIES[level - 1]} with {' and '.join(moves)}", worst
