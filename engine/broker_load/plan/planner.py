"""A plan: the goals asked for, the search, the steps in order, and the goals that cannot be met."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial

import msgspec
import numpy as np
import polars as pl

from engine.broker_load.cruise_control import cluster_model, goals
from engine.broker_load.cruise_control.cluster_model import Cluster
from engine.broker_load.cruise_control.goals import Verdict
from engine.broker_load.insight import failover
from engine.broker_load.model import broker_capacity
from engine.broker_load.model.topology import Flags
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.plan import limits, proofs, sequence
from engine.broker_load.plan.balance import Balance, survive
from engine.broker_load.plan.limits import HARD
from engine.broker_load.plan.problem import DISK, Problem, loads_of
from engine.broker_load.plan.search import EPSILON, Search
from engine.broker_load.plan.sequence import Batch, Standing, Step
from engine.broker_load.plan.state import State
from engine.core.parameters import no_what_if

SMALL = 3_000  # most partitions of a cluster that is planned in several ways; the best plan counts
Report = Callable[[float, str], None]
Context = tuple[Callable[[], None], Report]
"""A function that raises if the plan is no longer wanted, and one that is called with the progress."""


class BadPlan(ValueError):
    """Raised for an option with a wrong value; the first argument is the option, the second the reason."""


class NoPlan(ValueError):
    """Raised where no plan can be made; the argument says why."""


class Plan(msgspec.Struct, frozen=True, eq=False):
    """A plan for ``problem``: ``today`` and the ``steps`` in order, its ``batches``; ``why_not`` goals (by place of the 16)
    cannot be met, ``lost`` losses, ``least`` MB in any case; steps ``left_out`` because they would harm, ``cut`` by request."""

    problem: Problem
    verdicts: list[Verdict]
    today: Standing
    steps: list[Step]
    batches: list[Batch]
    why_not: Mapping[int, str]
    lost: list[str]
    least: Mapping[int, float]
    must: float
    first: State
    left_out: int = 0
    cut: int = 0
    new: Mapping[int, str] = msgspec.field(default_factory=dict)

    @property
    def last(self) -> Standing:
        """How the cluster stands at the end."""
        return (self.steps[-1].after if self.steps else None) or self.today

    @property
    def undecided(self) -> Flags:
        """[16] goals that cannot be decided."""
        return np.array([verdict.violated is None for verdict in self.verdicts])

    def placements(self, steps: list[Step] | None = None) -> dict[int, tuple[list[int], int]]:
        """Return the replicas and leader (indices) of every changed partition after ``steps``, by default all."""
        return {step.row: (step.replicas, step.leader) for step in (self.steps if steps is None else steps)}


class Asked(msgspec.Struct, frozen=True):
    """What ``plan`` asks: survival only or all goals, brokers to drain, and brokers to add with their racks."""

    survive: bool
    drain: tuple[int, ...] = ()
    add: Mapping[int, str] = msgspec.field(default_factory=dict)


def asked(text: str) -> Asked:
    """Read the option ``plan``. Raises BadPlan."""
    kind, _, names = text.partition(":")
    if kind in ("mend", "survive") and not names:
        return Asked(kind == "survive")
    words = [word.strip() for word in names.split(",") if word.strip()]
    if kind not in ("drain", "add") or not words:
        raise BadPlan("plan", f"{text!r} is not mend, survive, drain:ID,... or add:ID@RACK,...")
    ids: dict[int, str] = {}
    for word in words:
        number, _, rack = word.partition("@")
        if not re.fullmatch(r"[0-9]{1,9}", number) or (rack and kind == "drain"):
            raise BadPlan("plan", f"{word!r} is no broker id")
        ids[int(number)] = rack
    return Asked(False, tuple(ids)) if kind == "drain" else Asked(False, (), ids)


def joined(cluster: Cluster, new: Mapping[int, str], capacity: pl.DataFrame, estimate: bool) -> Cluster:
    """Return the cluster with empty brokers ``new`` (rack by id) of the default capacity. Raises BadPlan for a known one."""
    topology = cluster.topology
    for number in new:
        if number in topology.ids.tolist():
            raise BadPlan("plan", f"broker {number} is in the cluster already")
    if not new:
        return cluster
    ids = np.array(sorted([*topology.ids.tolist(), *new]), np.int32)
    place = np.append(np.searchsorted(ids, topology.ids), -1).astype(np.int32)
    old = {int(number): index for index, number in enumerate(topology.ids.tolist())}
    hosts = [topology.hosts[old[one]] if one in old else f"broker-{one}" for one in ids.tolist()]
    racks = [topology.racks[old[one]] if one in old else new[one] or f"broker-{one}" for one in ids.tolist()]
    alive = np.array([bool(topology.alive[old[one]]) if one in old else True for one in ids.tolist()])
    after = msgspec.structs.replace(
        topology, ids=ids, hosts=tuple(hosts), racks=tuple(racks), alive=alive, leader=place[topology.leader],
        replicas=place[topology.replicas],
    )  # fmt: skip
    found = broker_capacity.resolve(capacity, after, estimate)
    if not cluster.capacities.file:
        cores = found.cores.copy()
        cores[after.index_of(topology.ids)] = cluster.capacities.cores
        found = msgspec.structs.replace(found, cores=cores, cpu=cores * 100.0)
    return msgspec.structs.replace(
        cluster, topology=after, capacities=found, sums=cluster_model.sums(after, cluster.loads, single=True)
    )


def problem_of(cluster: Cluster, parameters: BrokerLoadParameters, want: Asked) -> Problem:
    """Return what a plan starts from; drained brokers are dead. Raises BadPlan and NoPlan."""
    if not all(np.isfinite(cluster.sums.raw(name)).all() for name in cluster_model.RESOURCES):
        raise NoPlan("a load is not a number")
    drained = _named(cluster, "plan", want.drain)
    skipped, unknown = failover.select(cluster.topology, parameters.plan_skip_brokers)
    if unknown:
        raise BadPlan("plan-skip-brokers", f"{unknown[0]!r} is no broker, rack:NAME or host:NAME")
    topology = cluster.topology
    left = topology.alive & ~drained
    if drained.any():
        if not left.any():
            raise BadPlan("plan", "all living brokers would be drained")
        racks = len({topology.racks[index] for index in np.flatnonzero(left).tolist()})
        before = len({topology.racks[index] for index in np.flatnonzero(topology.alive).tolist()})
        widest = int(topology.count[topology.leader >= 0].max(initial=0))
        if int(left.sum()) < widest or racks < min(widest, before):
            raise BadPlan("plan", f"{widest} replicas per partition need more brokers or racks than the drain leaves")
        cluster = msgspec.structs.replace(cluster, topology=msgspec.structs.replace(topology, alive=left))
        topology = cluster.topology
    lead, follow = loads_of(cluster)
    movable = (topology.leader >= 0) & topology.leads.any(axis=1) & ~_stay(cluster, parameters) & ~topology.moving
    broken = np.zeros(topology.brokers, np.bool_)
    broken[np.unique(topology.replicas[topology.held & topology.offline])] = True
    sized = "DISK" not in cluster.unknown and bool((lead[:, DISK] > 0).any())
    mean = float(np.maximum(lead[:, DISK], 0.0).mean()) if len(lead) else 0.0
    cost = (0.02 if parameters.plan_effort == "mb" else 1.0) * (mean if sized else 1.0)
    return Problem(cluster, parameters, left & ~broken & ~skipped, movable, lead, follow, sized, max(cost, 1e-9))


def _named(cluster: Cluster, option: str, ids: tuple[int, ...]) -> Flags:
    marked, unknown = failover.select(cluster.topology, tuple(map(str, ids)))
    if unknown:
        raise BadPlan(option, f"broker {unknown[0]} is not in the cluster")
    return marked


def _stay(cluster: Cluster, parameters: BrokerLoadParameters) -> Flags:
    """Return flags [P] of partitions that are not to change: of skipped topics, and rejected ones. Raises BadPlan."""
    topology = cluster.topology
    stay = np.zeros(len(topology.topics), np.bool_)
    if parameters.plan_skip_topics:
        try:
            pattern = re.compile(parameters.plan_skip_topics)
        except re.error as error:
            raise BadPlan("plan-skip-topics", f"not a regular expression: {error}") from error
        stay = np.array([bool(pattern.fullmatch(name)) for name in topology.topics], np.bool_)
    flags = stay[topology.topic]
    if parameters.plan_reject:
        codes = {name: code for code, name in enumerate(topology.topics)}
        for word in parameters.plan_reject:
            topic, _, number = word.rpartition("-")
            here = topology.topic == codes.get(topic, -1)
            here &= topology.partition == (int(number) if number.isdecimal() and len(number) < 10 else -1)
            if not here.any():
                raise BadPlan("plan-reject", f"{word!r} is no partition of the cluster (topic-partition)")
            flags |= here
    return flags


def make(
    problem: Problem, want: Asked, drained: Flags, context: Context, free: bool = False, old: Plan | None = None
) -> Plan:
    """Search for a plan; ``free``: only changes that copy nothing; ``old``: a plan, as much of it as may be is a start too."""
    check, report = context
    verdicts = [one for one in goals.verdicts(problem.cluster, problem.parameters) if one.goal not in goals.NOT_DEFAULT]
    names = [verdict.goal for verdict in verdicts]
    undecided = np.array([verdict.violated is None for verdict in verdicts])
    first = State(problem)
    why = {goal: reason for goal, reason in proofs.cannot(problem, first).items() if not undecided[goal]}
    chased = ~undecided & ~np.isin(np.arange(limits.GOALS), [limits.MIN_LEADERS, *why])
    can, lost = proofs.survivable(problem, first)
    if problem.cluster.missing:
        can = np.zeros_like(can)
    ways, small = [_Way(chased, can, names, drained, want.survive, free)], problem.cluster.topology.size <= SMALL
    balanced = msgspec.structs.replace(ways[0], only_survival=False, balanced=True)
    mending = [msgspec.structs.replace(balanced, goals_first=True), balanced] if small and not free else []
    ways += [msgspec.structs.replace(ways[0], together=True)] if want.survive and mending else mending
    if old is not None:
        ways = [*(ways if small else ()), msgspec.structs.replace(ways[-1], old=old.steps)]
    today, shared = sequence.standing(State(problem, slack=0.0), undecided), dict[tuple[int, bool], Search]()

    def worth(steps: list[Step]) -> tuple[float, ...]:
        return _worth(problem, today, steps, can, want.survive)

    def end(number: int, way: _Way) -> tuple[list[Step], int]:
        found = way.search(problem, check, lambda share, text: report((number + share) / len(ways), text), shared)
        steps, left_out = sequence.in_order(problem, found, names, undecided, check)
        if left_out and worth(steps)[:4] > worth([])[:4]:
            # The steps that are left are worse than today: the first ones alone may be better.
            steps = steps[: min(range(len(steps) + 1), key=lambda end: worth(steps[:end]))]
        return steps, left_out

    missed = today.violated.any() or (can & ~today.survived).any()
    ends = [end(number, way) for number, way in enumerate(ways)] if missed or not free else [([], 0)]
    if want.survive and all(worth(steps)[2] for steps, _ in ends):  # mending all goals may leave losses more room
        ends += [end(len(ways) - 1, way) for way in mending]
    steps, left_out = min(ends, key=lambda end: worth(end[0]))
    # Something is missed that may be reached from here.
    if mending and worth(steps)[2] > len(why) * (not want.survive):
        again = end(len(ways) - 1, msgspec.structs.replace(ways[0], old=steps))
        steps, left_out = min((steps, left_out), again, key=lambda end: worth(end[0]))
    least = proofs.least_mb(problem, first, undecided)
    must = proofs.must_copy(problem, first, least, chased & (HARD if want.survive else True))
    return Plan(problem, verdicts, today, steps, [], why, lost, least, must, first, left_out)


class _Way(msgspec.Struct, frozen=True, eq=False):
    """One way to search: losses before the soft goals.

    ``balanced``: then the rest of both together, ``goals_first`` if set; ``together``: relieve all losses, even if some remain.
    """

    chased: Flags
    reachable: Flags
    names: list[str]
    drained: Flags
    only_survival: bool
    free: bool
    goals_first: bool = False
    balanced: bool = False
    together: bool = False
    old: Sequence[Step] = ()

    def search(
        self, problem: Problem, check: Callable[[], None], report: Report, shared: dict[tuple[int, bool], Search]
    ) -> Search:
        """Return the placement found, with everything that changed; ``shared``: what ways that start alike found at first."""
        calls = itertools.count()
        share = 0.0

        def tick() -> None:
            check()
            if next(calls) % 64 == 0:
                report(share, f"looking for moves: {len(search.journal):,} changes so far")

        search = Search(State(problem), self.chased, tick, free=self.free)
        kept = search.now <= EPSILON
        for step in {step.row: step for step in self.old if problem.movable[step.row]}.values():
            search.attempt([(step.row, step.replicas, step.leader)], step.reason, lambda totals: True)
        stages = list(self._stages(search, kept))
        alike = 3 + (not self.goals_first and problem.parameters.plan_survive != "none")
        for number, stage in enumerate(stages):
            share = number / (len(stages) + 1)
            key = number, self.together and number == 3
            if self.old or number >= alike or key not in shared:
                stage()
            else:
                vars(search).update(vars(deepcopy(shared[key], {id(problem): problem})) | {"check": tick})
            if not self.old and number < alike and problem.cluster.topology.size <= SMALL:
                shared[key] = deepcopy(search, {id(problem): problem})
        report(len(stages) / (len(stages) + 1), "putting the steps in order")
        return search

    def _stages(self, search: Search, kept: Flags) -> Iterator[Callable[[], None]]:
        """Yield what is done, one after the other; ``kept`` [16]: goals that are not missed today."""
        parameters, every = search.problem.parameters, np.ones(limits.GOALS, np.bool_)
        everything = partial(search.mend, self.names, every)
        losses = partial(survive, search, parameters.plan_survive == "rack", self.reachable, together=self.together)
        survives = parameters.plan_survive != "none"
        if not self.free:
            yield partial(search.rescue, self.drained)
            yield search.spread
        yield partial(search.mend, self.names, HARD)
        if self.goals_first:
            yield everything
            yield search.take_back
            yield partial(search.take_back, strict=False)
        elif survives:
            yield losses
        if not (self.only_survival or self.goals_first):
            yield partial(setattr, search, "guarded", self.balanced)
            yield everything
            if survives and not self.balanced:
                yield partial(losses, careful=True)
        if self.balanced:
            brokers = self.reachable & (np.arange(len(self.reachable)) < len(search.problem.alive))
            soft = search.chased & ~HARD
            yield partial(setattr, search, "guarded", False)
            yield Balance(search, brokers & survives, self.names, soft).run
            if parameters.plan_survive == "rack":
                yield partial(Balance(search, self.reachable, self.names, soft).run, 0.3)
            yield search.guard
        if self.only_survival:
            yield partial(self._mend_again, search, kept)
        yield search.take_back
        if not self.only_survival:
            yield partial(search.take_back, strict=False)

    def _mend_again(self, search: Search, kept: Flags) -> None:
        """Mend the goals that survival broke, if more goals are missed than before; nothing that is survived is lost."""
        missed = search.now > EPSILON
        if missed.sum() > (~kept).sum():
            search.mend(self.names, missed & kept)


def _worth(problem: Problem, today: Standing, steps: list[Step], can: Flags, survive: bool) -> tuple[float, ...]:
    """Return how bad the end of ``steps`` is: offline, hard goals, goals (to ``survive``: more than today) and losses of brokers,
    the latter, losses of racks, MB and steps."""
    last = (steps[-1].after if steps else None) or today
    lost = int((can & ~last.survived)[: len(problem.alive)].sum())
    copied = sum(step.mb for step in steps)
    racks = int((can & ~last.survived).sum()) - lost
    return (
        float(last.offline),
        int(last.violated[HARD].sum()),
        lost + max(int(last.violated.sum()) - survive * int(today.violated.sum()), 0),
        lost,
        racks,
        copied,
        len(steps),
    )


def unplanned(parameters: BrokerLoadParameters) -> BrokerLoadParameters:
    """Return the parameters without a plan: a plan changes nothing, a what-if does."""
    return msgspec.structs.replace(
        parameters, **{name: value for name, value in no_what_if(type(parameters)).items() if name.startswith("plan")}
    )


UNCHANGED = {"plan_max_steps": 0, "plan_max_mb": 0.0, "plan_throttle_mbs": 50.0, "plan_parallel": 5, "plan_batch": 0}
"""Options that change nothing in what is sought."""


def limited(made: Plan, parameters: BrokerLoadParameters) -> Plan:
    """Return the plan up to the most steps and MB asked for, in batches."""
    steps = made.steps[: parameters.plan_max_steps] if parameters.plan_max_steps else made.steps
    if parameters.plan_max_mb:
        total = np.cumsum([step.mb for step in steps])
        steps = steps[: int(np.searchsorted(total, parameters.plan_max_mb, side="right"))]
    done, batches = sequence.batched(made.problem, steps, parameters.plan_parallel, parameters.plan_throttle_mbs)
    return msgspec.structs.replace(made, steps=done, batches=batches, cut=len(made.steps) - len(steps))
