"""Heuristics: how they are declared, and those in force with their limits, by default or by a HeuristicConf.xml.

See docs/models/job-heuristics.md, "HeuristicConf.xml".
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec
import numpy as np

from engine.core.reading import Problem, clean
from engine.formats.hadoop_xml import BadXml, root_of
from engine.job_heuristics.dr_elephant.display import integer, split
from engine.job_heuristics.dr_elephant.gates import Array, Branch, Limits, Subject, Tree

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


class Heuristic(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One heuristic. Each kind of job has a subclass with what it judges by.

    Identity: ``class_name`` and ``application`` as in HeuristicConf.xml, ``name`` for display, ``order`` in lists and
    strips, ``default``: enabled as shipped.

    Judging: ``limits``, ``numbers`` and ``texts`` are the defaults of its parameters by name; ``branches`` are its
    gates. ``unread``: prefix of parameter names in Dr. Elephant's own configuration file that its code ignores.
    """

    name: str
    class_name: str
    order: int
    application: str
    default: bool = True
    limits: Mapping[str, Limits] = msgspec.field(default_factory=dict)
    numbers: Mapping[str, int] = msgspec.field(default_factory=dict)
    texts: Mapping[str, str] = msgspec.field(default_factory=dict)
    branches: tuple[Branch, ...] = ()
    unread: str = ""

    def branches_of(self, *, published: bool) -> tuple[Branch, ...]:
        """Return the gates of the published description, or of Dr. Elephant's code."""
        return self.branches


H_co = TypeVar("H_co", bound=Heuristic, covariant=True)


class Rule(msgspec.Struct, Generic[H_co], frozen=True):
    """A heuristic in force: display ``name``, parameters, and ``excluded`` job types."""

    heuristic: H_co
    name: str
    limits: Mapping[str, Limits]
    numbers: Mapping[str, int] = msgspec.field(default_factory=dict)
    excluded: frozenset[str] = frozenset()
    texts: Mapping[str, str] = msgspec.field(default_factory=dict)

    def subject(self, measures: Mapping[str, Array], *, published: bool = False) -> Subject:
        """Combine ``measures`` with this rule's parameters."""
        return Subject(measures, self.limits, self.numbers, published)

    def tree(self, subject: Subject) -> Tree:
        """Return the readings of the heuristic's gates."""
        branches = self.heuristic.branches_of(published=subject.published)
        return Tree(tuple(tuple(gate.read(subject) for gate in branch.gates) for branch in branches))

    def levels(self, measures: Mapping[str, Array]) -> Array:
        """Return the severities 0-4 that values of the measures give."""
        return self.tree(self.subject(measures)).levels()

    def level(self, **measures: float) -> int:
        """Return the severity 0-4 that one value of each measure gives."""
        return int(self.levels({name: np.array([value], dtype=np.float64) for name, value in measures.items()})[0])


H = TypeVar("H", bound=Heuristic)


def shipped(heuristic: H) -> Rule[H]:
    """Return a heuristic with its default parameters."""
    return Rule(heuristic, heuristic.name, heuristic.limits, heuristic.numbers, texts=heuristic.texts)


BLOCK_SIZE = 64 * 2**20  # bytes of an HDFS block that Dr. Elephant assumes.
K = TypeVar("K", bound=Heuristic)


