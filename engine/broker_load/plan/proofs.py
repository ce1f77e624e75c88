"""What cannot be met, and why; and the least that must be copied in any case."""

from __future__ import annotations

import numpy as np

from engine.broker_load.cruise_control.cluster_model import RESOURCES
from engine.broker_load.model.topology import Flags, Floats
from engine.broker_load.plan import limits
from engine.broker_load.plan.limits import COLUMN, PLACE, RACK, TOPIC
from engine.broker_load.plan.problem import CARRIED, CPU, DISK, LEADERS, NW_IN, NW_OUT, POTENTIAL, REPLICAS, Problem
from engine.broker_load.plan.state import State
from engine.core.units import plural

UNITS = {
    CPU: "% of a core", NW_IN: " KB/s", NW_OUT: " KB/s", DISK: " MB", POTENTIAL: " KB/s", REPLICAS: " replicas",
    LEADERS: " leaders",
}  # fmt: skip
"""Unit of each row of sums, as it follows a number."""


def cannot(problem: Problem, state: State) -> dict[int, str]:
    """Return why goals (by place of the 16) cannot be met by any placement of the replicas; the others may be."""
    topology, bounds = problem.cluster.topology, limits.limits(problem, state.sums, rescued=True)
    why: dict[int, str] = {}
    widest = int(topology.count[topology.leader >= 0].max(initial=0))
    if widest > problem.live_racks:
        why[RACK] = f"{widest} replicas per partition need {widest} racks; {problem.live_racks} have live brokers"
    for place, goal in enumerate(PLACE.tolist()):
        column = int(COLUMN[place])
        low, high = bounds.low[place][problem.alive], bounds.high[place][problem.alive]
        total, unit = float(np.maximum(state.sums[column], 0.0).sum()), UNITS.get(column, " KB/s")
        largest = float(np.maximum(problem.as_leader[:, column], 0.0).max(initial=0.0))
        if total > high.sum() * (1 + 1e-9):
            why[goal] = f"the cluster's {total:,.0f}{unit} are more than all brokers may carry, {high.sum():,.0f}"
            why[goal] += _to_add(problem, column, total, float(high.sum()))
        elif total < low.sum() * (1 - 1e-9):
            why[goal] = f"the cluster's {total:,.0f}{unit} are less than the {low.sum():,.0f} that all brokers need"
        elif largest > high.max(initial=0.0) * (1 + 1e-9):
            why[goal] = f"one replica alone has {largest:,.0f}{unit}; a broker may carry {high.max(initial=0.0):,.0f}"
        else:
            found = _in_one_rack(problem, place, bounds)
            if found:
                why[goal] = found
    if _one_in_each(problem) and TOPIC not in why:
        found = _topics(problem, state)
        if found:
            why[TOPIC] = found
    return why


def _to_add(problem: Problem, column: int, total: float, allowed: float) -> str:
    """Return how many brokers are missing, as the provision status counts them."""
    if column not in (CPU, NW_IN, NW_OUT, DISK):
        return ""
    typical = float(np.median(problem.room[column][problem.alive])) * float(problem.thresholds[column])
    if not (typical > 0 and np.isfinite(typical)):
        return ""
    brokers = int(np.ceil((total - allowed) / typical))
    return f"; {brokers} more broker{'' if brokers == 1 else 's'} of the typical capacity would do"


def _one_in_each(problem: Problem) -> bool:
    """Return whether every rack must hold one replica of every partition."""
    count = problem.cluster.topology.count[problem.cluster.topology.leader >= 0]
    return len(count) > 0 and problem.live_racks > 1 and bool((count == problem.live_racks).all())


def _in_one_rack(problem: Problem, place: int, bounds: limits.Limits) -> str:
    """Return why a band cannot hold in a rack that must carry one replica of every partition."""
    column = int(COLUMN[place])
    if column not in (DISK, NW_IN, REPLICAS, POTENTIAL) or not _one_in_each(problem):
        return ""
    load = float(np.maximum(problem.as_follower[:, column], 0.0).sum())
    names, _ = problem.cluster.topology.racks_index
    for rack in np.unique(problem.racks[problem.alive]).tolist():
        here = problem.alive & (problem.racks == rack)
        low, high = float(bounds.low[place][here].sum()), float(bounds.high[place][here].sum())
        if load > high * (1 + 1e-9) or load < low * (1 - 1e-9):
            side = f"at most {high:,.0f}" if load > high else f"at least {low:,.0f}"
            return (
                f"every rack holds one replica of each partition, {load:,.0f}{UNITS[column]}; "
                f"the {plural(int(here.sum()), 'broker')} of rack {names[rack]} must have {side}"
            )
    return ""


