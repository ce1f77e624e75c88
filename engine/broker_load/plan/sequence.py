"""The steps of a plan in an order in which each is legal and none makes a hard goal worse, with the standing after each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from engine.broker_load.cruise_control.goals import Verdict, balancedness
from engine.broker_load.model.topology import Flags, Floats, Ints, Longs
from engine.broker_load.plan.limits import GOALS, HARD, PLACE, RACK, TOPIC, Limits, by_host, outside
from engine.broker_load.plan.problem import DISK, LIVING, Problem
from engine.broker_load.plan.search import EPSILON, Search
from engine.broker_load.plan.state import Placed, State, strain

MUST = ("offline", "drain")  # reasons of replicas that have to move, whatever that does to the goals
AT_ONCE = 256  # most states of the cluster that are judged together


class Standing(msgspec.Struct, frozen=True):
    """How the cluster stands: ``offline`` replicas, ``offenders`` [16] per goal, what is ``violated`` [16], losses
    ``survived`` [E], the least ``headroom`` to a threshold after a single loss as a share, None unknown."""

    offline: int
    offenders: Longs
    violated: Flags
    survived: Flags
    headroom: float | None

    def score(self, verdicts: list[Verdict]) -> float:
        """Return Cruise Control's balancedness score, from the goals that are violated."""
        return balancedness(verdicts, self.violated.tolist())


class Step(msgspec.Struct, frozen=True):
    """One change of one partition by one replica at most: ``before`` and the new ``replicas`` and ``leader``, of ``kind`` move,
    lead or order; ``mb`` to copy from broker ``source`` to ``target`` (-1 unless it moves); ``settles`` in words; and how the
    cluster stands ``after`` it. ``batch`` and ``seconds`` of its copy."""

    kind: str
    row: int
    before: Placed
    replicas: list[int]
    leader: int
    reason: str
    source: int = -1
    target: int = -1
    mb: float = 0.0
    settles: tuple[str, ...] = ()
    after: Standing | None = None
    batch: int = 1
    seconds: float = 0.0

    @property
    def free(self) -> bool:
        """Whether nothing is copied."""
        return self.kind != "move"


Look = tuple[Longs, Floats, Floats, int, Ints, int, int]
"""What a state looked like: brokers [M], with their sums [8, M] and what they gained [2, E, M], that have changed since the look
before; offline replicas, leaderless [E], and how many partitions and topics break their goals."""


def look(state: State, brokers: Longs) -> Look:
    """Return what a state looks like now."""
    return (
        brokers, state.sums[:, brokers], state.gained[:, :, brokers], state.offline_sum, state.leaderless.copy(),
        int(np.count_nonzero(state.broken)), int(np.count_nonzero(state.topic_excess > 0)),
    )  # fmt: skip


def standings(problem: Problem, bounds: Limits, undecided: Flags, looks: list[Look]) -> list[Standing]:
    """Return how the cluster stands at each of the ``looks``, the first of which has all brokers, judged by the true limits;
    goals ``undecided`` [16] count as kept."""
    brokers, some_sums, gained, offline, leaderless, broken, topics = zip(*looks, strict=True)
    at, sums = np.concatenate(brokers), np.concatenate(some_sums, axis=1)
    over, headroom = strain(problem, at, sums, np.concatenate(gained, axis=2))
    # Of each broker, the last column that shows it.
    latest = np.zeros((len(looks), len(problem.alive)), np.int64)
    latest[np.repeat(np.arange(len(looks)), [len(each) for each in brokers]), at] = np.arange(len(at))
    latest = np.maximum.accumulate(latest, axis=0)
    offenders = np.zeros((len(looks), GOALS), np.int64)
    offenders[:, PLACE] = outside(bounds, at, sums, by_host(problem, sums))[:, latest].sum(axis=2).T
    offenders[:, RACK], offenders[:, TOPIC] = broken, topics
    offenders[:, undecided] = 0
    survived = ~(over > 1e-9)[:, latest].any(axis=2).T & (np.stack(leaderless) == 0)
    survived &= problem.counted & (not problem.cluster.missing)
    violated = offenders > 0
    violated[np.array(offline) > 0, :-1] |= ~undecided[:-1]  # the last goal moves leaders only
    far = headroom[: len(problem.alive)].min(axis=0)[latest].min(axis=1).tolist()
    least = [each if math.isfinite(each) else None for each in far]
    return [Standing(*each) for each in zip(offline, offenders, violated, survived, least, strict=True)]


