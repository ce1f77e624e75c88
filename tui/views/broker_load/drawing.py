"""What the panels of the broker load tab say and draw: brokers, the regression, the what-if."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.core import units
from engine.core.parameters import asks_what_if
from tui.widgets.drawing.plot import Draw, Mark, Series, plot
from tui.widgets.facts import Fact
from tui.widgets.table.window import as_listed

if TYPE_CHECKING:
    import polars as pl

    from engine.broker_load.parameters import BrokerLoadParameters
    from engine.broker_load.result.model_tables import Detail
    from engine.core.view import Result

PAGES = (
    ("who takes over", "failover_brokers", "failover_leaders"),
    ("partitions under min.insync.replicas", "failover_min_isr", ""),
    ("after demotion or reassignment", "scenario_brokers", "scenario_moves"),
    ("at the end of the plan", "plan_brokers", "plan_batches"),
    ("bounds with more brokers", "add_brokers", ""),
)
"""What the section can show: title, table, table below it."""


def number(value: Any, unit: str = "") -> str:
    """Return a number with its unit, or a dash."""
    return "–" if value is None else f"{units.text('number', value)} {unit}".rstrip()


def percent(value: Any) -> str:
    """Return a percentage, or a dash."""
    return "–" if value is None else units.text("percent", value)


def between(row: dict[str, Any], name: str, low: str, high: str, unit: str) -> str:
    """Return a number with the bounds that an even split leaves open."""
    text = number(row[name], unit)
    if row[low] is None or row[high] is None or row[low] == row[high]:
        return text
    return f"{text}, anything from {number(row[low])} to {number(row[high], unit)}"


# -- brokers ------------------------------------------------------------------------------------------------------------


def broker_facts(row: dict[str, Any], brokers: pl.DataFrame) -> list[Fact]:
    """Return what is known about one of ``brokers``, in the forms of their table."""
    from engine.broker_load.tables.loads import BROKERS

    def told(name: str) -> str:
        return "–" if row[name] is None else as_listed(BROKERS.column(name), brokers, row[name], "")

    # In Cruise Control's model a dead broker has no capacity.
    size = f" of {told('disk_cap_mb')}, {told('disk_pct')}" if row["disk_cap_mb"] else ""
    return [
        (f"broker {row['broker']}", "", "title"),
        ("host", str(row["host"] or "?"), ""),
        ("rack", str(row["rack"] or "none"), ""),
        ("state", str(row["state"] or "?"), "ok" if row["state"] == "ALIVE" else "severe"),
        ("cores", told("cores"), ""),
        ("CPU modelled", told("cpu_pct"), ""),
        ("CPU measured", told("measured_cpu_pct"), ""),
        ("off by", ("+" if (row["residual_cpu_pct"] or 0) > 0 else "") + told("residual_cpu_pct"), ""),
        ("because", row["residual_reason"] or None, "dim"),
        ("disk", f"{told('disk_mb')}{size}", ""),
        ("leader in", told("leader_nw_in_kbs"), ""),
        ("follower in", told("follower_nw_in_kbs"), ""),
        ("in capacity", told("nw_in_cap_kbs"), ""),
        ("out", told("nw_out_kbs"), ""),
        ("potential out", told("pnw_out_kbs"), ""),
        ("out capacity", told("nw_out_cap_kbs"), ""),
        ("leaders", f"{row['leaders']} of {units.plural(row['replicas'], 'replica')}", ""),
        ("capacity", "from the default entry or assumed" if row["capacity_estimated"] else None, "moderate"),
        ("source", str(row["source"]) if row["source"] != "model" else None, "moderate"),
    ]


def group_facts(row: dict[str, Any]) -> list[Fact]:
    """Return what is known about one host or rack."""
    note = "percentages of CPU add up, as in Cruise Control" if row.get("host") else "of the live capacity"
    return [
        (str(row.get("host") or row.get("rack") or ""), "", "title"),
        ("CPU", percent(row["cpu_pct"]), ""),
        ("disk", percent(row["disk_pct"]), ""),
        ("leaders", f"{row['leaders']} of {units.plural(row['replicas'], 'replica')}", ""),
        ("note", note, "dim"),
    ]


def cpu_history(row: dict[str, Any], detail: Detail | None, threshold: float) -> Draw | None:
    """Return what draws the measured CPU of broker ``row`` in % by window, with its capacity threshold (0 to 1); None without
    a history."""
    trend = row.get("cpu_trend") or ()
    if detail is None or len(trend) < 2 or len(detail.trend_ends) < len(trend):
        return None
    line = Series(detail.trend_ends[-len(trend) :], trend, f"CPU of broker {row['broker']} in % by window", "bar")
    limit = Mark(100.0 * threshold, "capacity threshold", "severe")
    return lambda width, height, glyphs: plot(
        [line], width, height, glyphs, x_kind="time_ms", y_kind="percent", rules=(limit,)
    )


# -- the regression -----------------------------------------------------------------------------------------------------


def regression_facts(result: Result, parameters: BrokerLoadParameters) -> list[Fact]:
    """Return the verdict, how good the fit is, and which weights are in force."""
    row = next(result.tables["regression"].iter_rows(named=True), {})
    summary = result.summary
    fit = [units.plural(summary.get("observations", 0), "observation")]
    if row.get("held_out_error") is not None:
        fit.append(f"held-out error {number(row['held_out_error'], '% CPU')}")
    done = percent(100.0 * summary.get("regression_completeness", 0.0))
    fit.append("trained" if row.get("trained") else f"Cruise Control's training at {done}")
    usable = any("fitted weights a=" in note for note in result.notes)
    weights = "as fitted (w: as given)" if usable else "as given: the fitted ones cannot be used"
    if parameters.weights == "static":
        weights = f"a {parameters.a:g}, b {parameters.b:g}, c {parameters.c:g} as given (w: as fitted)"
    verdict = str(row.get("verdict", "")).partition("; Cruise Control")[0]
    return [("verdict", verdict, "title"), ("weights", weights, "title"), ("fit", ", ".join(fit), "")]


def regression_chart(detail: Detail) -> Draw | None:
    """Return what draws predicted against measured CPU in %; None without observations."""
    if not detail.observed:
        return None
    top = max(*detail.observed, *detail.predicted, 1.0)
    lines = []
    for used, name, style, shape in (
        (True, "predicted by measured CPU %", "bar", "o"), (False, "held out", "bar2", "+"),
    ):  # fmt: skip
        places = [place for place, each in enumerate(detail.used) if each == used]
        if used or places:
            x, y = ([of[place] for place in places] for of in (detail.observed, detail.predicted))
            lines.append(Series(x, y, name, style, points=True, shape=shape))
    lines.append(Series([0.0, top], [0.0, top], "equal", "dim", dashed=True))
    return lambda width, height, glyphs: plot(lines, width, height, glyphs, x_span=(0.0, top), y_span=(0.0, top))


# -- the what-if --------------------------------------------------------------------------------------------------------


def is_dead(result: Result, word: str | None) -> bool:
    """Return whether ``word`` of the parameter ``fail`` is the id of a broker that is dead already."""
    rows = result.tables.get("brokers")
    return rows is not None and any(str(broker) == word for broker in rows.filter(rows["state"] == "DEAD")["broker"])


def page(result: Result, number: int) -> tuple[tuple[str, str, str], int, int]:
    """Return the page to show, counted modulo those that have a table, its place from 1 and how many there are."""
    pages = [one for one in PAGES if one[1] in result.tables] or [PAGES[0]]
    return pages[number % len(pages)], number % len(pages) + 1, len(pages)


def what_if_facts(parameters: BrokerLoadParameters, result: Result) -> list[Fact]:
    """Return the active what-if and its outcome, or the keys that start one."""
    if not asks_what_if(parameters):
        return [("Space kills the broker under the cursor, M demotes, a adds, P plans.", "", "dim")]
    count = parameters.add_brokers
    outcome = result.outcome
    planned = parameters.apply_plan or parameters.reassignment is not None
    added = f"{units.plural(count, 'broker')} of the typical capacity (bounds only)"
    return [
        ("dead", ", ".join(parameters.fail) or None, "critical"),
        ("demoted", ", ".join(parameters.demote) or None, "moderate"),
        ("plan", "the proposed reassignment is applied" if planned else None, "moderate"),
        ("added", added if count else None, "ok"),
        (
            "outcome",
            result.summary.get("failover", f"{outcome.value}; {outcome.basis}") if outcome is not None else None,
            outcome.level if outcome is not None else "",
        ),
    ]


AFTER = ("plan_brokers", "failover_brokers", "scenario_brokers")
"""Tables of brokers after a plan or a what-if, the last step first."""


def after_name(result: Result) -> str:
    """Return the table that shows what the what-if makes of the brokers; empty without one."""
    return next((name for name in AFTER if name in result.tables), "")


def heirs(result: Result, broker: int | None = None) -> list[str]:
    """Return who takes the leaders over, of one broker or of all, most first: ``5: 3 leaders, CPU 23.2% → 31.0%``."""
    import polars as pl

    moves = result.tables.get("failover_leaders", result.tables.get("scenario_moves"))
    if moves is None:
        return []
    moves = moves.filter(pl.col("old_leader").ne_missing(pl.col("new_leader")))
    if broker is not None:
        moves = moves.filter(pl.col("old_leader") == broker)
    counts = moves.group_by("new_leader").len("leads").sort("leads", "new_leader", descending=[True, False])
    table = next((result.tables[name] for name in AFTER[1:] if name in result.tables), None)
    rows = {row["broker"]: row for row in table.iter_rows(named=True)} if table is not None else {}
    cpus = {heir: f", CPU {percent(row['cpu_pct_before'])} → {percent(row['cpu_pct'])}" for heir, row in rows.items()}
    return [
        f"{'nobody' if heir is None or heir < 0 else heir}: {units.plural(count, 'leader')}{cpus.get(heir, '')}"
        for heir, count in counts.iter_rows()
    ]


def after_facts(result: Result, row: dict[str, Any]) -> list[Fact]:
    """Return what a what-if makes of one broker, and who takes its leaders over."""
    from engine.broker_load.tables.whatif import SCENARIO_BROKERS

    def change(name: str, unit: str = "") -> str:
        was, now = (
            "–" if value is None
            else as_listed(SCENARIO_BROKERS.column(name), result.tables[after_name(result)], value, unit)
            for value in (row[f"{name}_before"], row[name])
        )  # fmt: skip
        return f"{was if was == now else f'{was} → {now}'} {unit}".rstrip()

    gone, takers = row["state"] == "FAILED", heirs(result, row["broker"])
    return [
        (f"broker {row['broker']}", "", "title"),
        ("state", str(row["state"]), "critical" if gone else "ok" if row["state"] == "ALIVE" else "moderate"),
        *((("taken by" if place == 0 else "", words, "bar2")) for place, words in enumerate(takers)),
        ("CPU", None if gone else change("cpu_pct"), ""),
        ("disk", None if gone else change("disk_pct"), ""),
        ("leader in", None if gone else change("leader_nw_in_kbs", "KB/s"), ""),
        ("out", None if gone else change("nw_out_kbs", "KB/s"), ""),
        ("leaders", None if gone else change("leaders"), ""),
        ("over", row["breaches"] or None, "severe"),
    ]


def losses(result: Result) -> list[Fact]:
    """Return what the what-if does, who takes over, and the worst single failure (on top of it), as the headline judges it."""
    worst, outcome = result.summary.get("worst_single_failure"), result.outcome
    told: list[Fact] = []
    if outcome is not None:
        told = [
            (
                "plan" if outcome.label == "plan" else "what if",
                f"u undoes it: {outcome.value} ({outcome.basis})",
                outcome.level,
            ),
            ("taken by", "; ".join(heirs(result)) or None, "bar2"),
        ]
    if worst:
        shown = next(one for one in result.headline if one.label in ("single failure", "one more failure"))
        told.append(("worst loss" if outcome is None or outcome.label == "plan" else "next loss", worst, shown.level))
    return told