def _topics(problem: Problem, state: State) -> str:
    """Return a topic whose replicas cannot be within their limits where every rack holds one of each partition."""
    names = problem.cluster.topology.racks_index[0]
    partitions = state.topics.sum(axis=1) / problem.live_racks
    for rack in np.unique(problem.racks[problem.alive]).tolist():
        brokers = int((problem.alive & (problem.racks == rack)).sum())
        bad = np.flatnonzero((partitions > brokers * state.topic_high) | (partitions < brokers * state.topic_low))
        if len(bad):
            topic = problem.cluster.topology.topics[int(bad[0])]
            return f"every rack holds all partitions of {topic}, which its limits do not allow for rack {names[rack]}"
    return ""


def survivable(problem: Problem, state: State) -> tuple[Flags, list[str]]:
    """Return the events [E] that some placement may survive, and in words which others none can."""
    topology, brokers = problem.cluster.topology, len(problem.alive)
    can, told = problem.counted.copy(), list[str]()
    single = np.flatnonzero((topology.leader >= 0) & (topology.count == 1))
    if len(single):
        alone = np.unique(topology.leader[single])
        can[alone] = False
        can[brokers + problem.racks[alone]] = False
        told.append(
            f"{plural(len(single), 'partition')} with a single replica: the loss of its broker is never survived"
        )
    follows = np.maximum(topology.count - 2, 0)
    for place, row in enumerate(CARRIED.tolist()):
        least = problem.as_leader[:, row] + (follows * problem.as_follower[:, row] if place == 0 else 0.0)
        left = np.where(problem.events, 0.0, np.where(problem.alive, problem.room[row], 0.0)).sum(axis=1)
        short = can & (float(np.maximum(least, 0.0).sum()) > problem.thresholds[row] * left)
        if short.any():
            what = "that of a broker" if np.flatnonzero(short)[0] < brokers else "that of a rack"
            losses = f"{plural(int(short.sum()), 'loss', 'es')} ({what} first)"
            told.append(f"{losses} can never be survived: less {RESOURCES[row]} is left than the leaders need")
        can &= ~short
    return can, told


def least_mb(problem: Problem, state: State, undecided: Flags) -> dict[int, float]:
    """Return the least MB that any plan copies for a goal, where a bound is known: by racks, and by the disks' limits."""
    if not problem.sized:
        return {}
    least = {RACK: float(np.maximum(problem.as_follower[state.broken & problem.rack_wide, DISK], 0.0).sum())}
    bounds = limits.limits(problem, state.sums)
    load = np.maximum(state.sums[DISK], 0.0)
    for place in np.flatnonzero(COLUMN == DISK).tolist():
        if not undecided[PLACE[place]]:
            over = np.maximum(load - bounds.high[place], 0.0).sum()
            under = np.maximum(bounds.low[place] - load, 0.0).sum()
            least[int(PLACE[place])] = float(max(over, under))
    return least


def must_copy(problem: Problem, state: State, least: dict[int, float], chased: Flags) -> float:
    """Return the least MB of any plan that meets the goals ``chased``: offline replicas and racks, or the disks' limits."""
    offline = float((state.offline * np.maximum(problem.as_follower[:, DISK], 0.0)).sum())
    disks = [value for goal, value in least.items() if goal != RACK and chased[goal]]
    return max(offline + (least.get(RACK, 0.0) if chased[RACK] else 0.0), *disks, 0.0)


def excesses(problem: Problem, state: State) -> Floats:
    """Return how far the cluster is outside each of the 16 goals, in the goal's own unit, by the true limits."""
    bounds = limits.limits(problem, state.sums)
    total = np.zeros(limits.GOALS)
    total[PLACE] = limits.excess(bounds, slice(None), state.sums, limits.by_host(problem, state.sums)).sum(axis=1)
    total[RACK], total[TOPIC] = state.broken.sum(), state.topic_excess.sum()
    return total