def standing(state: State, undecided: Flags) -> Standing:
    """Return how the cluster stands now."""
    everyone = np.arange(len(state.problem.alive))
    return standings(state.problem, state.true_bounds(), undecided, [look(state, everyone)])[0]


def split(problem: Problem, before: Placed, after: Placed, reason: str) -> Iterator[Step]:
    """Yield the steps from one placement of a partition to another, one replica at a time; the leader comes first."""
    row, now = before.row, [broker for broker in before.replicas.tolist() if broker >= 0]
    target = [broker for broker in after.replicas.tolist() if broker >= 0]
    codes = dict(zip(before.replicas.tolist(), before.codes.tolist(), strict=True))
    leader, last = before.leader, after.leader
    gone, new = [b for b in now if b not in target], [b for b in target if b not in now]
    if last != leader and last in now and leader not in gone:
        now = target if not gone else [last, *(broker for broker in now if broker != last)]
        leader = last
        yield Step("lead", row, before, now, leader, reason)
    gone.sort(key=lambda broker: bool(codes[broker] & LIVING))  # offline replicas first
    new = _paired(problem, gone, new, (leader, last))
    size = max(float(problem.as_follower[row, DISK]), 0.0)
    for number, (source, destination) in enumerate(zip(gone, new, strict=True)):
        now = [destination if broker == source else broker for broker in now]
        if source == leader:
            leader = last if last in now else next((b for b in now if codes.get(b, LIVING) & LIVING), destination)
        now = [leader, *(broker for broker in now if broker != leader)] if leader >= 0 else now
        if number == len(gone) - 1 and leader == last:
            now = target
        yield Step("move", row, before, now, leader, reason, source, destination, size)
    if leader != last:
        yield Step("lead", row, before, target, last, reason)
    elif now != target:
        yield Step("order", row, before, target, last, reason)


def _paired(problem: Problem, gone: list[int], new: list[int], leads: tuple[int, int]) -> list[int]:
    """Return the new brokers in the order of those that they replace: in the same rack if possible, so that no rack holds two
    replicas meanwhile; else the next leader takes the leader's place (``leads``)."""
    left, pairs = list(new), dict[int, int]()
    same = {old: [one for one in new if problem.racks[one] == problem.racks[old]] for old in gone}
    for old in sorted(gone, key=lambda old: (not same[old], old != leads[0])):
        wanted = [one for one in same[old] if one in left] or [one for one in left if (old, one) == leads] or left
        pairs[old] = leads[1] if old == leads[0] and leads[1] in wanted else wanted[0]
        left.remove(pairs[old])
    return [pairs[old] for old in gone]


def _rank(step: Step) -> tuple[int, float, int]:
    """Return where a step comes: what must move, what is free, racks, hard goals, the others, survival."""
    if step.reason in MUST:
        return 0, -step.mb, step.row
    hard = step.reason in _HARD_NAMES
    survives = step.reason.startswith("Survive")
    if step.free:
        return 1 if hard else 2 if survives else 3, 0.0, step.row
    return 4 if step.reason == "RackAwareGoal" else 5 if hard else 7 if survives else 6, step.mb, step.row


_HARD_NAMES = frozenset({
    "RackAwareGoal", "ReplicaCapacityGoal", "DiskCapacityGoal", "NetworkInboundCapacityGoal",
    "NetworkOutboundCapacityGoal", "CpuCapacityGoal",
})  # fmt: skip


