"""The limits of the goals per broker, and how far a broker is outside them.

Every goal but those on racks and topics is a band of one sum per broker. See "Goals" in docs/models/broker-load.md.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from engine.broker_load.cruise_control.cluster_model import RESOURCES
from engine.broker_load.cruise_control.goals import MARGIN, TOPIC_GAPS
from engine.broker_load.model.topology import Flags, Floats, tally
from engine.broker_load.plan.problem import CPU, DISK, LEADER_IN, LEADERS, NW_IN, NW_OUT, POTENTIAL, REPLICAS, Problem

RACK, MIN_LEADERS, REPLICA_CAPACITY, TOPIC = 0, 1, 2, 13
"""Places in the order of goals that are not bands, and of the first one that is."""
GOALS = 16
HARD = np.arange(GOALS) < 7  # [16] whether a goal is hard, in Cruise Control's order of priority
COLUMN = np.array(
    [REPLICAS, DISK, NW_IN, NW_OUT, CPU, REPLICAS, POTENTIAL, DISK, NW_IN, NW_OUT, CPU, LEADERS, LEADER_IN]
)
"""[13] row of the sums that each band limits."""
PLACE = np.array([2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15])  # [13] place of each band in the order of goals
HOST_CAPACITY, HOST_USAGE = np.array([2, 3, 4]), np.array([8, 9, 10])
"""Bands of capacity and of usage that are compared by host too."""


class Limits(msgspec.Struct, frozen=True, eq=False):
    """The bands of the goals: ``low`` and ``high`` [13, B], infinite without a limit; ``scale``: mean load [13] or [13, B]."""

    low: Floats
    high: Floats
    scale: Floats
    host_low: Floats
    host_high: Floats


def by_host(problem: Problem, value: Floats) -> Floats:
    """Return ``value`` [K, B] summed over the brokers of each broker's machine."""
    machine = problem.machine
    if machine is None:
        return value
    return np.stack([tally(machine, row, int(machine.max()) + 1)[machine] for row in value])


def limits(problem: Problem, sums: Floats, slack: float = 0.0, rescued: bool = False) -> Limits:
    """Return the limits under ``sums`` [8, B], drawn in by the share ``slack``; ``rescued``: as if living brokers led what dead
    ones lead now."""
    parameters, alive = problem.parameters, problem.alive
    count, brokers = max(int(alive.sum()), 1), len(alive)
    low, high = np.full((13, brokers), -np.inf), np.full((13, brokers), np.inf)
    host_low, host_high = low.copy(), high.copy()
    room, host_room = problem.room, by_host(problem, problem.room)
    high[0] = parameters.max_replicas_per_broker
    for place, row in enumerate((DISK, NW_IN, NW_OUT, CPU), 1):
        high[place], host_high[place] = problem.thresholds[row] * room[row], problem.thresholds[row] * host_room[row]
    low[5], high[5] = counted_band(sums[REPLICAS].sum() / count, parameters.replica_count_balance_threshold)
    high[6] = problem.thresholds[NW_OUT] * room[NW_OUT]
    for place, row in enumerate((DISK, NW_IN, NW_OUT, CPU), 7):
        whole = float(room[row][alive].sum())
        average = max(float(sums[row].sum()), 0.0) / whole if whole > 0 else math.nan
        lower, upper = _usage_band(problem, RESOURCES[row], average)
        with np.errstate(invalid="ignore"):
            low[place], high[place] = lower * room[row], upper * room[row]
            host_low[place], host_high[place] = lower * host_room[row], upper * host_room[row]
    low[11], high[11] = counted_band(sums[LEADERS].sum() / count, parameters.leader_replica_count_balance_threshold)
    mean = np.maximum(sums[LEADER_IN], 0.0)[alive | rescued].sum() / count
    least = parameters.low_utilization_threshold * np.where(np.isinf(room[NW_IN]), 0.0, room[NW_IN])
    high[12] = np.maximum(mean * parameters.balance_threshold("NW_IN"), least)
    # Limits of loads are narrowed by a margin, those of counts are exact. A dead broker has none: its replicas must move.
    exact = np.isin(COLUMN, (REPLICAS, LEADERS))[:, None]
    for lower_, upper_ in ((low, high), (host_low, host_high)):
        lower_[:] = np.where(np.isnan(lower_) | ~alive, -np.inf, np.where(exact, lower_, lower_ * (1 + slack)))
        upper_[:] = np.where(np.isnan(upper_) | ~alive, np.inf, np.where(exact, upper_, upper_ * (1 - slack)))
    return Limits(low, high, np.maximum(sums[COLUMN].sum(axis=1) / count, 1e-9), host_low, host_high)


def counted_band(average: float, threshold: float) -> tuple[float, float]:
    """Return the fewest and most replicas or leaders of a balanced broker."""
    margin = (threshold - 1) * MARGIN
    return float(math.floor(average * (1 - margin))), float(math.ceil(average * (1 + margin)))


def _usage_band(problem: Problem, resource: str, average: float) -> tuple[float, float]:
    """Return the limits of a balanced broker as shares of its capacity, as ``goals.band``."""
    parameters = problem.parameters
    margin = (parameters.balance_threshold(resource) - 1.0) * MARGIN
    if average <= parameters.low_utilization_threshold:
        return 0.0, max(average * (1 + margin), parameters.low_utilization_threshold * MARGIN)
    return average * max(0.0, 1 - margin), average * (1 + margin)


def topic_limits(problem: Problem, counts: Floats) -> tuple[Floats, Floats]:
    """Return the fewest and most replicas [T] of each topic that a broker should hold; ``counts`` [T, B]: what they hold now."""
    average = counts.sum(axis=1) / max(int(problem.alive.sum()), 1)
    margin = (problem.parameters.topic_replica_count_balance_threshold - 1) * MARGIN
    up, down = np.ceil(average), np.floor(average)
    least, most = TOPIC_GAPS
    high = np.clip(np.ceil(average * (1 + margin)), up + least, up + most)
    return np.maximum(np.clip(np.floor(average * (1 - margin)), down - most, down - least), 0), high


def excess(bounds: Limits, at: object, sums: Floats, hosts: Floats) -> Floats:
    """Return how far ``sums`` [8, M] of brokers ``at`` (indices [M], or a slice) are outside each band [13, M].

    ``hosts`` [8, M]: the sums of the brokers' machines, the same array where no machine is shared.
    """
    value = np.maximum(sums[COLUMN], 0.0)
    outside = np.maximum(value - bounds.high[:, at], 0.0) + np.maximum(bounds.low[:, at] - value, 0.0)  # type: ignore[index]
    if hosts is not sums:
        host = np.maximum(hosts[COLUMN], 0.0)
        over = np.maximum(host - bounds.host_high[:, at], 0.0)  # type: ignore[index]
        under = np.maximum(bounds.host_low[:, at] - host, 0.0)  # type: ignore[index]
        cpu = outside[4].copy()
        outside[HOST_CAPACITY] = over[HOST_CAPACITY]
        outside[4] = np.maximum(cpu, over[4])
        outside[HOST_USAGE] = np.minimum(outside[HOST_USAGE], (over + under)[HOST_USAGE])
    return outside


def outside(bounds: Limits, at: object, sums: Floats, hosts: Floats) -> Flags:
    """Return flags [13, M] of brokers ``at`` outside a band by more than the rounding of a sum; as ``excess``."""
    return np.asarray(excess(bounds, at, sums, hosts) > 1e-9 * (np.abs(sums[COLUMN]) + 1e-6), np.bool_)
