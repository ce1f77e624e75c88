"""Import contracts of the house, derived from the list of views: a new view is guarded without an edit here.

``lint-imports`` runs them (see pyproject.toml). A view's package names its rooms, lowest first, in ``ROOMS``,
and a room that holds rooms of its own does so too; rooms in one tuple stand beside each other.
"""

from __future__ import annotations

import importlib

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output

from engine.views import VIEWS

Import = tuple[str, str]
SHARED = ("engine.live", "engine.formats", "engine.stats")


def packages() -> list[str]:
    """The package of each view."""
    return [entry.module.rpartition(".")[0] for entry in VIEWS if entry.module]


def floors(package: str) -> tuple[tuple[str, ...], ...]:
    """The rooms of a view or of one of its rooms, lowest first, as its package declares them."""
    declared: tuple[str | tuple[str, ...], ...] = getattr(importlib.import_module(package), "ROOMS", ())
    return tuple((floor,) if isinstance(floor, str) else floor for floor in declared)


def houses() -> list[str]:
    """The packages that declare rooms: those of the views, and rooms that hold rooms."""
    found = []
    for package in packages():
        inner = [f"{package}.{room}" for floor in floors(package) for room in floor]
        found += [package, *(room for room in inner if floors(room))]
    return found


def inside(module: str, package: str) -> bool:
    """Whether ``module`` is ``package`` or below it."""
    return module == package or module.startswith(f"{package}.")


def imports(graph: ImportGraph, package: str) -> list[Import]:
    """Every import made by a module in ``package``, of modules of this repository."""
    return sorted(
        (importer, imported)
        for importer in graph.modules
        if inside(importer, package)
        for imported in graph.find_modules_directly_imported_by(importer)
    )


def place(module: str, package: str) -> tuple[int, str]:
    """The floor and room of a module: floor 0 for tables and parameters, then the rooms, ``view.py`` on top.

    Raises LookupError for a folder that is neither tables nor a declared room.
    """
    first, _, deeper = module.removeprefix(package).removeprefix(".").partition(".")
    declared = floors(package)
    for floor, rooms in enumerate(declared, 1):
        if first in rooms:
            return floor, first
    if first == "view":
        return 1 + len(declared), first
    if deeper and first != "tables":
        raise LookupError(f"{module} lies in no room that {package}.ROOMS names")
    return 0, ""


class _Listing(Contract):
    """A contract that lists the imports which break it."""

    def broken(self, graph: ImportGraph) -> list[str]:
        raise NotImplementedError

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        found = self.broken(graph)
        return ContractCheck(kept=not found, metadata={"broken": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for line in check.metadata["broken"]:
            output.print_error(line)
            output.new_line()


class Rooms(_Listing):
    """Within a view imports go down: view, then its rooms from the last to the first, then tables and parameters. Rooms
    that stand beside each other do not import each other."""

    def broken(self, graph: ImportGraph) -> list[str]:
        found = []
        for package in houses():
            for importer, imported in imports(graph, package):
                if not inside(imported, package):
                    continue
                (floor, room), (other_floor, other_room) = place(importer, package), place(imported, package)
                if floor < other_floor:
                    found.append(f"{importer} imports {imported}, which stands above it")
                elif floor == other_floor and room != other_room:
                    found.append(f"{importer} imports {imported}, which stands beside it")
        return found


BELOW = ("engine.core", "engine.formats", "engine.stats")
"""What a view may import beside its own package."""
FLEET = "engine.job_heuristics.fleet"
"""The room of a view that stands in for a session: it makes inputs of files itself, and writes results."""


class Views(_Listing):
    """Views import only what is below them, not each other; the live path, formats and statistics import none."""

    def broken(self, graph: ImportGraph) -> list[str]:
        known = packages()
        found = []
        for package in (*known, *SHARED):
            others = [other for other in (*known, "engine.views") if other != package]
            for importer, imported in imports(graph, package):
                ours = package in known and inside(imported, "engine") and not inside(importer, FLEET)
                foreign = ours and not any(inside(imported, own) for own in (package, *BELOW))
                if any(inside(imported, other) for other in others) or foreign:
                    found.append(f"{importer} imports {imported}")
        return found


class NoCircles(_Listing):
    """No modules import each other in a circle; imports for type hints count."""

    def broken(self, graph: ImportGraph) -> list[str]:
        return [" → ".join((*circle, circle[0])) for circle in circles(graph)]


def circles(graph: ImportGraph) -> list[list[str]]:
    """One circle of each group of modules that import each other (Tarjan's strongly connected components, 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for imported in sorted(graph.find_modules_directly_imported_by(module)):
            if imported not in index:
                visit(imported)
                low[module] = min(low[module], low[imported])
            elif imported in stack:
                low[module] = min(low[module], index[imported])
        if low[module] == index[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                found.append(shortest_circle(graph, group))

    for module in sorted(m for m in graph.modules if m.split(".")[0] in ("engine", "tui", "sample_data")):
        if module not in index:
            visit(module)
    return found


def shortest_circle(graph: ImportGraph, group: list[str]) -> list[str]:
    """A shortest circle through the first module of a group of modules that import each other."""
    start = min(group)
    paths = [[start]]
    seen = {start}
    for path in paths:
        for imported in sorted(graph.find_modules_directly_imported_by(path[-1])):
            if imported == start:
                return path
            if imported in group and imported not in seen:
                seen.add(imported)
                paths.append([*path, imported])
    raise AssertionError(f"{group} hold no circle")
