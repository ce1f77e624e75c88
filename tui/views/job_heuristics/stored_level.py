"""One job of a fleet result without its histories, shown from the tables of the result."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textual.containers import Vertical

from engine.core import units
from tui.glyphs import Glyphs
from tui.views.job_heuristics import drawing
from tui.views.job_heuristics.level import OpenJob, advice_spec
from tui.views.shared.sections import LATER, Box, LinesOf, Row, Section, TableOf
from tui.widgets.drawing.fragments import Line
from tui.widgets.drawing.plot import Draw

if TYPE_CHECKING:
    from engine.core.tables import Table
    from engine.core.view import Result
    from tui.widgets.table.window import Key

NEEDS_HISTORIES = "what-if needs the job's own histories"
"""Message for keys of the scenario."""


class StoredLevel(OpenJob):
    """The open job. Replaced by the full level once the job's histories have been read."""

    PREFIX = "stored"
    SCOPED_CSS = False
    DEFAULT_CSS = """
    StoredLevel { layout: vertical; }
    StoredLevel #stored-head { height: auto; max-height: 5; padding: 0 1; }
    StoredLevel Drawing { padding: 0 1; }
    StoredLevel #stored-verdicts { height: 55%; }
    StoredLevel #stored-verdict { height: 1fr; border-top: hkey $panel; }
    .-ascii StoredLevel #stored-verdict { border-top: ascii $panel; }
    """

    def sections(self) -> tuple[Section, ...]:
        """The tables that a fleet result holds of every job."""
        details = LinesOf(_details, "stored-verdict", of="stored-verdicts")
        return (
            Section("verdicts", Box(Vertical, self._table("heuristics", "stored-verdicts", first=self.worst), details)),
            Section("cost", self._table("costs", "stored-cost")),
            Section("advice", self._table("recommendations", "stored-advice")),
            Section("history", replace(self.history(), name="stored-history")),
            Section("differences", self._table("differences", "stored-differences")),
        )

    def _table(self, table: str, id: str, **more: Any) -> TableOf:
        """Return a table of the job's rows, once they are read."""

        def rows(result: Result) -> Any:
            found = result.detail.rows(table, self.job_id)
            return LATER if found is None else found

        return TableOf(table=table, id=id, name=f"stored-{table}", rows=rows, arrange=_of_one_job, **more)

    def shown(self, result: Result) -> Any:
        """Return the detail, which holds the rows of all jobs."""
        return result.detail

    def worst(self, result: Result) -> Key:
        """Return the worst verdict."""
        rows = result.detail.rows("heuristics", self.job_id).iter_rows(named=True)
        return (self.job_id, max(rows, key=lambda row: units.rank(row["severity"] or ""))["heuristic"])

    def what_if(self) -> None:
        """Say what the scenario needs."""
        self.notify(NEEDS_HISTORIES, timeout=3)

    def take(self) -> None:
        """Say what the scenario needs."""
        self.notify(NEEDS_HISTORIES, timeout=3)

    def lines(self, result: Result, width: int, glyphs: Glyphs) -> list[Line]:
        """Return name, severity and letters; user and memory; and why its own histories are not there."""
        row = result.detail.listed(self.job_id)
        if not row:
            return self.absent(False)
        text = (
            f"{row.get('user') or '?'} in {row.get('queue') or '?'}, {row.get('job_type') or 'Unknown'}, "
            f"submitted {units.text('time_ms', row.get('submit_ms'), 16)}, "
            f"used {units.text('mb_s', row.get('used_mb_s'))}, wasted {units.text('mb_s', row.get('wasted_mb_s'))}"
        )
        chosen = result.detail.chosen
        known = chosen is not None and chosen.job_id == self.job_id
        why = f"From a fleet result: {chosen.why}." if known else "Reading it from the fleet result."
        first = drawing.job_line(row, str(row.get("state") or ""), glyphs)
        return [first, [(text, "dim")], *drawing.paragraph(why, width, "moderate")]


def _of_one_job(spec: Table) -> Table:
    """Return a declaration without the job, which is the same in every row."""
    arranged = advice_spec(spec) if spec.name == "recommendations" else spec
    columns = [replace(column, hidden=column.hidden or column.name == "job_id") for column in arranged.columns]
    return replace(arranged, columns=tuple(columns))


def _details(result: Result, row: Row | None) -> Draw:
    """Return what draws what Dr. Elephant says to a verdict."""
    from engine.job_heuristics.dr_elephant.display import labels

    found = [(label, value, "") for label, value in labels(row["details"])] if row is not None else []
    return lambda width, height, glyphs: drawing.facts(found, width)