class Rules(msgspec.Struct, Generic[H], frozen=True, dict=True):
    """The heuristics in force, in order, out of all ``declared``; HDFS ``block_size`` in bytes. ``configured``: read
    from a HeuristicConf.xml."""

    rules: tuple[Rule[H], ...]
    declared: tuple[H, ...]
    problems: tuple[Problem, ...] = ()
    configured: bool = False
    block_size: int = BLOCK_SIZE

    def of(self, kind: type[K]) -> Rules[K]:
        """Return the rules of one kind of job, by the class of its heuristics."""
        if kind not in self._by_kind:
            rules = tuple(cast("Rule[K]", rule) for rule in self.rules if isinstance(rule.heuristic, kind))
            declared = tuple(each for each in self.declared if isinstance(each, kind))
            self._by_kind[kind] = Rules(rules, declared, self.problems, self.configured, self.block_size)
        return cast("Rules[K]", self._by_kind[kind])

    @cached_property
    def _by_kind(self) -> dict[type[Heuristic], Rules[Any]]:
        return {}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Display names in order: one per letter of a job's strip."""
        return tuple(rule.name for rule in self.rules)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """A value that is equal for equal rules."""
        return self.block_size, tuple(
            (rule.name, rule.heuristic.class_name, tuple(sorted(rule.limits.items())), tuple(sorted(rule.numbers.items())),
             tuple(sorted(rule.excluded)), tuple(sorted(rule.texts.items())))
            for rule in self.rules
        )  # fmt: skip

    @cached_property
    def with_gates(self) -> tuple[Rule[H], ...]:
        """Rules of every heuristic that has gates; disabled ones with their defaults."""
        return tuple(
            rule
            for heuristic in self.declared
            if heuristic.branches
            for rule in [rule for rule in self.rules if rule.heuristic is heuristic] or [shipped(heuristic)]
        )

    @cached_property
    def by_heuristic(self) -> dict[str, Rule[H]]:
        """Rules with gates by Dr. Elephant's own name of the heuristic."""
        return {rule.heuristic.name: rule for rule in reversed(self.with_gates)}

    def also(self, heuristic: H) -> Rules[H]:
        """Return these rules, and ``heuristic`` if it is not among them."""
        return (
            self
            if any(rule.heuristic is heuristic for rule in self.rules)
            else msgspec.structs.replace(self, rules=(*self.rules, shipped(heuristic)))
        )

    def changed(self, wishes: Collection[str]) -> tuple[Rules[H], tuple[str, ...]]:
        """Return these rules with other limits, and a sentence for each wish that cannot be applied.

        A wish is ``Mapper Time/num_tasks_severity=50:101:500:1000`` (units as in HeuristicConf.xml) or ``...=x1.5``
        (all four times that).
        """
        rules = {rule.name: rule for rule in self.with_gates}
        complaints = []
        for wish in wishes:
            where, _, text = wish.partition("=")
            name, _, parameter = (part.strip() for part in where.partition("/"))
            limits = rules[name].limits.get(parameter) if name in rules else None
            wanted = _wanted(text, limits) if limits is not None else None
            if wanted is None:
                complaints.append(
                    f"Limits {clean(wish, 100)!r} are not used: wanted "
                    "HEURISTIC/PARAMETER=low:moderate:severe:critical or =x1.5."
                )
            else:
                rules[name] = msgspec.structs.replace(rules[name], limits={**rules[name].limits, parameter: wanted})
        if tuple(rules.values()) == self.with_gates:
            return self, tuple(complaints)
        return msgspec.structs.replace(self, rules=tuple(rules.values())), tuple(complaints)


def _wanted(text: str, limits: Limits) -> Limits | None:
    """Parse the limits of a wish: four numbers, or a factor on ``limits``; None if invalid."""
    try:
        if text.startswith("x"):
            factor = float(text[1:])
            a, b, c, d = limits
            return (a * factor, b * factor, c * factor, d * factor) if 0 < factor < 1e6 else None
        a, b, c, d = (float(part) for part in text.split(":"))
    except ValueError:
        return None
    return (a, b, c, d) if all(abs(value) < 1e15 for value in (a, b, c, d)) else None


def default_rules(declared: Sequence[H]) -> Rules[H]:
    """Return the ``declared`` heuristics that Dr. Elephant enables by default, with default parameters."""
    return Rules(tuple(shipped(heuristic) for heuristic in declared if heuristic.default), tuple(declared))


# --- HeuristicConf.xml -----------------------------------------------------------------------------------------------


_WORD = re.compile(r"[g-np-wyzG-NP-WYZ]")
"""Letters that no number has. Python warns on standard error of a word right behind a number, as in ``1if``."""


def evaluate(text: str) -> float:
    """Return the value of an arithmetic expression (``1/8``, ``2*3``, ``-(1+2)%2``): numbers, + - * / % and
    parentheses.

    Raises ValueError for anything else and for results that are not finite.
    """
    if len(text) > 200:
        raise ValueError("an expression of more than 200 characters")
    try:
        if _WORD.search(text):
            raise ValueError("a word")
        value = _value(ast.parse(text.strip(), mode="eval").body, 0)
    except (SyntaxError, MemoryError, OverflowError, ZeroDivisionError, ValueError) as error:
        raise ValueError(f"{text.strip()!r} is not an arithmetic expression") from error
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"{text.strip()!r} is not finite")
    return value


