"""The section on the regression: facts about the fit, and predicted against measured CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tui.views.broker_load.levels import number, percent
from tui.widgets.drawing.plot import Series, plot
from tui.widgets.facts import Fact

if TYPE_CHECKING:
    from engine.broker_load.parameters import BrokerLoadParameters
    from engine.broker_load.result.regression_tables import Detail
    from engine.core.result import Result


def facts(result: Result, parameters: BrokerLoadParameters) -> list[Fact]:
    """Return the verdict, how good the fit is, and which weights are in force."""
    rows = result.tables["regression"]
    row = rows.row(0, named=True) if rows.height else {}
    summary = result.summary
    fit = [f"{summary.get('observations', 0)} observations"]
    if row.get("held_out_error") is not None:
        fit.append(f"held-out error {number(row['held_out_error'], '% CPU')}")
    done = percent(100.0 * summary.get("regression_completeness", 0.0))
    fit.append("trained" if row.get("trained") else f"Cruise Control's training at {done}")
    usable = any("fitted weights a=" in note for note in result.notes)
    if parameters.weights == "static":
        weights = f"a {parameters.a:g}, b {parameters.b:g}, c {parameters.c:g} as given (w: as fitted)"
    else:
        weights = "as fitted (w: as given)" if usable else "as given: the fitted ones cannot be used"
    verdict = str(row.get("verdict", "")).partition("; Cruise Control")[0]
    return [("verdict", verdict, "title"), ("weights", weights, "key"), ("fit", ", ".join(fit), "")]


def chart(detail: Detail) -> Callable[..., Any] | None:
    """Return what draws predicted against measured CPU in %; None without observations."""
    if not detail.observed:
        return None

    def points(used: bool, name: str, style: str, shape: str) -> Series:
        places = [place for place, each in enumerate(detail.used) if each == used]
        measured: Sequence[float] = [detail.observed[place] for place in places]
        return Series(measured, [detail.predicted[place] for place in places], name, style, points=True, shape=shape)

    top = max(*detail.observed, *detail.predicted, 1.0)
    lines = [points(True, "predicted by measured CPU %", "bar", "o")]
    if not all(detail.used):
        lines.append(points(False, "held out", "bar2", "+"))
    lines.append(Series([0.0, top], [0.0, top], "equal", "dim", dashed=True))
    return lambda width, height, glyphs: plot(lines, width, height, glyphs, x_span=(0.0, top), y_span=(0.0, top))
