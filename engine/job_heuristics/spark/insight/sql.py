"""SQL executions: their costly nodes, with the numbers of Spark's metrics."""

from __future__ import annotations

import re

import msgspec

from engine.job_heuristics.spark.model.app import (
    App,
    SqlExecution,
)
from engine.job_heuristics.spark.reading.events import PlanNode, unpacked

_NANOS = 1_000_000
TIME_SHARE = 0.25  # share of the own times of all nodes from which one is costly
LEAST_TIME_MS, LEAST = 1000, {"rows": 100_000, "bytes": 1 << 20}  # thresholds below which costs are ignored
_IDS = re.compile(r"#\d+L?")


class PlanRow(msgspec.Struct, frozen=True):
    """One node of a plan: ``depth`` below the root, ``name``, ``text``, and its metrics by name (times in ms)."""

    depth: int
    name: str
    text: str
    metrics: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def time_ms(self) -> int:
        """The largest of its (overlapping) times."""
        return max((value for name, value in self.metrics.items() if "time" in name or "duration" in name), default=0)

    @property
    def bytes(self) -> int | None:
        """The largest of its sizes."""
        return max((v for name, v in self.metrics.items() if "size" in name or "bytes" in name), default=None)

    @property
    def rows(self) -> int | None:
        """Output rows."""
        return self.metrics.get("number of output rows")


def plan_rows(app: App, execution: SqlExecution) -> list[PlanRow]:
    """Return the nodes of an execution's last plan, root first, without empty metrics."""
    return [_row(app, node) for node in unpacked(execution.plan)]


def _row(app: App, node: PlanNode) -> PlanRow:
    metrics: dict[str, int] = {}
    for name, accumulator, kind in node.metrics:
        value = app.sql_metrics.get(accumulator)
        if value is not None and value >= 0:
            metrics[name] = value // _NANOS if kind == "nsTiming" else value
    return PlanRow(node.depth, node.name, _IDS.sub("", node.text), metrics)


def own_times(rows: list[PlanRow]) -> list[int]:
    """Return the own time of each node: generated code measures a whole chain of nodes at once, up to its input."""
    own = [row.time_ms for row in rows]
    above: list[tuple[int, int | None]] = []  # depth of the ancestors, and the generated code each belongs to
    for at, row in enumerate(rows):
        while above and above[-1][0] >= row.depth:
            above.pop()
        code = above[-1][1] if above else None
        if row.name.startswith("WholeStageCodegen"):
            code = at
        elif row.name.startswith("InputAdapter"):
            code = None
        elif code is not None:
            own[code] = max(0, own[code] - row.time_ms)
        above.append((row.depth, code))
    return own


def costly(rows: list[PlanRow]) -> list[str]:
    """Return per node the comma-separated criteria by which it is costly: ``time`` (a quarter of all nodes' own
    times, and a second), ``rows`` (the most of all nodes, and 100,000) and ``bytes`` (the most, and 1 MiB); empty if
    none."""
    own = own_times(rows)
    enough = max(LEAST_TIME_MS, TIME_SHARE * sum(own))
    most = {what: max([least, *(getattr(row, what) or 0 for row in rows)]) for what, least in LEAST.items()}
    found = []
    for row, ms in zip(rows, own, strict=True):
        marks = ["time"] if ms >= enough else []
        marks += [what for what, value in most.items() if getattr(row, what) == value]
        found.append(", ".join(marks))
    return found


def children(rows: list[PlanRow], at: int) -> list[int]:
    """Return the indices of a node's children."""
    found = []
    for place in range(at + 1, len(rows)):
        if rows[place].depth <= rows[at].depth:
            break
        if rows[place].depth == rows[at].depth + 1:
            found.append(place)
    return found


def size_below(rows: list[PlanRow], at: int) -> int | None:
    """Return a node's output bytes: from the first node with a size at or below it, along single children."""
    while True:
        metrics = rows[at].metrics
        for name in ("data size", "size of files read", "shuffle bytes written"):
            if name in metrics:
                return metrics[name]
        below = children(rows, at)
        if len(below) != 1:
            return None
        at = below[0]
