"""Each result table names the module that makes it and the modules that decide its columns: they exist and do so."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import grimp
import pytest

from engine.tables import Table
from engine.views import VIEWS

TABLES = [
    pytest.param(entry.module.rpartition(".")[0], table, id=f"{entry.name}/{table.name}")
    for entry in VIEWS
    if entry.ready
    for table in entry.load().tables
]


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("engine")


@cache
def declarations(package: str) -> dict[int, str]:
    """The name of the constant that each table of a view is declared as, by the table's identity."""
    tables = importlib.import_module(f"{package}.tables")
    modules = [tables]
    modules += [
        importlib.import_module(f"{tables.__name__}.{found.name}")
        for found in pkgutil.iter_modules(getattr(tables, "__path__", ()))
    ]
    return {id(value): name for module in modules for name, value in vars(module).items() if isinstance(value, Table)}


@cache
def names_used(module: ModuleType) -> set[str]:
    """Names and attributes that the code of a module mentions, imports left aside."""
    tree = ast.walk(ast.parse(inspect.getsource(module)))
    return {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in tree
        if isinstance(node, ast.Name | ast.Attribute)
    }


@pytest.mark.parametrize(("package", "table"), TABLES)
def test_a_table_is_made_where_it_says(package: str, table: Table) -> None:
    for maker in table.makers:
        module = importlib.import_module(f"{package}.{maker}")
        used = names_used(module)
        renamed = {name for name, value in vars(module).items() if value is table}
        assert used & {declarations(package)[id(table)], *renamed}, maker


@cache
def makers(package: str) -> dict[int, set[str]]:
    """The modules that call ``frame`` of each table, by the table's identity; readers and declarations left aside."""
    found: dict[int, set[str]] = {}
    for name in graph().find_descendants(package):
        short = name.removeprefix(f"{package}.")
        if short.partition(".")[0] in ("reading", "tables"):
            continue
        module = importlib.import_module(name)
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=constant), attr="frame")):
                    made = getattr(module, constant, None)
                case ast.Call(
                    func=ast.Attribute(value=ast.Attribute(value=ast.Name(id=part), attr=constant), attr="frame")
                ):
                    made = getattr(getattr(module, part, None), constant, None)
                case _:
                    continue
            if isinstance(made, Table):
                found.setdefault(id(made), set()).add(short)
    return found


@pytest.mark.parametrize(("package", "table"), TABLES)
def test_every_module_that_makes_rows_of_a_table_is_named(package: str, table: Table) -> None:
    assert makers(package).get(id(table), set()) <= set(table.makers)


def test_the_makers_of_tables_are_found() -> None:
    """Under another name, as an attribute of a module, and in several modules."""
    jobs = importlib.import_module("engine.job_heuristics.tables.result")
    assert "dr_elephant.spark.verdict_tables" in makers("engine.job_heuristics")[id(jobs.HEURISTICS)]
    assert {"insight.cost", "insight.spark.cost"} <= makers("engine.job_heuristics")[
        id(importlib.import_module("engine.job_heuristics.tables.insight").COSTS)
    ]


@cache
def words(path: Path) -> set[str]:
    """Every name that the code of a module has for something, and every word of its texts, docstrings left aside."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Expr(value=ast.Constant()):
                node.value.value = ""
            case ast.Constant(value=str(text)):
                found.update(re.findall(r"\w+", text))
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
    return found


def words_of(module: str) -> set[str]:
    """The words of a module, or of all modules of a room or of a package that is a list of declarations."""
    found = importlib.util.find_spec(module)
    assert found is not None and found.origin is not None, f"there is no module {module}"
    if found.submodule_search_locations is None:
        return words(Path(found.origin))
    return set().union(*map(words, Path(found.origin).parent.rglob("*.py")))


@pytest.mark.parametrize(("package", "table"), TABLES)
def test_a_module_that_decides_a_column_names_it(package: str, table: Table) -> None:
    wrong = [
        f"{column}: {module} has no {name}"
        for column, modules in table.origins().items()
        for module, name in modules.items()
        if name not in words_of(f"{package}.{module}")
    ]
    assert not wrong, "\n".join(wrong)


MADE = {
    ("samples", "time_ms"), ("broker_samples", "time_ms"), ("goals", "goal"), ("answer_differences", "answer"),
    ("answer_differences", "value"), ("differences", "what"), ("what_if", "what"), ("sources", "source"), ("runs", "run"),
    ("shards", "shard"), ("spark_tasks", "finish_ms"), ("other_executors", "executors"),
}  # fmt: skip
"""Key columns that no file states, although one of the input tables has a column of that name."""


@pytest.mark.parametrize(("package", "table"), TABLES)
def test_a_key_that_files_state_belongs_to_reading(package: str, table: Table) -> None:
    kinds = importlib.import_module(f"{package}.view").VIEW.kinds
    stated = {column.name for kind in kinds for read in kind.tables for column in read.columns}
    for name in set(table.key) & stated:
        if (table.name, name) not in MADE:
            assert "reading" in {module.partition(".")[0] for module in table.origins()[name]}, name


@pytest.mark.parametrize(("package", "table"), TABLES)
def test_result_alone_decides_no_column(package: str, table: Table) -> None:
    """It words, orders and subtracts: what is worded or subtracted is named, too."""
    alone = [name for name, modules in table.origins().items() if all(m.startswith("result.") for m in modules)]
    assert not alone


def test_a_module_that_never_mentions_a_column_is_found_out() -> None:
    package = "engine.job_heuristics"
    assert {"severity", "score"} <= words_of(f"{package}.dr_elephant.verdict_tables")
    assert not {"severity", "score"} & words_of(f"{package}.model.assembly")


@pytest.mark.parametrize(("package", "table"), TABLES)
def test_columns_are_decided_by_modules_that_the_view_uses(package: str, table: Table) -> None:
    names = {column.name for column in table.columns}
    used = graph().find_upstream_modules(f"{package}.view")
    for rule, columns in table.rules.items():
        decided = {text.partition("=")[0] for text in columns.split()}
        found = importlib.util.find_spec(f"{package}.{rule}")
        assert found is not None, f"there is no module {rule}"
        # The modules of a package that is a list of declarations are imported by name.
        assert found.name in used or found.submodule_search_locations, f"nothing uses {rule}"
        assert decided <= names, f"{rule}: {sorted(decided - names)} are no columns"
