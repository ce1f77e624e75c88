"""Plans of SQL executions: a tree in the log, here a flat list of nodes in the order of a walk, root first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from engine.core.text import clean
from engine.job_heuristics.spark.reading.decoding import event
from engine.job_heuristics.spark.reading.events import Event, Int

MOST_NODES = 5000
"""Most nodes of one plan; the largest real queries have some hundreds."""
MOST_TEXT = 600
"""Most characters of a node's description."""


class Metric(Event):
    """One metric of a node: its name, accumulator and type (sum, size, timing, nsTiming, average)."""

    name: str = ""
    accumulatorId: Int = -1
    metricType: str = ""


class Node(Event):
    """A node as the log holds it."""

    nodeName: str = ""
    simpleString: str = ""
    children: list[Node] = msgspec.field(default_factory=list)
    metrics: list[Metric] = msgspec.field(default_factory=list)


class PlanNode(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A node of the flat list: ``depth`` below the root, ``name``, ``text``, and its metrics (name, accumulator, type)."""

    depth: int
    name: str
    text: str
    metrics: list[tuple[str, int, str]]


_LIST = msgspec.msgpack.Decoder(list[PlanNode])


def packed(plan: bytes, problem: Callable[[str, str], None]) -> bytes | None:
    """Flatten the JSON of a plan; None if it is unreadable."""
    if not plan:
        return None
    root = event(plan, Node, problem)
    if root is None:
        return None
    nodes: list[PlanNode] = []
    stack: list[tuple[int, Node]] = [(0, root)]
    while stack and len(nodes) < MOST_NODES:
        depth, node = stack.pop()
        metrics = [(clean(m.name, 80), m.accumulatorId, clean(m.metricType, 20)) for m in node.metrics[:100]]
        nodes.append(PlanNode(depth, clean(node.nodeName, 120), clean(node.simpleString, MOST_TEXT), metrics))
        stack += [(depth + 1, child) for child in reversed(node.children)]
    if stack:
        problem("deep-plan", f"a SQL plan of more than {MOST_NODES} nodes is cut")
    return msgspec.msgpack.encode(nodes)


def unpacked(plan: Any) -> list[PlanNode]:
    """Return the nodes of a value of column ``plan``."""
    if not plan:
        return []
    try:
        return _LIST.decode(plan)
    except msgspec.DecodeError:
        return []
