"""The section on what if: the active what-if, its outcome, and which of its tables is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.parameters import asks_what_if
from tui.widgets.facts import Fact

if TYPE_CHECKING:
    from engine.broker_load.parameters import BrokerLoadParameters
    from engine.core.result import Result

PAGES = (
    ("who takes over", "failover_brokers", "failover_leaders"),
    ("partitions under min.insync.replicas", "failover_min_isr", ""),
    ("after demotion or reassignment", "scenario_brokers", "scenario_moves"),
    ("bounds with more brokers", "add_brokers", ""),
)
"""What the section can show: title, table, table below it."""


def is_dead(result: Result, word: str | None) -> bool:
    """Return whether ``word`` of the parameter ``fail`` is the id of a broker that is dead already."""
    rows = result.tables.get("brokers")
    return rows is not None and any(str(broker) == word for broker in rows.filter(rows["state"] == "DEAD")["broker"])


def page(result: Result, number: int) -> tuple[tuple[str, str, str], int, int]:
    """Return the page to show, counted modulo those that have a table, its place from 1 and how many there are."""
    pages = [one for one in PAGES if one[1] in result.tables] or [PAGES[0]]
    return pages[number % len(pages)], number % len(pages) + 1, len(pages)


def facts(parameters: BrokerLoadParameters, result: Result) -> list[Fact]:
    """Return the active what-if and its outcome, or the keys that start one."""
    if not asks_what_if(parameters):
        return [("Space kills the broker under the cursor, i demotes, v applies a plan, a adds.", "", "dim")]
    shown: list[Fact] = []
    if parameters.fail:
        shown.append(("dead", ", ".join(parameters.fail), "critical"))
    if parameters.demote:
        shown.append(("demoted", ", ".join(parameters.demote), "moderate"))
    if parameters.apply_plan or parameters.reassignment is not None:
        shown.append(("plan", "the proposed reassignment is applied", "moderate"))
    if parameters.add_brokers:
        count = parameters.add_brokers
        words = f"{count} broker{'s' if count > 1 else ''} of the typical capacity (bounds only)"
        shown.append(("added", words, "ok"))
    if result.outcome is not None:
        shown.append(("outcome", result.summary["failover"], result.outcome.level))
    return shown


def worst_failure(result: Result) -> list[Fact]:
    """Return the worst single failure in words, coloured as in the headline."""
    worst = result.summary.get("worst_single_failure")
    if not worst:
        return []
    level = next(one.level for one in result.headline if one.label == "single failure")
    return [("worst loss", worst, level)]
