"""The places of a source file that can be made wrong by one small change."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Change = Callable[[], None]

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
PAIRS = """min max, min_horizontal max_horizontal, any all, any_horizontal all_horizontal, sum mean, floor ceil, first last,
head tail, is_null is_not_null, argmin argmax, zeros ones, upper lower"""
NAMES = {left: right for pair in PAIRS.split(",") for left, right in (pair.split(), reversed(pair.split()))}
"""Functions and methods that are taken for each other."""


@dataclass(frozen=True)
class Site:
    """One change of a syntax tree: where it is and how it is made."""

    statement: ast.stmt
    owner: int | None
    """The first line of the outermost function around it; None for what runs when the module is imported."""
    sort: str
    change: Change


def sites(tree: ast.Module) -> Iterator[Site]:
    """Yield the sites of a module in the order of its text.

    Left alone: texts, annotations and decorators, on which no number depends.
    """
    yield from _block(tree, tree, None)


def _block(node: ast.AST, statement: ast.stmt | ast.Module, owner: int | None) -> Iterator[Site]:
    for sort, change in _changes(node):
        assert isinstance(statement, ast.stmt)
        yield Site(statement, owner, sort, change)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        inside = owner
        if owner is None and name == "body" and isinstance(node, ast.FunctionDef):
            inside = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(child, ast.Raise | ast.Continue | ast.Break | ast.Expr) and not _is_text(child):
                yield Site(child, inside, "removed statement", _put(value, index, ast.copy_location(ast.Pass(), child)))
            if isinstance(child, ast.AST):
                yield from _block(child, child if isinstance(child, ast.stmt) else statement, inside)


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    """Yield what can be changed in this node itself."""
    match node:
        case ast.Compare(ops=list(comparisons)):
            yield from (
                ("comparison", _put(comparisons, index, COMPARISONS[type(each)]()))
                for index, each in enumerate(comparisons)
            )
        case ast.BoolOp():
            yield "and, or", _set(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in OPERATORS:
            yield "operator", _set(node, "op", OPERATORS[type(operator)]())
        case ast.UnaryOp(op=ast.Not() | ast.Invert()):
            yield "not", _set(node, "operand", ast.copy_location(ast.UnaryOp(node.op, node.operand), node))
        case ast.UnaryOp(op=ast.USub()):
            yield "sign", _set(node, "op", ast.UAdd())
        case ast.Constant(value=bool(value)):
            yield "constant", _set(node, "value", not value)
        case ast.Constant(value=int() | float() as value):
            yield "constant", _set(node, "value", value + 1)
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "return", _set(node, "value", ast.copy_location(ast.Constant(None), value))
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if isinstance(
            test, ast.Name | ast.Attribute | ast.Call | ast.NamedExpr
        ):
            yield "condition", _set(node, "test", ast.copy_location(ast.UnaryOp(ast.Not(), test), test))
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name) as function) if name in NAMES:
            yield "name", _set(function, "attr" if isinstance(function, ast.Attribute) else "id", NAMES[name])


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _set(node: ast.AST, field: str, value: object) -> Change:
    return lambda: setattr(node, field, value)


def _put(values: list[Any], index: int, value: ast.AST) -> Change:
    return lambda: values.__setitem__(index, value)
