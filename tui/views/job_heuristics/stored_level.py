"""One job of a fleet result whose own histories are not there: what the tables of the result hold of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from engine.core import units
from tui.views.job_heuristics import drawing
from tui.views.job_heuristics.level import advice_spec
from tui.views.shared.pane import Level
from tui.widgets.drawing.fragments import Line
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.core.result import Result
    from engine.core.tables import Table
    from engine.job_heuristics.result.all_jobs import Detail

SECTIONS = ("verdicts", "cost", "advice", "history", "differences")
NEEDS_HISTORIES = "what-if needs the job's own histories"
"""Said for keys of the scenario."""
TABLES = {"verdicts": "heuristics", "cost": "costs", "advice": "recommendations", "differences": "differences"}
"""The table that a section shows the job's rows of."""


class StoredLevel(Level):
    """The open job. It gives way to the full level once the job's own histories were read."""

    SCOPED_CSS = False
    DEFAULT_CSS = """
    StoredLevel { layout: vertical; }
    StoredLevel #stored-head { height: auto; max-height: 5; padding: 0 1; }
    StoredLevel Drawing { padding: 0 1; }
    StoredLevel #stored-verdicts { height: 55%; }
    StoredLevel #stored-verdict { height: 1fr; border-top: hkey $panel; }
    .-ascii StoredLevel #stored-verdict { border-top: ascii $panel; }
    """

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id)
        self.job_id = job_id
        self._placed = False
        self._specs: dict[str, Table] = {}

    def compose(self) -> ComposeResult:
        """Head and sections."""

        def table(name: str, id: str) -> LiveTable:
            return LiveTable(name=f"job-heuristics/stored-{name}", id=id)

        yield drawing.Drawing(id="stored-head")
        sections = Sections(id="stored-sections")
        sections.add("verdicts", Vertical(table("heuristics", "stored-verdicts"), drawing.Drawing(id="stored-verdict")))
        sections.add("cost", table("costs", "stored-cost"))
        sections.add("advice", table("recommendations", "stored-advice"))
        sections.add("history", table("history", "job-runs"))
        sections.add("differences", table("differences", "stored-differences"))
        yield sections

    def show(self, result: Result) -> None:
        """Draw the head and the section on screen."""
        self.query_one("#stored-head", drawing.Drawing).show(lambda width, glyphs: self._head(result, width, glyphs))
        section = SECTIONS[self.query_one("#stored-sections", Sections).chosen]
        if section == "history":
            self.pane.show_table("#job-runs", result, "history")
            return
        rows = result.detail.rows(TABLES[section], self.job_id)
        if rows is not None:
            table = self.query_one(f"#stored-{section}", LiveTable)
            table.show(rows, self._spec(section))
            if section == "verdicts" and not self._placed and rows.height:
                self._placed = True  # why the job is bad is what it was opened for
                worst = max(rows.iter_rows(named=True), key=lambda row: units.rank(row["severity"] or ""))
                table.move_to_key((self.job_id, worst["heuristic"]))
        self._verdict()

    def _spec(self, section: str) -> Table:
        """A table's declaration without the job, which is the same in every row; made once."""
        if section not in self._specs:
            spec = self.pane.spec(TABLES[section])
            arranged = advice_spec(spec) if section == "advice" else spec
            columns = [replace(c, hidden=c.hidden or c.name == "job_id") for c in arranged.columns]
            self._specs[section] = replace(arranged, columns=tuple(columns))
        return self._specs[section]

    @on(Sections.Shown, "#stored-sections")
    def _section_shown(self) -> None:
        if self.pane.result is not None:
            self.show(self.pane.result)

    def _head(self, result: Result, width: int, glyphs: Any) -> list[Line]:
        detail: Detail = result.detail
        row = detail.listed(self.job_id)
        if not row:
            return [[(f"{self.job_id}: not in the data any more", "title")]]
        severity = row.get("severity") or ""
        first: Line = [
            (f"{row.get('name') or '(no name)'}  ", "title"),
            (f"{glyphs.severity[drawing.level(severity)]} {severity or 'not judged'}  ", drawing.level(severity)),
            (f"{row.get('state') or ''}  ", ""),
            *drawing.strip_line(str(row.get("strip") or "")),
        ]
        text = (
            f"{row.get('user') or '?'} in {row.get('queue') or '?'}, {row.get('job_type') or 'Unknown'}, "
            f"submitted {units.text('time_ms', row.get('submit_ms'), 16)}, "
            f"used {units.text('mb_s', row.get('used_mb_s'))}, wasted {units.text('mb_s', row.get('wasted_mb_s'))}"
        )
        chosen = detail.chosen
        known = chosen is not None and chosen.job_id == self.job_id
        why = (
            f"From a fleet result: {chosen.why}."
            if known and chosen is not None
            else "Reading it from the fleet result."
        )
        return [first, [(text, "dim")], *drawing.paragraph(why, width, "moderate")]

    @on(LiveTable.Highlighted, "#stored-verdicts")
    def _verdict(self) -> None:
        """Draw what Dr. Elephant says to the verdict under the cursor."""
        from engine.job_heuristics.dr_elephant.display import labels

        row = self.query_one("#stored-verdicts", LiveTable).row
        found = labels(row["details"]) if row is not None else ()
        self.query_one("#stored-verdict", drawing.Drawing).show(
            lambda width, _: drawing.facts([(label, value, "") for label, value in found], width)
        )
