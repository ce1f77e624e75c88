"""The heuristics in force and their thresholds: upstream's defaults, or a HeuristicConf.xml.

Thresholds are the four limits of LOW, MODERATE, SEVERE and CRITICAL in the unit the parameter is given in (minutes,
multiples of the block size ...), as HeuristicConf.xml spells them.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from engine.formats.hadoop_xml import BadXml, root_of
from engine.problems import Problem
from engine.text import clean

Limits = tuple[float, float, float, float]

_TASKS: Limits = (10, 50, 100, 200)
_GC: dict[str, Limits] = {
    "gc_ratio_severity": (0.01, 0.02, 0.03, 0.04),
    "runtime_severity_in_min": (5, 10, 12, 15),
}
_MEMORY: dict[str, Limits] = {
    "memory_ratio_severity": (0.6, 0.5, 0.4, 0.3),
    "container_memory_severity": (1.1, 1.5, 2.0, 2.5),
}
_TIME: dict[str, Limits] = {
    "short_runtime_severity_in_min": (10, 4, 2, 1),
    "long_runtime_severity_in_min": (15, 30, 60, 120),
    "num_tasks_severity": (50, 101, 500, 1000),
}
_SKEW: dict[str, Limits] = {
    "num_tasks_severity": _TASKS,
    "deviation_severity": (2, 4, 8, 16),
    "files_severity": (1 / 8, 1 / 4, 1 / 2, 1),
}
LIMITS: dict[str, dict[str, Limits]] = {
    "MapperSkewHeuristic": _SKEW,
    "ReducerSkewHeuristic": _SKEW,
    "MapperGCHeuristic": _GC,
    "ReducerGCHeuristic": _GC,
    "MapperTimeHeuristic": _TIME,
    "ReducerTimeHeuristic": _TIME,
    "MapperSpeedHeuristic": {
        "disk_speed_severity": (1 / 2, 1 / 4, 1 / 8, 1 / 32),
        "runtime_severity_in_min": (5, 10, 15, 30),
    },
    "MapperSpillHeuristic": {
        "spill_severity": (2.01, 2.2, 2.5, 3.0),
        "num_tasks_severity": (50, 100, 500, 1000),
    },
    "MapperMemoryHeuristic": _MEMORY,
    "ReducerMemoryHeuristic": _MEMORY,
    "ShuffleSortHeuristic": {
        "runtime_severity_in_min": (1, 5, 10, 30),
        "runtime_ratio_severity": (1, 2, 4, 8),
    },
    "ExceptionHeuristic": {},
    "DistributedCacheLimitHeuristic": {},
    "JobQueueLimitHeuristic": {},
}
"""Default limits per heuristic (upstream's class name) and parameter."""
NUMBERS: dict[str, dict[str, int]] = {
    "MapperMemoryHeuristic": {"container_memory_default_mb": 2048},
    "ReducerMemoryHeuristic": {"container_memory_default_mb": 2048},
    "DistributedCacheLimitHeuristic": {"distributed.cache.file.size.limit": 500 * 2**20},
}
"""Default whole numbers per heuristic and parameter."""
NAMES: dict[str, str] = {
    "MapperSkewHeuristic": "Mapper Skew",
    "MapperGCHeuristic": "Mapper GC",
    "MapperTimeHeuristic": "Mapper Time",
    "MapperSpeedHeuristic": "Mapper Speed",
    "MapperSpillHeuristic": "Mapper Spill",
    "MapperMemoryHeuristic": "Mapper Memory",
    "ReducerSkewHeuristic": "Reducer Skew",
    "ReducerGCHeuristic": "Reducer GC",
    "ReducerTimeHeuristic": "Reducer Time",
    "ReducerMemoryHeuristic": "Reducer Memory",
    "ShuffleSortHeuristic": "Shuffle & Sort",
    "ExceptionHeuristic": "Exception",
    "DistributedCacheLimitHeuristic": "Distributed Cache Limit",
    "JobQueueLimitHeuristic": "Job Queue Limit",
}
"""Upstream's class name → the name it shows, in upstream's order."""
_DEFAULT = tuple(kind for kind in NAMES if kind != "JobQueueLimitHeuristic")


@dataclass(frozen=True)
class Rule:
    """One heuristic in force: ``kind`` is upstream's class name, ``name`` what is shown."""

    kind: str
    name: str
    limits: Mapping[str, Limits]
    numbers: Mapping[str, int] = field(default_factory=dict)
    excluded: frozenset[str] = frozenset()

    def number(self, name: str) -> int:
        """A whole-number parameter."""
        return self.numbers[name]


@dataclass(frozen=True)
class Rules:
    """All heuristics in force in their order. ``given``: they come from a HeuristicConf.xml."""

    rules: tuple[Rule, ...]
    problems: tuple[Problem, ...] = ()
    given: bool = False

    def find(self, kind: str) -> Rule | None:
        """The first rule of a kind."""
        return next((rule for rule in self.rules if rule.kind == kind), None)

    def with_queue_limit(self) -> Rules:
        """These rules, and Job Queue Limit if it is not among them."""
        if self.find("JobQueueLimitHeuristic") is not None:
            return self
        return Rules((*self.rules, _rule("JobQueueLimitHeuristic")), self.problems, self.given)


def _rule(kind: str) -> Rule:
    return Rule(kind, NAMES[kind], LIMITS[kind], NUMBERS.get(kind, {}))


DEFAULT = Rules(tuple(_rule(kind) for kind in _DEFAULT))
"""What upstream ships: 13 heuristics."""


# --- HeuristicConf.xml -----------------------------------------------------------------------------------------------


def evaluate(text: str) -> float:
    """The value of an arithmetic expression (``1/8``, ``2*3``, ``-(1+2)%2``): numbers, + - * / % and parentheses.

    Raises ValueError for anything else, and for what is no finite number.
    """
    if len(text) > 200:
        raise ValueError("an expression of more than 200 characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        value = _value(tree.body, 0)
    except (SyntaxError, MemoryError, RecursionError, OverflowError, ZeroDivisionError, ValueError) as error:
        raise ValueError(f"{text.strip()!r} is no arithmetic expression") from error
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"{text.strip()!r} is no finite number")
    return value


_OPERATORS: dict[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def _value(node: ast.AST, depth: int) -> float:
    if depth > 50:
        raise ValueError("nested too deeply")
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = _value(node.operand, depth + 1)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, depth + 1), _value(node.right, depth + 1)
        if isinstance(node.op, ast.Mod):
            return math.fmod(left, right)
        for kind, apply in _OPERATORS.items():
            if isinstance(node.op, kind):
                return apply(left, right)
    raise ValueError("not arithmetic")


def limits(text: str) -> Limits:
    """Four limits from a parameter's text. Raises ValueError with the reason."""
    parts = text.split(",")
    while parts and not parts[-1]:
        parts.pop()
    if len(parts) != 4:
        raise ValueError(f"{len(parts)} values instead of four")
    a, b, c, d = (evaluate(part) for part in parts)
    return a, b, c, d


@lru_cache(maxsize=8)
def read(name: str, data: bytes) -> Rules:
    """The rules of a HeuristicConf.xml. What cannot be used is a problem and keeps its default.

    An unreadable file gives the defaults and one problem.
    """
    problems: list[Problem] = []

    def problem(kind: str, reason: str) -> None:
        problems.append(Problem.at(name, kind, reason))

    try:
        root = root_of(data, "heuristics")
    except BadXml as error:
        problem("bad-heuristic-conf", f"{error}; the default thresholds are used")
        return Rules(DEFAULT.rules, tuple(problems))
    rules: list[Rule] = []
    for element in root.findall("heuristic"):
        kind = (element.findtext("applicationtype") or "").strip().lower()
        shown = clean((element.findtext("heuristicname") or "").strip(), 200)
        if kind != "mapreduce":
            continue
        made = (element.findtext("classname") or "").strip().rpartition(".")[2]
        if made not in NAMES:
            problem("unknown-heuristic", f"heuristic {shown!r}: no class {made!r} is known here")
            continue
        given: dict[str, str] = {}
        params = element.find("params")
        for child in params if params is not None else ():
            if isinstance(child.tag, str):
                given.setdefault(child.tag, child.text or "")
        chosen = dict(LIMITS[made])
        numbers = dict(NUMBERS.get(made, {}))
        excluded: frozenset[str] = frozenset()
        for key, text in given.items():
            if key == "exclude_jobtypes_filter":
                excluded = frozenset(text.split(","))
            elif key in chosen:
                if text == "":
                    continue
                try:
                    chosen[key] = limits(text)
                except ValueError as error:
                    problem("bad-threshold", f"{shown}: {key}: {error}; the default is kept")
            elif key in numbers:
                try:
                    numbers[key] = int(text.strip())
                except ValueError:
                    problem("bad-threshold", f"{shown}: {key}: {text!r} is no whole number; the default is kept")
            elif key == "distributed.cache.file.size.limit.in.bytes" or key.startswith("distributed.cache"):
                problem(
                    "ignored-parameter", f"{shown}: upstream ignores {key}: it reads distributed.cache.file.size.limit"
                )
            else:
                problem("unknown-parameter", f"{shown}: no parameter {key}")
        rules.append(Rule(made, shown or NAMES[made], chosen, numbers, excluded))
    if not rules:
        problem("bad-heuristic-conf", "no MapReduce heuristic in it: no job is judged")
    return Rules(tuple(rules), tuple(problems), given=True)
