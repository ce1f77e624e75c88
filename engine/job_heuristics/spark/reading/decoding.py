"""Decoding of Spark's events, the rows that they give, and SQL plans as flat lists of nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args

import msgspec

from engine.core.reading import clean
from engine.formats import json_text
from engine.job_heuristics.spark.reading.events import Event, Int

S = TypeVar("S", bound=msgspec.Struct)
NO_EVENT = "bad-event"
"""Problem kind of a line that is not an event."""
MOST_ODD = 8 << 20
"""Most bytes of an invalid event that is decoded field by field, which takes over ten times the memory."""


@cache
def _decoder(kind: type[msgspec.Struct]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def event(line: bytes, kind: type[S], problem: Callable[[str, str], None]) -> S | None:
    """Decode a line. A field of another type is a problem and counts as absent; None if the line is not JSON or lacks
    its subject."""
    try:
        return _decoder(kind).decode(line)
    except json_text.ERRORS:
        pass
    if len(line) > MOST_ODD:
        problem(NO_EVENT, f"no event: {len(line) >> 20} MB of another form than {kind.__name__} has")
        return None
    try:
        document = json_text.parse("", line)
    except json_text.ERRORS as error:
        problem(NO_EVENT, f"no event: {error}")
        return None
    for odd in document.problems:
        problem("bad-record", odd.reason)
    value = document.value
    if not isinstance(value, dict):
        problem(NO_EVENT, "no event: no object")
        return None
    return convert(value, kind, problem)


def convert(value: dict[str, Any], kind: type[S], problem: Callable[[str, str], None]) -> S | None:
    """Convert a decoded object field by field."""
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        given = value.get(field.encode_name, msgspec.UNSET)
        if given is not msgspec.UNSET:
            good = _field(given, field.type, field.encode_name, problem)
            if good is not msgspec.UNSET:
                fields[field.name] = good
                continue
        if field.required:
            problem("bad-record", f"an event without {field.encode_name}")
            return None
    return kind(**fields)


def _field(given: Any, kind: Any, name: str, problem: Callable[[str, str], None]) -> Any:
    """Return one field, UNSET if invalid."""
    inner = (
        next((each for each in get_args(kind) if each is not type(None)), kind) if isinstance(kind, UnionType) else kind
    )
    if isinstance(given, dict) and isinstance(inner, type) and issubclass(inner, msgspec.Struct):
        made = convert(given, inner, problem)
        return msgspec.UNSET if made is None else made
    if isinstance(given, list) and get_args(inner) and isinstance(get_args(inner)[0], type):
        item = get_args(inner)[0]
        if issubclass(item, msgspec.Struct):
            made_items = [convert(each, item, problem) for each in given if isinstance(each, dict)]
            return [each for each in made_items if each is not None]
    try:
        if inner is msgspec.Raw:
            return msgspec.Raw(msgspec.json.encode(given))
        if not isinstance(given, float) or math.isfinite(given):
            return msgspec.convert(given, kind)
    except json_text.ERRORS:
        pass
    if given is not None:
        problem("bad-field", f"{name} is invalid: left out")
    return msgspec.UNSET


MOST_TEXT = 600
"""Most characters of a task's error, or of the description of a job or a node of a plan."""
MOST_TRACE = 4_000
"""Most characters of an error in full."""


MOST_NODES = 5000
"""Most nodes of one plan; the largest real queries have some hundreds."""


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
    try:
        return _LIST.decode(plan) if plan else []
    except msgspec.DecodeError:
        return []
