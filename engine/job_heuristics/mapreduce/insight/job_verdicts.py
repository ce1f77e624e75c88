"""Verdicts of one job from its tasks as recorded or from weighted copies of them.

A weighted copy is a possible completion of a running job (``certainty``). See docs/models/job-heuristics.md,
"Explanations".
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from engine.job_heuristics.dr_elephant.decision import Why, explain_tree
from engine.job_heuristics.dr_elephant.gates import Array, Tree
from engine.job_heuristics.dr_elephant.side_stats import Copies, SideTasks, TaskStats
from engine.job_heuristics.mapreduce.model.model import SIDE_COLUMNS, Job, Side
from engine.job_heuristics.mapreduce.rules.heuristics import MEASURES, MapReduceRule, MapReduceRules

Floats = NDArray[np.float64]


def columns_of(side: Side) -> dict[str, Array]:
    """Return the numbers of a side's tasks under the names that measures look them up by."""
    is_map = side.name == "map"
    none = np.zeros(len(side.total), dtype=np.int64)
    return {
        **side.others,
        **{column: getattr(side, name) for name, column in SIDE_COLUMNS.items()},
        "data": side.size,
        "input_bytes": side.size if is_map else none,
        "reduce_shuffle_bytes": none if is_map else side.size,
        "peak": side.peak,
    }


def tasks_of(side: Side) -> SideTasks:
    """Return the tasks of a side that have times as one group."""
    return SideTasks(np.zeros(len(side.total), dtype=np.int64), 1, columns_of(side))


def all_tasks_of(side: Side) -> SideTasks:
    """Return all tasks of a side as one group, with the columns that ``Measure.of_all`` needs."""
    timed = columns_of(side)
    untimed = {**side.untimed, "data": side.untimed["input_bytes" if side.name == "map" else "reduce_shuffle_bytes"]}
    columns = {name: np.concatenate([timed[name], values]) for name, values in untimed.items()}
    return SideTasks(np.zeros(len(columns["data"]), dtype=np.int64), 1, columns)


class Measures(dict[str, Array]):
    """Measures of task groups by name: given values, others computed on first use. ``tasks``: with times;
    ``everything``: all tasks."""

    def __init__(self, tasks: TaskStats, everything: TaskStats, values: Mapping[str, Array]) -> None:
        super().__init__(values)
        self._tasks = tasks
        self._everything = everything

    def __missing__(self, name: str) -> Array:
        measure = _DECLARED[name]
        self.update(
            zip(measure.names, measure.compute(self._everything if measure.of_all else self._tasks), strict=True)
        )
        return self[name]


_DECLARED = {name: measure for measure in MEASURES for name in measure.names}  # all measures by each of their names


class Sample(msgspec.Struct, frozen=True):
    """One side's tasks to judge, in one or more groups: ``tasks`` with times, ``everything``, and the number of tasks
    ``n`` per group."""

    side: Side
    tasks: TaskStats
    everything: TaskStats
    n: Array

    @classmethod
    def of(cls, side: Side) -> Sample:
        """Return the side's recorded tasks."""
        return cls(side, tasks_of(side), all_tasks_of(side), np.array([side.n]))

    @classmethod
    def weighted(cls, side: Side, weights: Floats, n: Array) -> Sample:
        """Return copies of the side's tasks with ``weights`` (copies, tasks). Tasks without times are not in them."""
        copies = Copies(columns_of(side), weights)
        return cls(side, copies, copies, n)

    def measures(self, block_size: int) -> Measures:
        """Return the measures for gates."""
        return Measures(
            self.tasks,
            self.everything,
            {
                "n": self.n,
                "timed": np.full(len(self.n), len(self.side.total)),
                "container_mb": np.full(len(self.n), self.side.stated_mb),
                "block_size": np.full(len(self.n), float(block_size)),
            },
        )


class JobVerdict(msgspec.Struct, frozen=True, eq=False):
    """One verdict of a job: the ``rule``, the side it judges and the readings of its gates."""

    rule: MapReduceRule
    side: Side
    tree: Tree

    @property
    def name(self) -> str:
        """What the heuristic is called."""
        return self.rule.name

    @property
    def level(self) -> int:
        """Severity 0-4 of the first group."""
        return int(self.tree.levels()[0])

    @property
    def unexplained(self) -> bool:
        """Whether there is nothing to explain: the values are averages over no task."""
        return self.rule.heuristic.averages and not self.side.n


def job_verdicts(
    job: Job, rules: MapReduceRules, maps: Sample | None = None, reduces: Sample | None = None
) -> tuple[JobVerdict, ...]:
    """Return the verdicts of all heuristics with gates, in order; ``maps`` and ``reduces`` are samples of the job's sides."""
    samples = {"map": maps or Sample.of(job.maps), "reduce": reduces or Sample.of(job.reduces)}
    measures = {side: sample.measures(rules.block_size) for side, sample in samples.items()}
    verdicts = []
    for rule in rules.with_gates:
        side = rule.heuristic.side
        for name, setting in rule.heuristic.settings.items():
            measures[side].setdefault(name, np.full(1, setting(job.conf)))
        verdicts.append(JobVerdict(rule, samples[side].side, rule.tree(rule.subject(measures[side]))))
    return tuple(verdicts)


def explain(verdict: JobVerdict) -> Why:
    """Explain a verdict on the recorded tasks."""
    level = verdict.level
    return explain_tree(
        verdict.name, verdict.side.name, verdict.tree, level, explained=not verdict.unexplained or level > 0
    )
