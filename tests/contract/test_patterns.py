"""No text of a file becomes a regular expression: patterns are written in the code, or an operator's choice that is bounded.

A file whose text is a pattern can hold one that never ends. So the first argument of every function that takes a pattern must
be a literal or a constant of its module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    ("engine/live/files/scan.py", "pattern"): "made of the shell patterns of a setting",
    ("engine/job_heuristics/mapreduce/model/job_conf.py", "pattern"): "from a table in the code",
    ("engine/formats/prometheus/text.py", "sure"): "its one variable part is escaped, and Rust's engine is linear",
    ("engine/formats/prometheus/text.py", "names"): "callers give constants, and Rust's engine is linear",
    ("engine/formats/prometheus/series.py", "names"): "the same",
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
            for source, line in unwritten(path.read_text(encoding="utf-8")):
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
def test_a_pattern_that_is_written_is_none(code: str) -> None:
    assert not unwritten(f'import re\n_B = "b"\n\ndef f(text):\n    return {code}\n')