_OPERATORS: dict[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: math.fmod,
}


def _value(node: ast.AST, depth: int) -> float:
    if depth > 50:
        raise ValueError("nested too deeply")
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = _value(node.operand, depth + 1)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, depth + 1), _value(node.right, depth + 1))
    raise ValueError("not arithmetic")


def limits(text: str) -> Limits:
    """Return the four limits that a parameter's text holds. Raises ValueError with the reason."""
    parts = split(text)
    if len(parts) != 4:
        raise ValueError(f"{len(parts)} values instead of four")
    a, b, c, d = (evaluate(part) for part in parts)
    return a, b, c, d


def read(name: str, data: bytes, declared: Sequence[H]) -> Rules[H]:
    """Read the rules of a HeuristicConf.xml. An unusable value is a problem and keeps its default.

    An unreadable file gives the defaults and one problem.
    """
    problems: list[Problem] = []

    def problem(kind: str, reason: str) -> None:
        problems.append(Problem.at(name, kind, reason))

    try:
        root = root_of(data, "heuristics")
    except BadXml as error:
        problem("bad-heuristic-conf", f"{error}; the default thresholds are used")
        return msgspec.structs.replace(default_rules(declared), problems=tuple(problems))
    by_class = {(heuristic.application, heuristic.class_name): heuristic for heuristic in declared}
    applications = {heuristic.application for heuristic in declared}
    rules: list[Rule[H]] = []
    for element in root.findall("heuristic"):
        application = (element.findtext("applicationtype") or "").strip().lower()
        shown = clean((element.findtext("heuristicname") or "").strip(), 200)
        if application not in applications:
            continue
        class_name = (element.findtext("classname") or "").strip().rpartition(".")[2]
        heuristic = by_class.get((application, class_name))
        if heuristic is None:
            problem("unknown-heuristic", f"heuristic {shown!r}: no class {class_name!r} is known here")
        else:
            rules.append(_configured(heuristic, shown, _params(element), problem))
    if not rules:
        problem("bad-heuristic-conf", "it has no heuristic of MapReduce, Spark or Tez: no job is judged")
    return Rules(tuple(rules), tuple(declared), tuple(problems), configured=True)


def _params(element: Element) -> dict[str, str]:
    """Return texts of the heuristic's parameters; the first of duplicates counts."""
    texts: dict[str, str] = {}
    params = element.find("params")
    for child in params if params is not None else ():
        if isinstance(child.tag, str):
            texts.setdefault(child.tag, "".join(child.itertext()))
    return texts


def _configured(heuristic: H, shown: str, params: dict[str, str], problem: Callable[[str, str], None]) -> Rule[H]:
    chosen, numbers, texts = dict(heuristic.limits), dict(heuristic.numbers), dict(heuristic.texts)
    excluded: frozenset[str] = frozenset()
    for key, text in params.items():
        if key == "exclude_jobtypes_filter":
            excluded = frozenset(text.split(","))
        elif key in chosen:
            if text == "":
                continue
            try:
                chosen[key] = limits(text)
            except ValueError as error:
                problem("bad-threshold", f"{shown}: {key}: {error}; the default is kept")
        elif key in texts:
            texts[key] = clean(text)
        elif key in numbers:
            number = integer(text)  # as in Dr. Elephant, surrounding blanks make it invalid
            if number is None:
                problem("bad-threshold", f"{shown}: {key}: {text!r} is not a whole number; the default is kept")
            else:
                numbers[key] = number
        elif heuristic.unread and key.startswith(heuristic.unread):
            problem(
                "ignored-parameter", f"{shown}: Dr. Elephant ignores {key}: it reads {', '.join(heuristic.numbers)}"
            )
        else:
            problem("unknown-parameter", f"{shown}: no parameter {key}")
    return Rule(heuristic, shown or heuristic.name, chosen, numbers, excluded, texts)
