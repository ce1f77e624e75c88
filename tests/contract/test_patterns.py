"""No text of a file becomes a regular expression: patterns are written in the code, or an operator's choice that is bounded.

A file whose text is a pattern can hold one that never ends. So the first argument of every function that takes a pattern must
be a literal or a constant of its module.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import re
import re._compiler as _compiler
import re._parser as _parser
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.run_comparison.reading.frames import TextReport
from engine.run_comparison.view import READERS

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("engine", "tui", "sample_data")

OF_RE = {"compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
"""Functions of ``re`` whose first argument is a pattern."""

OF_POLARS = {
    "contains", "count_matches", "extract", "extract_all", "extract_groups", "find", "replace", "replace_all", "split",
    "splitn", "split_exact",
}  # fmt: skip
"""Methods of ``.str`` whose first argument is or may be a pattern."""

NEVER_PATTERNS = {"split", "splitn", "split_exact"}
"""Those that take text only."""

ALLOWED = {
    ("engine/broker_load/cruise_control/goals.py", "parameters.topics_with_min_leaders_per_broker"): (
        "an operator's choice, as upstream takes it"
    ),
    ("engine/broker_load/plan/problem.py", "self.parameters.topics_with_min_leaders_per_broker"): "the same choice",
    ("engine/broker_load/plan/planner.py", "parameters.plan_skip_topics"): "an operator's choice",
    ("engine/core/reading.py", "before + re.escape(word) + behind"): "words declared in the code, escaped",
    ("engine/live/files/scan.py", "pattern"): "made of the shell patterns of a setting",
    ("engine/job_heuristics/mapreduce/model/job_conf.py", "pattern"): "from a table in the code",
    ("engine/formats/prometheus/text.py", "sure"): "its one variable part is escaped, and Rust's engine is linear",
    ("engine/formats/prometheus/text.py", "names"): "callers give constants, and Rust's engine is linear",
    ("engine/formats/prometheus/series.py", "names"): "the same",
    (
        "engine/run_comparison/reading/frames.py",
        "self.begin",
    ): "declared in the code, and compiled when a report is read",
    ("engine/run_comparison/reading/frames.py", "self.ends[0]"): "the same",
    ("engine/run_comparison/reading/frames.py", "self.ends[1]"): "the same",
    ("engine/run_comparison/reading/frames.py", "rule.pattern"): "the same",
    ("tui/widgets/table/filters.py", "f'(?i){term.value}'"): "typed by the operator, and Rust's engine is linear",
}
"""File and expression of every other pattern, and why it is none of a file's text."""


def constants(tree: ast.Module) -> set[str]:
    """Names of a module that are bound once, outside of functions, to text made of literals."""
    names: set[str] = set()
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and written(node.value, names):
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def written(node: ast.expr, names: set[str]) -> bool:
    """Whether an expression is text that is written in the code."""
    match node:
        case ast.Constant():
            return True
        case ast.Name():
            return node.id in names
        case ast.BinOp():
            return written(node.left, names) and written(node.right, names)
        case ast.JoinedStr():
            return all(
                written(part.value if isinstance(part, ast.FormattedValue) else part, names) for part in node.values
            )
        case ast.Tuple() | ast.List():
            return all(written(item, names) for item in node.elts)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr="escape")):
            return True
        case ast.Call(func=ast.Attribute(value=value, attr="encode" | "replace" | "join"), args=args):
            return written(value, names) and all(written(arg, names) for arg in args)
    return False


def patterns(tree: ast.Module) -> Iterator[tuple[ast.expr, int]]:
    """Every expression of a module that is taken as a pattern, and its line."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        owner, name = node.func.value, node.func.attr
        literal = any(
            word.arg == "literal" and isinstance(word.value, ast.Constant) and word.value.value
            for word in node.keywords
        )
        of_re = isinstance(owner, ast.Name) and owner.id == "re" and name in OF_RE
        of_polars = isinstance(owner, ast.Attribute) and owner.attr == "str" and name in OF_POLARS - NEVER_PATTERNS
        if of_re or (of_polars and not literal):
            yield node.args[0], node.lineno


def unwritten(text: str) -> list[tuple[str, int]]:
    """Source and line of the patterns of a module that are not written in its code."""
    tree = ast.parse(text)
    names = constants(tree)
    return [(ast.unparse(pattern), line) for pattern, line in patterns(tree) if not written(pattern, names)]


def test_patterns_are_written_in_the_code() -> None:
    found, used = [], set()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            text = path.read_text(encoding="utf-8")
            for source, line in unwritten(text) if re.search(r"\bre\.|\.str\b", text) else ():
                if (name, source) in ALLOWED:
                    used.add((name, source))
                else:
                    found.append(f"{name}:{line}: {source}")
    assert not found
    assert used == set(ALLOWED), "what is allowed but gone"


@pytest.mark.parametrize(
    "code",
    [
        "re.compile(text)", 're.sub(rf"[-_]{number}", "", name)', "re.search(re.escape(a) + b, c)",
        "column.str.contains(wanted)", 'pl.col("a").str.replace_all(names[0], "")', "frame['a'].str.extract(pattern, 1)",
    ],
)  # fmt: skip
def test_a_pattern_from_elsewhere_is_found(code: str) -> None:
    assert len(unwritten(f"import re\n\ndef f(text):\n    return {code}\n")) == 1


@pytest.mark.parametrize(
    "code",
    ['re.compile(r"a" + _B)', 're.sub(f"{_B}+", "", name)', "re.match(_B, text)", "re.escape(text)",
     'column.str.contains(text, literal=True)', 're.findall(r"^" + re.escape(text), other)', "text.split(other)"],
)  # fmt: skip
def test_a_pattern_written_in_the_code_is_allowed(code: str) -> None:
    assert not unwritten(f'import re\n_B = "b"\n\ndef f(text):\n    return {code}\n')


# -- every pattern takes linear time ---------------------------------------------------------------------------------------

SEARCHES = {"search", "sub", "subn", "split", "findall", "finditer"}
"""Methods that try a pattern at every place of a text."""
LETTERS = " a0_<\"'(,;=:/.-#%\n\tZé\\[{*+?`@"
"""Characters of which pumped texts are made: the first one that a class takes, and some that it takes."""
LONG = 3_000
"""Repeats in the longer of two texts."""


def _example(tree: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield for each repeat of a parsed pattern a text that leads to it, and texts that it takes again and again."""
    prefix = ""
    for op, value in tree:
        name = str(op)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, body = value
            for inner, bodies in _example(body):
                yield prefix + inner, bodies
            if most > 50:
                yield prefix, sorted({text for letter in LETTERS if (text := _text(body, letter))}) or ["a"]
            prefix += _text(body, "") * min(least, 50)
        else:
            for part in _inside(name, value):
                for inner, bodies in _example(part):
                    yield prefix + inner, bodies
            prefix += _text([(op, value)], "")


