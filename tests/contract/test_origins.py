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
    maker = importlib.import_module(f"{package}.{table.made_in}")
    assert declarations(package)[id(table)] in names_used(maker)


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
    """The words of a module, or of all modules of a package that is a list of declarations."""
    found = importlib.util.find_spec(module)
    assert found is not None and found.origin is not None, f"there is no module {module}"
    if found.submodule_search_locations is None:
        return words(Path(found.origin))
    return set().union(*map(words, Path(found.origin).parent.glob("*.py")))


@pytest.mark.parametrize(("package", "table"), TABLES)
def test_a_module_that_decides_a_column_names_it(package: str, table: Table) -> None:
    wrong = [
        f"{column}: {module} has no {name}"
        for column, modules in table.origins().items()
        for module, name in modules.items()
        if name not in words_of(f"{package}.{module}")
    ]
    assert not wrong, "\n".join(wrong)


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
