"""SQL executions: their costly nodes, with the numbers of Spark's metrics."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from engine.job_heuristics.model.spark.app import App, SqlExecution
from engine.job_heuristics.reading.spark.plans import PlanNode, unpacked

_NANOS = 1_000_000
_IDS = re.compile(r"#\d+L?")


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One node of a plan: ``depth`` below the root, ``name``, ``text``, and its metrics by name (times in ms)."""

    depth: int
    name: str
    text: str
    metrics: dict[str, int] = field(default_factory=dict)

    @property
    def time_ms(self) -> int:
        """The largest of its times: they overlap."""
        return max((value for name, value in self.metrics.items() if "time" in name or "duration" in name), default=0)

    @property
    def rows(self) -> int | None:
        """Rows it gave."""
        return self.metrics.get("number of output rows")


def plan_rows(app: App, execution: SqlExecution) -> list[PlanRow]:
    """Return the nodes of an execution's last plan, root first; metrics that nothing was added to are left out."""
    return [_row(app, node) for node in unpacked(execution.plan)]


def _row(app: App, node: PlanNode) -> PlanRow:
    metrics: dict[str, int] = {}
    for name, accumulator, kind in node.metrics:
        value = app.sql_metrics.get(accumulator)
        if value is not None and value >= 0:
            metrics[name] = value // _NANOS if kind == "nsTiming" else value
    return PlanRow(node.depth, node.name, _IDS.sub("", node.text), metrics)


def children(rows: list[PlanRow], at: int) -> list[int]:
    """Return the places of a node's children."""
    found = []
    for place in range(at + 1, len(rows)):
        if rows[place].depth <= rows[at].depth:
            break
        if rows[place].depth == rows[at].depth + 1:
            found.append(place)
    return found


def size_below(rows: list[PlanRow], at: int) -> int | None:
    """Return the bytes that come out of a node: of the first node at or below it that says so along single children."""
    while True:
        metrics = rows[at].metrics
        for name in ("data size", "size of files read", "shuffle bytes written"):
            if name in metrics:
                return metrics[name]
        below = children(rows, at)
        if len(below) != 1:
            return None
        at = below[0]
