"""Cached data: stored and never read, or dropped again for want of memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from engine.core import units
from engine.job_heuristics.spark.insight.findings.insight import Insight, level
from engine.job_heuristics.spark.model.app import App

APP = "application"


def insights(app: App) -> Iterator[Insight]:
    """Yield the insights on cached data."""
    room = sum(one.max_memory for one in app.executors if one.active)
    yield from _unread(app, room)
    dropped = {rdd: stored.dropped for rdd, stored in app.stored.items() if stored.dropped}
    if dropped:
        count = sum(dropped.values())
        blocks = sum(stored.blocks for stored in app.stored.values())
        yield Insight(
            "evicted blocks", APP, f"{count:,}", "0", level(count / max(1, blocks), 0.0001, 0.1, 0.5, 1.0),
            f"{count:,} cached blocks were dropped to make room ({blocks:,} were stored, of {_named(list(dropped))}); whoever "
            "needs them computes them again.", "spark.executor.memory", "more",
        )  # fmt: skip


def unread(app: App) -> list[int]:
    """Return the RDDs that are to be stored and that only the stage that computes them works on: nothing reads them later.

    A stage names all RDDs it computes or reads from storage; repeated attempts of it are no further reader."""
    users: dict[int, set[int]] = defaultdict(set)
    for stage in app.stages:
        if stage.completed_tasks:
            for rdd in stage.cached:
                users[rdd].add(stage.stage)
    return sorted(rdd for rdd, stages in users.items() if len(stages) == 1)


def _unread(app: App, room: int) -> Iterator[Insight]:
    found = unread(app)
    if not found:
        return
    held = sum(app.stored[rdd].memory + app.stored[rdd].disk for rdd in found if rdd in app.stored)
    size = f", {units.size(held)} at most," if held else ""
    yield Insight(
        "cached, never read", APP, units.size(held) if held else f"{len(found):,} RDDs", "0",
        max(1, level(held / room, 0.0001, 0.1, 0.3, 0.6) if room else 1),
        f"{_named(found)}{size} {'was' if len(found) == 1 else 'were'} stored by the stage that computed "
        f"{'it' if len(found) == 1 else 'them'}, and no later stage reads {'it' if len(found) == 1 else 'them'}: leave out "
        "cache() or persist(), or call unpersist() early.",
    )  # fmt: skip


def _named(rdds: list[int]) -> str:
    """Write the first few RDDs."""
    more = f" and {len(rdds) - 5:,} more" if len(rdds) > 5 else ""
    return f"RDD{'s' if len(rdds) > 1 else ''} {', '.join(map(str, rdds[:5]))}{more}"
