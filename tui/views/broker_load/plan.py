"""The section plan: the steps, how the cluster stands after each, and the brokers before and after one of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.containers import Horizontal, Vertical

from engine.core.units import plural
from tui.views.broker_load import cells
from tui.views.shared.sections import Box, DetailPanel, FactsOf, Level, PlotOf, Row, Section, TableOf
from tui.widgets.drawing.plot import Draw, Mark, Series, plot
from tui.widgets.facts import Fact

if TYPE_CHECKING:
    from engine.core.view import Result

ID = "bl-plan"  # of the table of steps
WORDS = {
    "table.select": "After it", "broker-load.kill": "Reject", "broker-load.write": "Write",
    "broker-load.make-plan": "Other plan", "broker-load.drain": "Drain", "broker-load.add": "Add",
}  # fmt: skip
"""What the key bar says of these actions where steps of a plan are shown, first what is needed first."""


def content(open_step: Callable[[Row], Any]) -> Box:
    """Return the first line, the steps, and beside them the curve and the step under the cursor."""
    steps = TableOf(
        table="plan_steps", id=ID, open=open_step, empty="no steps",
        cells={"from_broker": cells.of_leads("leader"), "to_broker": cells.of_leads("new_leader")},
    )  # fmt: skip
    beside = Box(
        DetailPanel, PlotOf(_curve, "bl-plan-curve", of=ID), FactsOf(_step, "bl-plan-step", of=ID), id="bl-plan-detail"
    )
    return Box(Vertical, FactsOf(_first, "bl-plan-facts"), Box(Horizontal, steps, beside))


def _first(result: Result) -> list[Fact]:
    """Return the plan in a sentence and the keys; without a plan, what is free, and how to ask for one."""
    told = result.summary.get("plan")
    if told is not None:
        return [("plan", told, "title"), ("keys", ": cut the plan here   x drop the plan   u undo   ? all keys", "dim")]
    free = [finding.text for finding in result.findings if finding.subject == "plan"]
    return [
        *(("free", text.partition(": see")[0], "title") for text in free),
        ("keys", "P plans for all goals, again for the next loss only; D drains brokers, a (here) adds some", "dim"),
    ]


def _curve(result: Result, row: Row | None) -> Draw | None:
    """Return what draws goals kept, losses survived and balancedness over the data copied; free steps are one vertical line."""
    curve = result.tables.get("plan_curve")
    if curve is None or curve.height < 2:
        return None
    copied = curve["moved_mb"].fill_null(0.0).to_list()
    lines = [
        Series(copied, (100.0 * (16 - curve["goals_violated"]) / 16).to_list(), "goals kept %", "bar"),
        Series(copied, curve["balancedness"].to_list(), "balancedness", "dim"),
    ]
    if curve["survived_brokers"].null_count() == 0:
        survived = (
            100.0 * (curve["survived_brokers"] + curve["survived_racks"]) / (curve["brokers"] + curve["racks"]).clip(1)
        )
        lines.insert(1, Series(copied, survived.to_list(), "losses survived %", "bar2"))
    here = [Mark(copied[row["step"]])] if row is not None and row["step"] < len(copied) else []
    span = (0.0, max(copied[-1], 1.0))
    return lambda width, height, glyphs: plot(
        lines, width, height, glyphs, x_span=span, y_span=(0.0, 100.0), x_kind="number", marks=here
    )


def _ids(values: Any) -> str:
    return ",".join(map(str, values))


def _step(result: Result, row: Row | None) -> list[Fact]:
    """Return the step under the cursor, and how the cluster stands after it."""
    curve = result.tables.get("plan_curve")
    if row is None or curve is None:
        return []
    after = curve.row(row["step"], named=True)
    violated = ", ".join(after["violated"].replace("Goal", "").split("|"))
    return [
        ("partition", f"{row['topic']}-{row['partition']}", ""),
        ("replicas", f"{_ids(row['replicas'])} → {_ids(row['new_replicas'])}", ""),
        ("mends", row["mends"].replace("|", ", ") or "nothing alone", "ok" if row["mends"] else "dim"),
        ("for", row["reason"], ""),
        ("then", f"{plural(after['goals_violated'], 'goal')} violated: {violated}" if violated else "every goal is kept", ""),
        ("survived", " and ".join(f"{after['survived_' + kind]} of {after[kind]} {kind}" for kind in ("brokers", "racks")), ""),
    ]  # fmt: skip


def write(result: Result, throttle_mbs: float, folder: str) -> tuple[str]:
    """Write the files of the plan into ``folder``, all or none, and over no other file; return what to say."""
    from engine.broker_load.plan.export import files
    from tui.widgets.table.boxes import write_new

    place = Path(os.path.expanduser(folder))  # noqa: PTH111  (unlike Path's it never raises)
    written: list[Path] = []
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, text in files(result, throttle_mbs, str(place)).items():
            write_new(place / name, text)
            written.append(place / name)
    except (OSError, ValueError) as error:
        for path in written:
            path.unlink(missing_ok=True)
        if isinstance(error, FileExistsError):
            return (f"not written: {error.filename} exists; give another folder",)
        return (f"not written: {getattr(error, 'strerror', None) or error}",)
    return (f"{plural(len(written), 'file')} in {place}; commands.txt says how to run them",)


class StepLevel(Level):
    """The brokers before the plan and after one of its steps; the plan is cut there while this level is open.

    ``cut``: the steps it was cut at before.
    """

    def __init__(self, row: Row, cut: int) -> None:
        super().__init__(f"after step {row['step']}")
        self.row_, self.cut = row, cut

    def sections(self) -> tuple[Section, ...]:
        """The step, and the table of brokers."""
        brokers = TableOf(table="plan_brokers", id="step-brokers", cells=cells.AFTER_CELLS)
        return (
            Section("", Box(Vertical, FactsOf(lambda result: _step(result, self.row_)[:4], "step-facts"), brokers)),
        )
