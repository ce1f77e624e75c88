"""The section on what if: what is asked, what comes of it, and which of its tables is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
NEUTRAL: dict[str, Any] = {"fail": (), "demote": (), "apply_plan": False, "reassignment": None, "add_brokers": 0}
"""The what-if parameters and their neutral values."""


def asked(parameters: BrokerLoadParameters) -> bool:
    """Return whether any what-if parameter is set."""
    return any(getattr(parameters, name) != value for name, value in NEUTRAL.items())


def is_dead(result: Result, word: str | None) -> bool:
    """Return whether ``word`` of the parameter ``fail`` is the id of a broker that is dead already."""
    rows = result.tables.get("brokers")
    return rows is not None and any(str(broker) == word for broker in rows.filter(rows["state"] == "DEAD")["broker"])


def page(result: Result, number: int) -> tuple[tuple[str, str, str], int, int]:
    """Return the page to show, counted modulo those that have a table, its place from 1 and how many there are."""
    pages = [one for one in PAGES if one[1] in result.tables] or [PAGES[0]]
    return pages[number % len(pages)], number % len(pages) + 1, len(pages)


def facts(parameters: BrokerLoadParameters, result: Result) -> list[Fact]:
    """Return what is asked and what comes of it; without a what-if the keys that begin one."""
    if not asked(parameters):
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
    if "failover" in result.summary:  # then it is the first of the headline too
        shown.append(("outcome", result.summary["failover"], result.headline[0].level))
    return shown


def worst_failure(result: Result) -> list[Fact]:
    """Return the worst single failure in words, coloured as in the headline."""
    worst = result.summary.get("worst_single_failure")
    if not worst:
        return []
    level = next(one.level for one in result.headline if one.label == "single failure")
    return [("worst loss", worst, level)]
