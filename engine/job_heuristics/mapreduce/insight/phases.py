"""Where a job's time went: waterfall of phases, critical path, attempts on lanes with waves, slots in use."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from engine.job_heuristics.mapreduce.model.model import RUNNING, SUCCEEDED, UNKNOWN, Attempts, Ints


class Phase(msgspec.Struct, frozen=True):
    """One bar of the waterfall, ``start_ms`` to ``end_ms`` (epoch ms), with name and meaning."""

    name: str
    start_ms: int
    end_ms: int
    text: str = ""

    @property
    def ms(self) -> int:
        """Length in ms."""
        return self.end_ms - self.start_ms


def shares(phases: Sequence[Phase]) -> list[float]:
    """Return the share of each phase in %; 0 if all are empty."""
    whole = sum(phase.ms for phase in phases)
    return [100 * phase.ms / whole if whole else 0.0 for phase in phases]


def waterfall(
    attempts: Attempts, submit: int | None, am_start: int | None, launch: int | None, finish: int | None
) -> tuple[Phase, ...]:
    """Return the phases of a job in order, each from the end of the one before it, so that they add up to its run
    time.

    queue (submit to start of the application master), set-up (to launch), first container (to the first attempt),
    maps (to the last map's end), shuffle, sort, code (to the last end of each over reducers), commit (to the job's
    end). Phases missing from the history, or ended before their predecessor, have no bar. ``finish`` None: still
    running.
    """
    maps, reduces = attempts.is_map & (attempts.start > 0), ~attempts.is_map & (attempts.start > 0)
    good = attempts.chosen & (attempts.outcome == SUCCEEDED)
    newest = int(attempts.finish.max()) if len(attempts) else 0
    mapped = _last(attempts.finish, maps & good) or _last(attempts.finish, maps)
    marks: list[tuple[str, int, str]] = [
        ("queue", am_start or 0, "submitted until the application master started"),
        ("set-up", launch or 0, "application master until the job was initialised"),
        ("first container", _first(attempts.start, maps | reduces), "initialised until the first attempt ran"),
        ("maps", mapped, "first attempt until the last map"),
        ("shuffle", _last(attempts.shuffle_end, reduces & good), "last map until the last reducer had its data"),
        ("sort", _last(attempts.sort_end, reduces & good), "merging in the last reducer"),
        ("reduce code", _last(attempts.finish, reduces & good), "until the last reducer ended"),
        ("commit", finish or 0, "last task until the job's end"),
    ]  # fmt: skip
    moments = [moment for _, moment, _ in marks if moment > 0]
    at = submit if submit and submit > 0 else (min(moments) if moments else 0)
    bars = []
    for name, moment, text in marks:
        if moment > at:
            bars.append(Phase(name, at, moment, text))
            at = moment
    if finish is None and newest > at:
        bars.append(Phase("running", at, newest, "since the last phase that ended"))
    return tuple(bars)


def _first(moments: Ints, mask: NDArray[np.bool_]) -> int:
    return int(min(moments[mask & (moments > 0)], default=0))


def _last(moments: Ints, mask: NDArray[np.bool_]) -> int:
    return int(moments[mask].max(initial=0))


class Gantt(msgspec.Struct, frozen=True, eq=False):
    """Attempts on a minimal number of lanes. ``order``: attempt indices by start; ``lane`` and ``wave`` (from 0) per
    attempt, -1 for attempts that never started; ``lanes``: number; ``map_waves``/``reduce_waves``: longest chain of
    one side on a lane; ``wait_ms`` container wait per attempt (task started to attempt started; UNKNOWN for retries
    and speculative ones)."""

    order: Ints
    lane: Ints
    wave: Ints
    lanes: int
    map_waves: int
    reduce_waves: int
    wait_ms: Ints


def gantt(attempts: Attempts) -> Gantt:
    """Put attempts on lanes by interval partitioning (always the lane that has been free longest), O(n log n).

    A container may start at the moment another on its lane ends. Waves count attempts of one side on one lane: with s
    slots and n equal tasks that is n / s, rounded up.
    """
    n = len(attempts)
    lane, wave = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    started = np.flatnonzero(attempts.start > 0)
    ends = np.maximum(attempts.finish, attempts.start)
    order = started[np.lexsort((started, ends[started], attempts.start[started]))]
    busy: list[tuple[int, int]] = []
    depth: list[list[int]] = []
    starts, finishes, maps = attempts.start.tolist(), ends.tolist(), attempts.is_map.tolist()
    lanes_of, waves_of = lane.tolist(), wave.tolist()
    for i in order.tolist():
        if busy and busy[0][0] <= starts[i]:
            where = busy[0][1]
            heapq.heapreplace(busy, (finishes[i], where))
        else:
            where = len(depth)
            depth.append([0, 0])
            heapq.heappush(busy, (finishes[i], where))
        side = 0 if maps[i] else 1
        lanes_of[i], waves_of[i] = where, depth[where][side]
        depth[where][side] += 1
    return Gantt(
        order=order,
        lane=np.array(lanes_of, dtype=np.int64),
        wave=np.array(waves_of, dtype=np.int64),
        lanes=len(depth),
        map_waves=max((d[0] for d in depth), default=0),
        reduce_waves=max((d[1] for d in depth), default=0),
        wait_ms=container_waits(attempts),
    )


def container_waits(attempts: Attempts) -> Ints:
    """Return ms from the task's start to the attempt's (at least 0) for first attempts; UNKNOWN for others."""
    waits = np.full(len(attempts), UNKNOWN, dtype=np.int64)
    started = np.flatnonzero((attempts.start > 0) & (attempts.scheduled > 0))
    if not len(started):
        return waits
    order = started[np.lexsort((attempts.start[started], attempts.task[started]))]
    tasks = attempts.task[order]
    firsts = order[np.concatenate([[True], tasks[1:] != tasks[:-1]])]
    waits[firsts] = np.maximum(0, attempts.start[firsts] - attempts.scheduled[firsts])
    return waits


def slots_in_use(attempts: Attempts, start: int, end: int, points: int) -> tuple[Ints, Ints]:
    """Return the mean number of running map and reduce attempts in each of ``points`` equal stretches from ``start`` to
    ``end`` (epoch ms), times 1000 as integers, so that they add up exactly to the time spent."""
    edges = np.linspace(start, max(end, start + 1), points + 1).astype(np.int64)
    width = np.maximum(1, np.diff(edges))
    result = []
    for side in (attempts.is_map, ~attempts.is_map):
        held = side & (attempts.start > 0)
        begin = np.clip(attempts.start[held], edges[0], edges[-1])
        stop = np.clip(np.maximum(attempts.finish[held], attempts.start[held]), edges[0], edges[-1])
        # The integral of "running" up to an edge is the sum over attempts of min(edge, stop) - min(edge, begin).
        covered = _clipped_sums(np.sort(stop), edges) - _clipped_sums(np.sort(begin), edges)
        result.append(np.diff(covered) * 1000 // width)
    return result[0], result[1]


def _clipped_sums(ordered: Ints, edges: Ints) -> Ints:
    origin = edges[0]
    index = np.searchsorted(ordered, edges, side="right")
    return np.concatenate([[0], np.cumsum(ordered - origin)])[index] + (edges - origin) * (len(ordered) - index)


class Step(msgspec.Struct, frozen=True):
    """One link of the critical path, latest first in the search, earliest first in the result: attempt index (or -1
    for a wait), from when to when, and why it could not begin earlier."""

    attempt: int
    start_ms: int
    end_ms: int
    text: str


def critical_path(
    attempts: Attempts, launch: int | None, slack_ms: int = 15_000, limit: int = 1000
) -> tuple[Step, ...]:
    """Return the chain of attempts that determined the job's end, earliest first.

    Backwards from the attempt that ended last: a reducer that was shuffling when the last map ended waited for that
    map; a retry waited for the attempt before it; any other attempt waited for the container that was freed last
    within ``slack_ms`` before it began (heartbeat and launch take seconds); else it waited for the scheduler since
    its task was started, or since the end of the latest attempt before.
    """
    started = attempts.start > 0
    good = started & ((attempts.outcome == SUCCEEDED) | (attempts.outcome == RUNNING))
    if not good.any():
        return ()
    ended = np.flatnonzero(started)
    by_end = ended[np.argsort(attempts.finish[ended], kind="stable")]
    ends = attempts.finish[by_end]
    winners = np.flatnonzero(good & attempts.is_map)
    last_map = int(winners[np.argmax(attempts.finish[winners])]) if len(winners) else -1
    at = int(np.flatnonzero(good)[np.argmax(attempts.finish[good])])
    until = int(attempts.finish[at])
    steps: list[Step] = []
    while len(steps) < limit:
        begin = int(attempts.start[at])
        shuffled = int(attempts.shuffle_end[at])
        if not attempts.is_map[at] and last_map >= 0:
            mapped = int(attempts.finish[last_map])
            if begin < mapped <= until and (shuffled <= 0 or shuffled >= mapped):
                steps.append(Step(at, mapped, until, "reducer after the last map"))
                at, until = last_map, mapped
                continue
        steps.append(Step(at, begin, until, "map attempt" if attempts.is_map[at] else "reduce attempt"))
        before = np.flatnonzero(
            (attempts.task == attempts.task[at]) & started & (attempts.finish <= begin) & (attempts.outcome != RUNNING)
        )
        before = before[before != at]
        if len(before):
            at = int(before[np.argmax(attempts.finish[before])])
            until = int(attempts.finish[at])
            if until < begin:
                steps.append(Step(-1, until, begin, "waiting for a container for the retry"))
            continue
        floor = max(int(attempts.scheduled[at]), launch or 0)
        k = int(np.searchsorted(ends, begin, side="right")) - 1
        while k >= 0 and (by_end[k] == at or attempts.start[by_end[k]] >= begin):
            k -= 1
        if k < 0 or int(ends[k]) < floor or begin - int(ends[k]) > slack_ms:
            if 0 < floor < begin:
                steps.append(Step(-1, floor, begin, "waiting for a container"))
            break
        if int(ends[k]) < begin:
            steps.append(Step(-1, int(ends[k]), begin, "container handed over"))
        at, until = int(by_end[k]), int(ends[k])
    return tuple(reversed(steps))
