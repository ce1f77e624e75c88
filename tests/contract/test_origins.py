"""Each result table names the module that makes it and the modules that decide its columns: they exist and do so."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
from functools import cache
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


@pytest.mark.parametrize(("package", "table"), TABLES)
def test_columns_are_decided_by_modules_that_the_view_uses(package: str, table: Table) -> None:
    names = {column.name for column in table.columns}
    used = graph().find_upstream_modules(f"{package}.view")
    for rule, columns in table.rules.items():
        found = importlib.util.find_spec(f"{package}.{rule}")
        assert found is not None, f"there is no module {rule}"
        # The modules of a package that is a list of declarations are imported by name.
        assert found.name in used or found.submodule_search_locations, f"nothing uses {rule}"
        assert set(columns.split()) <= names, f"{rule}: {sorted(set(columns.split()) - names)} are no columns"
        assert rule != table.made_in