def _inside(name: str, value: Any) -> list[Any]:
    if name == "SUBPATTERN":
        return [value[3]]
    if name == "BRANCH":
        return list(value[1])
    if name in ("ASSERT", "ASSERT_NOT"):
        return [value[1]]
    if name == "ATOMIC_GROUP":
        return [value]
    return []


def _text(tree: Any, wanted: str) -> str:
    """Return a text that a parsed pattern takes, made of the character ``wanted`` where a class takes it."""
    out = ""
    for op, value in tree:
        name = str(op)
        if name == "LITERAL":
            out += chr(value)
        elif name in ("IN", "NOT_LITERAL", "ANY"):
            taken = _taken(repr((op, value)), op, value)
            if wanted and wanted not in taken:
                return ""
            out += wanted or taken[:1]
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            out += _text(value[2], wanted) * min(max(value[0], int(bool(wanted))), 50)
        elif name == "BRANCH":
            out += next((text for part in value[1] if (text := _text(part, wanted))), "")
        elif name in ("SUBPATTERN", "ATOMIC_GROUP"):
            out += _text(_inside(name, value)[0], wanted)
    return out


_TAKEN: dict[str, str] = {}


def _taken(key: str, op: Any, value: Any) -> str:
    """Return those of ``LETTERS`` that one class takes, given parsed."""
    if key not in _TAKEN:
        state = _parser.State()
        state.str = ""
        item = _compiler.compile(_parser.SubPattern(state, [(op, value)]))
        _TAKEN[key] = "".join(letter for letter in LETTERS if item.match(letter))
    return _TAKEN[key]


def _every_pattern() -> Iterator[tuple[str, re.Pattern[Any], bool]]:
    """Yield where each pattern of the source stands, the pattern, and whether it is tried at every place of a text."""
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    sources = {path: text for path in files if re.search(r"\bre\.", text := path.read_text(encoding="utf-8"))}
    searching = re.compile(rf"\b(\w+)\.(?:{'|'.join(sorted(SEARCHES))})\b")
    anywhere = {name for text in sources.values() for name in searching.findall(text)}
    for path, text in sources.items():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        names = vars(importlib.import_module(module))
        tree = ast.parse(text)
        here = {"", *searching.findall(text), *(name for name in anywhere if name[0] != "_")}
        bound = {id(n.value): ast.unparse(n.targets[0]) for n in ast.walk(tree) if isinstance(n, ast.Assign)}
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=name)) if name in OF_RE:
                    with contextlib.suppress(
                        NameError
                    ):  # made of an operator's choice or a table: ALLOWED says of which
                        words = [*node.args[1:], *(word.value for word in node.keywords)]
                        flags = [eval(ast.unparse(word), names) for word in words if "re." in ast.unparse(word)]
                        pattern = re.compile(eval(ast.unparse(node.args[0]), names), *flags[:1])
                        searched = name in SEARCHES or (name == "compile" and bound.get(id(node), "") in here)
                        yield f"{path.relative_to(ROOT)}:{node.lineno}", pattern, searched
    for kind in (kind for kind in READERS if isinstance(kind, TextReport)):
        for declared in (kind.begin, *(kind.ends or ()), *(line.pattern for line in kind.lines)):
            yield kind.id, re.compile(declared), declared not in {line.pattern for line in kind.lines}


def _seconds(pattern: re.Pattern[Any], text: str, searched: bool) -> float:
    data: Any = text.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else text
    before = time.process_time()
    for _ in pattern.finditer(data) if searched else [pattern.match(data), pattern.fullmatch(data)]:
        pass
    return time.process_time() - before


def test_every_pattern_takes_linear_time() -> None:
    slow = []
    for place, pattern, searched in _every_pattern():
        text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
        tree = _parser.parse(text, pattern.flags & ~re.UNICODE)
        tried = {(lead, body) for lead, bodies in _example(tree) for body in bodies}
        for lead, body in sorted(tried):
            pumped = lead + body * (LONG // len(body)) + "\x00"
            if (longer := _seconds(pattern, pumped, searched)) < 0.004:
                continue
            shorter = min(
                _seconds(pattern, lead + body * (LONG // len(body) // 4) + "\x00", searched) for _ in range(3)
            )
            longer = min(longer, *(_seconds(pattern, pumped, searched) for _ in range(2)))
            if longer > 8 * shorter:
                slow.append(f"{place}: {text!r} on {lead!r} and {body!r} again and again: {longer * 1000:.0f} ms")
    assert not slow, "\n".join(slow)
