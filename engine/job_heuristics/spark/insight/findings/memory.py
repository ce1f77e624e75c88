"""Memory: heaps too large or too small, spills, and cached data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from engine.core import units
from engine.job_heuristics.spark.insight.advice import HIGH_PEAK, LOW_PEAK, PEAK_ROOM, peak_heap
from engine.job_heuristics.spark.insight.findings.insight import Insight, level
from engine.job_heuristics.spark.insight.resources import MB, Resources, heap_bytes, is_local, partitions_key
from engine.job_heuristics.spark.insight.skew import StageTasks
from engine.job_heuristics.spark.model.app import App

APP = "application"
RESERVED = 300 * MB
"""Heap reserved by Spark."""
_GC = (0.08, 0.1, 0.15, 0.2)
LEAST_RUN_MS = 10_000
"""Least task time of a stage or executor to be considered."""


def insights(app: App, held: Resources, tasks: Mapping[tuple[int, int], StageTasks]) -> Iterator[Insight]:
    """Yield the insights on memory."""
    if not held.held:
        return
    mb_ms = sum(one.mb * one.life_ms for one in held.held)
    heap, peak = heap_bytes(app), peak_heap(app)
    share = peak / heap if peak else None
    used = f"; of the heap {share:.0%} was used at most" if share is not None else "; no peaks were logged"
    yield Insight(
        "memory x time", APP, units.text("mb_s", mb_ms / 1000), "", 0,
        f"{len(held.held):,} x {held.held[0].mb:,} MB (overhead included) over their lives{used}.",
    )  # fmt: skip
    key = f"spark.{'driver' if is_local(app) else 'executor'}.memory"
    if share is not None:
        wanted = f"{-(-int(peak * PEAK_ROOM) // (128 * MB)) * 128}m"
        if share > HIGH_PEAK:
            wanted = f"{int(heap * 1.2) // MB}m"
        fits = LOW_PEAK <= share <= HIGH_PEAK
        yield Insight(
            "peak heap", APP, f"{share:.0%}", "70 to 95 %", 0 if fits else 3 if share > HIGH_PEAK else level(1 - share, 0.3, 0.6),
            f"The fullest heap held {units.text('bytes', peak)} of {units.text('bytes', heap)}.",
            "" if fits else key, "" if fits else wanted,
        )  # fmt: skip
    yield from _unified(app, heap)
    yield from _spill(app, tasks)
    yield from _collections(app, held, key)
    run = sum(one.executor.run_ms for one in held.held)
    gc = sum(stage.sums["gc_ms"] for stage in app.stages)
    if run:
        yield Insight(
            "garbage collection", APP, f"{gc / run:.1%}", "8 %", level(gc / run, *_GC),
            f"Tasks spent {units.duration(gc)} of {units.duration(run)} in garbage collection; an executor's is counted for "
            "each of its tasks.", key if gc / run >= _GC[0] else "", "more" if gc / run >= _GC[0] else "",
        )  # fmt: skip
    stored = sum(one.memory_used for one in app.executors)
    room = sum(one.max_memory for one in app.executors if one.active)
    if stored and room:
        yield Insight(
            "cached blocks", APP, units.text("bytes", stored), units.text("bytes", room), level(stored / room, 0.5, 0.8, 0.95),
            f"Blocks stored at the end fill {stored / room:.0%} of the memory for storage and execution.",
            key if stored / room >= 0.5 else "", "more" if stored / room >= 0.5 else "",
        )  # fmt: skip


def _collections(app: App, held: Resources, key: str) -> Iterator[Insight]:
    """Find stages, and at most five executors, with a larger share of garbage collection than the application."""
    slow = [
        (f"stage {stage.stage}", stage.sums["gc_ms"], stage.sums["run_ms"]) for stage in app.stages
    ]  # fmt: skip
    run, gc = (sum(getattr(one.executor, name) for one in held.held) for name in ("run_ms", "gc_ms"))
    executors = [(f"executor {one.executor.name}", one.executor.gc_ms, one.executor.run_ms) for one in held.held]
    odd = [each for each in executors if each[1] * run >= 2 * gc * each[2]]
    slow += sorted(odd, key=lambda each: -each[1])[:5]
    for subject, collecting, ran in slow:
        if ran >= LEAST_RUN_MS and collecting >= _GC[0] * ran:
            yield Insight(
                "garbage collection", subject, f"{collecting / ran:.1%}", f"{_GC[0]:.0%}", level(collecting / ran, *_GC),
                f"Its tasks spent {units.duration(collecting)} of {units.duration(ran)} in garbage collection.", key, "more",
            )  # fmt: skip


def _unified(app: App, heap: int) -> Iterator[Insight]:
    """Compare the peak of unified memory (execution and storage) with its share of the heap."""
    peak = max((one.peaks["unified"] for one in app.executors), default=0)
    fraction = share_of(app, "spark.memory.fraction", 0.6)
    room = int((heap - RESERVED) * fraction)
    if peak and room > 0:
        share = peak / room
        yield Insight(
            "unified memory", APP, f"{share:.0%}", "95 %", level(share, 0.95, 0.99),
            f"Execution and storage held {units.text('bytes', peak)} at most of {units.text('bytes', room)} "
            f"(heap less 300 MB, times spark.memory.fraction {fraction:g}).",
            "spark.executor.memory" if share >= 0.95 else "", "more" if share >= 0.95 else "",
        )  # fmt: skip

    storage = max((one.peaks["storage"] for one in app.executors), default=0)
    part = share_of(app, "spark.memory.storageFraction", 0.5)
    if storage and room > 0 and part > 0:
        share = storage / (room * part)
        yield Insight(
            "storage memory", APP, f"{share:.0%}", "100 %", level(share, 1.0, 1.5, 1.9),
            f"Cached blocks held {units.text('bytes', storage)} at most; {units.text('bytes', int(room * part))} of the "
            f"unified memory cannot be taken from them (spark.memory.storageFraction {part:g}).",
            "spark.executor.memory" if share >= 1 else "", "more" if share >= 1 else "",
        )  # fmt: skip


def share_of(app: App, key: str, default: float) -> float:
    """Return a property that is a share, 0 to 1; the default if unreadable."""
    try:
        return min(max(float(app.properties.get(key) or default), 0.0), 1.0)
    except ValueError:
        return default


def _spill(app: App, tasks: Mapping[tuple[int, int], StageTasks]) -> Iterator[Insight]:
    for stage in app.stages:
        memory, disk = stage.sums["memory_spilled"], stage.sums["disk_spilled"]
        if not memory and not disk:
            continue
        moved = stage.shuffle_read_bytes + stage.sums["input_bytes"] + stage.sums["shuffle_write_bytes"]
        share = disk / moved if moved else 1.0
        done = max(1, stage.completed_tasks)
        # Partitions grow by the ratio of spilled bytes to the memory of a task.
        held = max(1, stage.sums["peak_memory"] // done)
        wanted = min(100_000, done + -(-memory // held)) if stage.sums["peak_memory"] else done * 2
        one = tasks.get(stage.key)
        spilling = f" by {one.spilling / one.tasks:.0%} of its tasks" if one is not None and one.spilling else ""
        yield Insight(
            "spill", f"stage {stage.stage}", units.text("bytes", disk), "0", level(share, 0.0001, 0.1, 0.5, 1.0),
            f"{units.text('bytes', memory)} of memory went to disk as {units.text('bytes', disk)}{spilling}, {share:.0%} of "
            f"the bytes that the stage moved; {wanted:,} partitions would fit.",
            partitions_key(app), str(wanted),
        )  # fmt: skip


def cache_insights(app: App) -> Iterator[Insight]:
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
    """Return stored RDDs that no later stage reads.

    A stage names all RDDs it computes or reads; its repeated attempts do not count as readers.
    """
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
