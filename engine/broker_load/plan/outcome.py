"""What a plan adds to a result: its tables, summary, findings and notes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import msgspec
import numpy as np
import polars as pl

from engine.broker_load.cruise_control import load_model, replica_loads
from engine.broker_load.cruise_control.cluster_model import Cluster
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.insight import failover, scenarios
from engine.broker_load.model.topology import Flags, Floats, Longs
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.plan import planner, proofs
from engine.broker_load.plan.limits import HARD
from engine.broker_load.plan.planner import Asked, BadPlan, NoPlan, Plan
from engine.broker_load.plan.problem import NW_IN, Problem
from engine.broker_load.plan.sequence import Standing, Step
from engine.broker_load.plan.state import State
from engine.broker_load.result.result_builder import ResultBuilder
from engine.broker_load.result.what_if_tables import broker_rows
from engine.broker_load.tables import plan as tables
from engine.core.reading import Problem as InputProblem
from engine.core.units import plural
from engine.core.view import Context, Finding, Headline, Inputs, Level

FREE_LIMIT = 100_000  # most replicas of a cluster in which free moves are looked for unasked


def add(
    model: Model, cluster: Cluster, inputs: Inputs, parameters: BrokerLoadParameters, context: Context,
    builder: ResultBuilder,
) -> None:  # fmt: skip
    """Add the plan that ``parameters`` ask for ``cluster``, or the reason why there is none."""
    try:
        want = planner.asked(parameters.plan)
        _possible(model, cluster)
        base = planner.joined(
            _settled(model, cluster, parameters),
            want.add,
            inputs.table("capacity"),
            parameters.allow_capacity_estimation,
        )

        def planned(problem: Problem, old: Plan | None = None) -> Plan:
            drained = base.topology.alive & ~problem.alive
            return context.memo.value(
                "broker load plan", (inputs.version, context.at_ms, problem.parameters),
                lambda: planner.make(problem, want, drained, (context.check, context.progress), old=old), keep=2,
            )  # fmt: skip

        plain = msgspec.structs.replace(parameters, answer="reassignment", **planner.UNCHANGED)
        problem = planner.problem_of(base, plain, want)  # what is asked wrongly is told before anything is looked for
        whole = (
            planned(planner.problem_of(base, msgspec.structs.replace(plain, plan_reject=()), want))
            if plain.plan_reject
            else None
        )
        made = planner.limited(planned(problem, whole), parameters)
    except BadPlan as error:
        option, reason = error.args
        builder.problems.append(InputProblem.at(f"-o {option}", "bad-option", reason))
        builder.notes.append(f"no plan: {option}: {reason}")
        return
    except NoPlan as error:
        refuse(str(error), builder)
        return
    _tables(model, base, inputs, parameters, want, made, builder)
    _tell(made, want, builder)


def refuse(why: str, builder: ResultBuilder) -> None:
    """Say why there is no plan."""
    builder.notes.append(f"no plan: {why}")
    builder.findings.append(Finding("moderate", "plan", f"no plan: {why}"))


def _possible(model: Model, cluster: Cluster) -> None:
    """Raise NoPlan where loads are not known."""
    if model.synthetic or not cluster.topology.size:
        raise NoPlan("no topology: kafka-topics --describe gives it")
    if not model.rounds and model.finished is None:
        raise NoPlan("no window has samples: scrapes or samples give the loads")
    if model.history.unknown or cluster.lacking:
        raise NoPlan(model.history.unknown or f"the loads of some brokers are unknown ({cluster.missing})")


def _settled(model: Model, cluster: Cluster, parameters: BrokerLoadParameters) -> Cluster:
    """Return the cluster once reassignments in progress are done, from which a plan starts."""
    topology = cluster.topology
    if not (topology.adding | topology.removing).any():
        return cluster
    after, values = topology.settled(), load_model.window_loads(model.aggregate)
    return cluster.with_loads(
        after, replica_loads.as_cruise_control(after, model.values, values, parameters.cpu_weights)
    )


def _tables(
    model: Model, base: Cluster, inputs: Inputs, parameters: BrokerLoadParameters, want: Asked, made: Plan,
    builder: ResultBuilder,
) -> None:  # fmt: skip
    topology, problem = base.topology, made.problem
    rows = np.array([step.row for step in made.steps], np.int64)
    ids = topology.ids

    def lists(each: list[list[int]]) -> pl.Series:
        place, flat = np.repeat(np.arange(len(each)), [len(one) for one in each]), list(itertools.chain(*each))
        listed = pl.DataFrame({"place": place, "id": ids[np.array(flat, np.int64)]})
        return listed.group_by("place", maintain_order=True).agg("id")["id"].cast(pl.List(pl.Int32))

    def id_of(index: int) -> int | None:
        return int(ids[index]) if index >= 0 else None

    before = [[one for one in step.before.replicas.tolist() if one >= 0] for step in made.steps]
    sized = problem.sized
    builder.frames["plan_steps"] = tables.PLAN_STEPS.frame(
        {
            "step": list(range(1, len(made.steps) + 1)),
            "batch": [step.batch for step in made.steps],
            "kind": [step.kind for step in made.steps],
            "topic": topology.topic_names.gather(rows),
            "partition": topology.partition[rows],
            "from_broker": [id_of(step.source) for step in made.steps],
            "to_broker": [id_of(step.target) for step in made.steps],
            "replicas": lists(before),
            "new_replicas": lists([step.replicas for step in made.steps]),
            "leader": [id_of(step.before.leader) for step in made.steps],
            "new_leader": [id_of(step.leader) for step in made.steps],
            "moved_mb": [_mb(made, step.mb, step.free) for step in made.steps],
            "seconds": [_mb(made, step.seconds, step.free) for step in made.steps],
            "reason": [step.reason for step in made.steps],
            "mends": ["|".join(step.settles) for step in made.steps],
        }
    )
    builder.frames["plan_curve"] = _curve(made)
    builder.frames["plan_goals"] = _goals(made)
    builder.frames["plan_batches"] = tables.PLAN_BATCHES.frame(
        {
            "batch": [batch.number for batch in made.batches],
            "steps": [batch.steps for batch in made.batches],
            "moved_mb": [_mb(made, batch.mb, batch.busiest < 0) for batch in made.batches],
            "busiest_broker": [id_of(batch.busiest) for batch in made.batches],
            "seconds": [_mb(made, batch.seconds, batch.busiest < 0) for batch in made.batches],
            "disk_peak_pct": [None if not sized or batch.peak is None else 100 * batch.peak for batch in made.batches],
        }
    )
    after = placed_cluster(model, base, inputs.table("capacity"), parameters, made.placements())
    fresh = np.isin(after.topology.ids, list(want.add))
    states = ["NEW" if new else state for new, state in zip(fresh.tolist(), after.states, strict=True)]
    builder.frames["plan_brokers"] = broker_rows(
        tables.PLAN_BROKERS, base, after, after.sums, after.topology.alive, states, parameters
    )


def _mb(made: Plan, value: float, free: bool = False) -> float | None:
    """Return MB or seconds; None where sizes are not known and something is copied."""
    return value if made.problem.sized or free else None


def placed_cluster(
    model: Model, base: Cluster, capacity: pl.DataFrame, parameters: BrokerLoadParameters,
    placements: Mapping[int, tuple[list[int], int]],
) -> Cluster:  # fmt: skip
    """Return ``base`` with other replicas and leaders (broker indices by partition), its loads computed as for a reassignment."""
    ids = base.topology.ids
    planned = {row: ids[np.array(replicas, np.int64)].tolist() for row, (replicas, _) in placements.items()}
    elected = [row for row, (replicas, leader) in placements.items() if replicas[0] == leader]
    done = scenarios.reassign(
        model, base, planned, capacity, parameters.allow_capacity_estimation, parameters.cpu_weights, elected
    )
    return done.cluster


def _curve(made: Plan) -> pl.DataFrame:
    problem, brokers = made.problem, len(made.problem.alive)
    names = [verdict.goal for verdict in made.verdicts]
    stands = [made.today, *(step.after or made.today for step in made.steps)]
    steps, rows = made.steps, [step.row for step in made.steps]
    moves = np.cumsum([0, *(not step.free for step in steps)]).tolist()
    moved = np.cumsum([0.0, *(step.mb for step in steps)]).tolist()
    first = np.isin(np.arange(len(rows)), np.unique(rows, return_index=True)[1])

    def survived(part: slice) -> list[int | None]:
        return [None if problem.cluster.missing else int(now.survived[part].sum()) for now in stands]

    return tables.PLAN_CURVE.frame(
        {
            "step": list(range(len(stands))),
            "moved_mb": [_mb(made, total, not count) for total, count in zip(moved, moves, strict=True)],
            "replica_moves": moves,
            "leader_moves": np.cumsum([0, *(step.leader != step.before.leader for step in steps)]),
            "partitions": np.cumsum([0, *first]),
            "offline": [now.offline for now in stands],
            "goals_violated": [int(now.violated.sum()) for now in stands],
            "violated": ["|".join(itertools.compress(names, now.violated)) for now in stands],
            "balancedness": [now.score(made.verdicts) for now in stands],
            "survived_brokers": survived(slice(brokers)),
            "brokers": [int(problem.counted[:brokers].sum())] * len(stands),
            "survived_racks": survived(slice(brokers, None)),
            "racks": [int(problem.counted[brokers:].sum())] * len(stands),
            "worst_headroom_pct": [None if now.headroom is None else 100 * now.headroom for now in stands],
        }
    )


def _goals(made: Plan) -> pl.DataFrame:
    end = State(made.problem)
    for place, (replicas, leader) in made.placements().items():
        end.place(place, replicas, leader)
    known = (~made.undecided).tolist()

    def where_known(values: Floats | Flags | Longs) -> list[object]:
        return [value if sure else None for value, sure in zip(values.tolist(), known, strict=True)]

    return tables.PLAN_GOALS.frame(
        {
            "goal": [verdict.goal for verdict in made.verdicts],
            "hard": [verdict.hard for verdict in made.verdicts],
            "violated_before": where_known(made.today.violated),
            "violated_after": where_known(made.last.violated),
            "offenders_before": where_known(made.today.offenders),
            "offenders_after": where_known(made.last.offenders),
            "excess_before": where_known(proofs.excesses(made.problem, made.first)),
            "excess_after": where_known(proofs.excesses(made.problem, end)),
            "reachable": where_known(~np.isin(np.arange(len(known)), list(made.why_not))),
            "why_not": [
                made.why_not.get(goal, "") if sure else verdict.detail or "cannot be decided"
                for goal, (verdict, sure) in enumerate(zip(made.verdicts, known, strict=True))
            ],
            "least_mb": [made.least.get(goal) for goal in range(len(known))],
        }
    )


def _amount(mb: float) -> str:
    return f"{mb / 1000:,.0f} GB" if mb >= 10_000 else f"{mb:,.0f} MB"


def duration(seconds: float) -> str:
    """Return a time in the unit a person would use."""
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"


NO_STEP = "no step helps"


def sentence(made: Plan) -> str:
    """Return the plan in one sentence: what its free steps mend, and what the rest costs."""
    today, last, total = made.today, made.last, len(made.steps)
    decided = int((~made.undecided).sum())
    stands = f"{decided - int(last.violated.sum())} of {decided} goals hold{_survived(made, last)}"
    if not made.steps:
        is_open = last.violated.any() or (made.problem.counted & ~last.survived).any()
        return (
            "the plan is cut before its first step"
            if made.cut
            else f"{NO_STEP}: {stands}"
            if is_open
            else "nothing to do"
        )
    free = next((place for place, step in enumerate(made.steps) if not step.free), total)
    hard = np.array([verdict.hard for verdict in made.verdicts])
    if (today.violated & hard).any():  # all hard goals first, if that is free
        standings = [step.after or today for step in made.steps[:free]]
        free = next((place for place, now in enumerate(standings, 1) if not (now.violated & hard).any()), free)
    parts = []
    words = settled(made, today, made.steps[free - 1].after or today) if free else ""
    if words:
        parts.append(f"{plural(free, 'free step')} {words if free > 1 else _singular(words)}")
    rest = made.steps[free if words else 0 :]
    if rest:
        then = "do the rest" if words else settled(made, today, last) or "make goals and losses less bad"
        parts.append(f"{_cost(made, rest, ' more' if words else '')} {then if len(rest) > 1 else _singular(then)}")
    parts.append(f"then {stands}")
    return "; ".join([*parts, f"{plural(made.cut, 'more step')} cut off"] if made.cut else parts)


def _cost(made: Plan, steps: list[Step], more: str) -> str:
    """Return in words what steps cost: ``18 more free steps and 4 moves (86 GB)``."""
    free, copied = sum(step.free for step in steps), sum(step.mb for step in steps)
    moves = len(steps) - free
    parts = [f"{free}{more} free step{'s' if free > 1 else ''}"] if free else []
    amount = f" ({_amount(copied)})" if made.problem.sized else ""
    parts += [f"{moves}{'' if free else more} move{'s' if moves > 1 else ''}{amount}"] if moves else []
    return " and ".join(parts)


def _singular(words: str) -> str:
    return ", ".join(
        f"{verb}{'es' if verb == 'do' else 's'} {rest}"
        for verb, _, rest in (part.partition(" ") for part in words.split(", "))
    )


def _survived(made: Plan, now: Standing) -> str:
    """Return how many losses are survived, in words."""
    counted, brokers = made.problem.counted, len(made.problem.alive)
    if made.problem.cluster.missing or not counted.any():
        return ""
    kind = "rack" if made.problem.cluster.topology.racks_known else "host"
    parts = [
        f"{int(now.survived[part].sum())} of {plural(int(counted[part].sum()), noun + ' loss', 'es')}"
        for part, noun in ((slice(0, brokers), "broker"), (slice(brokers, None), kind)) if counted[part].any()
    ]  # fmt: skip
    return f", {' and '.join(parts)} {'is' if counted.sum() == 1 else 'are'} survived"


def settled(made: Plan, before: Standing, after: Standing) -> str:
    """Return in words what is settled between two standings: ``mend both hard goals, make 2 broker losses survivable``."""
    hard = np.array([verdict.hard for verdict in made.verdicts])
    gone = before.violated & ~after.violated & (before.offenders > 0)  # not only for the sake of offline replicas
    parts, brokers = list[str](), len(made.problem.alive)
    if before.offline > after.offline:
        parts.append(f"move {plural(before.offline - after.offline, 'replica')} that cannot stay")
    firm, soft = int((gone & hard).sum()), int((gone & ~hard).sum())
    goals = []
    if firm:
        which = {1: "the", 2: "both"}.get(firm, f"all {firm}") if not (after.violated & hard).any() else str(firm)
        goals.append(f"{which} hard goal{'s' if firm > 1 else ''}")
    if soft:
        goals.append(plural(soft, "soft goal"))
    if goals:
        parts.append(f"mend {' and '.join(goals)}")
    saved = after.survived & ~before.survived
    kind = "rack" if made.problem.cluster.topology.racks_known else "host"
    losses = [
        plural(int(part.sum()), f"{noun} loss", "es")
        for part, noun in ((saved[:brokers], "broker"), (saved[brokers:], kind)) if part.any()
    ]  # fmt: skip
    if losses:
        parts.append(f"make {' and '.join(losses)} survivable")
    return ", ".join(parts)


def _tell(made: Plan, want: Asked, builder: ResultBuilder) -> None:
    """Add summary, headline, findings and notes."""
    today, last, problem = made.today, made.last, made.problem
    seconds, copied = sum(batch.seconds for batch in made.batches), sum(step.mb for step in made.steps)
    told = sentence(made)
    builder.summary |= {
        "plan": told,
        "plan_steps": len(made.steps),
        "plan_free_steps": sum(step.free for step in made.steps),
        "plan_moved_mb": _mb(made, copied),
        "plan_seconds": _mb(made, seconds),
        "plan_goals_before": int(today.violated.sum()),
        "plan_goals_after": int(last.violated.sum()),
        "plan_losses_before": int((problem.counted & ~today.survived).sum()),
        "plan_losses_after": int((problem.counted & ~last.survived).sum()),
        "plan_least_mb": _mb(made, made.must),
        "plan_left_alone": int(problem.cluster.topology.moving.sum()),
    }
    level: Level = "moderate" if last.violated.any() or told.startswith(NO_STEP) else "ok"
    basis = f"{plural(len(made.batches), 'batch', 'es')}, {duration(seconds)} at {problem.parameters.plan_throttle_mbs:g} MB/s"
    headline = Headline("plan", told, basis if copied else "no data is copied", level)
    builder.outcome = headline
    builder.headline.insert(0, headline)
    builder.notes += [
        f"{made.verdicts[goal].goal} cannot be met: {reason}" for goal, reason in sorted(made.why_not.items())
    ]
    builder.notes += made.lost
    unsure = [verdict.goal for verdict in made.verdicts if verdict.violated is None]
    still, busy = int((problem.cluster.topology.leader < 0).sum()), builder.summary["plan_left_alone"]
    builder.notes += [
        note
        for note, holds in (
            (f"not planned for: {', '.join(unsure)} ({problem.cluster.missing or 'undecided'})", unsure),
            (
                "the plan saves moves, not MB: "
                + problem.cluster.unknown.get("DISK", "kafka-log-dirs or scrapes of the log size give the sizes"),
                not problem.sized,
            ),
            (f"{plural(made.left_out, 'step')} left out: each would make a hard goal worse", made.left_out),
            (f"the plan is cut: {plural(made.cut, 'step')} not shown", made.cut),
            (f"{plural(still, 'partition')} without a leader left alone", still),
            (
                f"{plural(busy, 'partition')} left alone: a reassignment moves {'it' if busy == 1 else 'them'} now, and the "
                "plan starts from where it leads; until it is done, kafka-reassign-partitions needs --additional",
                busy,
            ),
        )
        if holds
    ]
    builder.notes += _slow(made)
    if want.drain and last.offline:
        builder.findings.append(
            Finding(
                "severe", "drain", f"{plural(last.offline, 'replica')} found no place on the other brokers; add brokers"
            )
        )
    elsewhere, _ = failover.preferred(problem.cluster.topology)
    if len(elsewhere):
        builder.notes.append(
            f"{plural(len(elsewhere), 'partition')} not led by the first replica: with auto.leader.rebalance.enable Kafka "
            "hands leadership back by itself (-o elect=all shows what that does)"
        )


def _slow(made: Plan) -> list[str]:
    """Return a note on partitions whose copy never ends, as their leaders write faster than the throttle copies."""
    throttle = made.problem.parameters.plan_throttle_mbs * 1024
    rows = sorted({step.row for step in made.steps if not step.free})
    slow = [row for row in rows if made.problem.as_leader[row, NW_IN] >= throttle]
    if not slow:
        return []
    topology = made.problem.cluster.topology
    name = f"{topology.topics[topology.topic[slow[0]]]}-{topology.partition[slow[0]]}"
    return [
        f"the copy of {plural(len(slow), 'partition')} never ends (first: {name}): it takes in more than the throttle of "
        f"{made.problem.parameters.plan_throttle_mbs:g} MB/s; raise plan-throttle-mbs"
    ]


def free_steps(model: Model, cluster: Cluster, parameters: BrokerLoadParameters, context: Context) -> Finding | None:
    """Return a finding on steps that copy nothing and mend a goal or a loss; None without any."""
    replicas = int(cluster.sums.replicas.sum())
    if model.synthetic or replicas > FREE_LIMIT or (not model.rounds and model.finished is None) or cluster.missing:
        return None
    try:
        problem = planner.problem_of(_settled(model, cluster, parameters), parameters, Asked(True))
    except (BadPlan, NoPlan):
        return None
    nobody = np.zeros(len(problem.alive), np.bool_)
    made = planner.make(problem, Asked(True), nobody, (context.check, lambda part, text: None), free=True)
    steps = needed(made)
    if not steps:
        return None
    after = steps[-1].after or made.today
    words = settled(made, made.today, after)
    firm = (made.today.violated & ~after.violated)[HARD].any() or (after.survived & ~made.today.survived).any()
    text = f"{plural(len(steps), 'free step')} (0 MB) would {words}: see -o plan=survive"
    # As severe as the problem that it mends, so that both reach the same people.
    return Finding("severe" if firm else "moderate", "plan", text) if words else None


def needed(made: Plan) -> list[Step]:
    """Return the steps up to the last one that settles something."""
    return made.steps[: max((place for place, step in enumerate(made.steps) if step.settles), default=-1) + 1]