def in_order(
    problem: Problem, search: Search, names: list[str], undecided: Flags, check: Callable[[], None]
) -> tuple[list[Step], int]:
    """Return the steps from today's placement to the one found, and how many had to be left out.

    A step that would make a hard goal worse waits for another one.
    """
    state = State(problem, slack=0.0)
    every = [
        list(split(problem, placed, search.state.placed(row), reason))
        for row, (placed, reason) in sorted(search.changed().items())
    ]
    waiting, done, everyone = _ordered(every), list[tuple[Step, Placed]](), np.arange(len(problem.alive))
    totals, bounds = state.totals(), state.true_bounds()
    looks, stands = [look(state, everyone)], list[Standing]()
    while waiting:
        left: list[Step] = []
        held: set[int] = set()
        for step in waiting:
            check()
            placed = state.place(step.row, step.replicas, step.leader) if step.row not in held else None
            after = state.totals() if placed is not None else totals
            if placed is None or (bool((after[HARD] > totals[HARD] + EPSILON).any()) and step.reason not in MUST):
                if placed is not None:
                    state.restore(placed)
                held.add(step.row)
                left.append(step)
                continue
            done.append((step, placed))
            totals, now = after, state.true_bounds()
            if now is not bounds or len(looks) == AT_ONCE or problem.machine is not None:
                stands += standings(problem, bounds, undecided, looks)
                looks, bounds = [], now
            touched = np.array(sorted({*placed.replicas.tolist(), *step.replicas} - {-1}))
            looks.append(look(state, touched if looks else everyone))
        if len(left) == len(waiting):
            break
        waiting = left
    stands += standings(problem, bounds, undecided, looks)
    steps = [
        msgspec.structs.replace(step, before=placed, settles=_settled(problem, names, before, after), after=after)
        for (step, placed), (before, after) in zip(done, itertools.pairwise(stands), strict=True)
    ]
    return steps, len(waiting)


def _ordered(every: list[list[Step]]) -> list[Step]:
    """Return all steps by rank; those of one partition stay in their order."""
    keyed = [
        (rank, place, step)
        for steps in every
        for place, (rank, step) in enumerate(zip(itertools.accumulate(map(_rank, steps), max), steps, strict=True))
    ]
    return [step for _, _, step in sorted(keyed, key=lambda entry: entry[:2])]


def _settled(problem: Problem, names: list[str], before: Standing, after: Standing) -> tuple[str, ...]:
    """Return the goals and losses that are settled by a step."""
    goals = [names[goal] for goal in np.flatnonzero(before.violated & ~after.violated).tolist()]
    losses = [event_name(problem, event) for event in np.flatnonzero(after.survived & ~before.survived).tolist()]
    return (*goals, *(f"loss of {name}" for name in losses))


def event_name(problem: Problem, event: int) -> str:
    """Return what dies in an event, as table ``failures`` calls it."""
    topology = problem.cluster.topology
    if event < topology.brokers:
        return f"broker {topology.ids[event]}"
    return f"{'rack' if topology.racks_known else 'host'} {topology.racks_index[0][event - topology.brokers]}"


class Batch(msgspec.Struct, frozen=True):
    """Steps that may run together: ``number``, how many ``steps``, ``mb`` to copy, the broker index that copies most (-1 none),
    ``seconds`` it takes, and how full the fullest disk gets meanwhile (a share, None unknown)."""

    number: int
    steps: int
    mb: float
    busiest: int
    seconds: float
    peak: float | None


def batched(problem: Problem, steps: list[Step], parallel: int, throttle: float) -> tuple[list[Step], list[Batch]]:
    """Cut the steps into batches in their order: a partition once in each, at most ``parallel`` copies per broker, and room on
    every disk for all that arrive before anything leaves. ``throttle``: MB/s per broker."""
    disk = State(problem).sums[DISK].copy()
    room = problem.room[DISK]
    out: list[Step] = []
    batches: list[Batch] = []
    start = 0
    while start < len(steps):
        rows, copies = set[int](), np.zeros(len(disk), np.int64)
        came, sent, left = np.zeros(len(disk)), np.zeros(len(disk)), np.zeros(len(disk))
        end = start
        while end < len(steps):
            step = steps[end]
            leader = step.before.leader
            ends = [step.target, leader if leader >= 0 else step.source] if step.kind == "move" else []
            full = bool(ends) and disk[step.target] + came[step.target] + step.mb > room[step.target]
            if end > start and (step.row in rows or full or any(copies[one] >= parallel for one in ends)):
                break
            rows.add(step.row)
            if ends:
                copies[ends] += 1
                came[step.target] += step.mb
                sent[ends[1]] += step.mb
                left[step.source] += step.mb
            end += 1
        busy = np.maximum(came, sent)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(problem.alive & np.isfinite(room), (disk + came) / room, np.nan)
        most = int(np.argmax(busy)) if busy.any() else -1
        seconds = float(busy.max(initial=0.0)) / throttle
        peak = None if np.isnan(share).all() else float(np.nanmax(share))
        number = len(batches) + 1
        batches.append(Batch(number, end - start, float(came.sum()), most, seconds, peak))
        out += [msgspec.structs.replace(step, batch=number, seconds=step.mb / throttle) for step in steps[start:end]]
        disk += came - left
        start = end
    return out, batches
