"""Which runs are compared: marks in the run list, and the sides that marked runs are put on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engine.core.units import plural
from tui.widgets.drawing.fragments import Fragment, cut_left
from tui.widgets.table.table import LiveTable
from tui.widgets.table.window import Cell

if TYPE_CHECKING:
    from engine.core.view import Result
    from tui.views.shared.sections import Level

RUNS = "Runs"
"""Title of the section with the run list."""

RunName = tuple[str, str]
"""Job and name of a run."""


class RunChoice:
    """Chooses the runs, for the level whose table ``#runs`` is the run list: ``runs`` and whole ``jobs`` are marked."""

    def __init__(self, level: Level) -> None:
        self._level = level
        self.runs: set[RunName] = set()
        self.jobs: set[str] = set()
        self._range_from: RunName | None = None

    def side_cell(self, names: tuple[str, str], cell: Cell) -> Sequence[Fragment]:
        """Draw the side with an arrow towards it and its name, and a star if the run is marked."""
        marked = (cell.row["job"], cell.row["run"]) in self.runs or cell.row["job"] in self.jobs
        left, right = (cut_left(name, max(cell.width - 5, 1), cell.glyphs.ellipsis) for name in names)
        arrows = {"left": f"<- {left}", "right": f"{right} ->", "both": "<both>"}
        style = {"left": "bar", "right": "bar2", "both": "moderate"}.get(str(cell.value), "dim")
        return [("* " if marked else "  ", "key"), (arrows.get(str(cell.value), ""), style)]

    def _run(self) -> RunName | None:
        """Return the run under the cursor; None, with a notice, if the run list is not shown."""
        if not self._level.is_mounted:
            return None
        if self._level.section != RUNS:
            self._level.choose(RUNS)
            self._level.notify("choose runs here, then press the key again", timeout=3)
            return None
        row = self._level.row("runs")
        return (row["job"], row["run"]) if row is not None else None

    def _marks_changed(self) -> None:
        """Draw the run list again, and say what is marked."""
        self._level.draw()
        if self.runs or self.jobs:
            whole = f", {plural(len(self.jobs), 'whole job')}" if self.jobs else ""
            self._level.notify(
                f"{plural(len(self.runs), 'run')} marked{whole}: b left, w right, Space takes out", timeout=3
            )

    def mark(self, what: str) -> None:
        """Mark a ``range`` (begin or end it here), all rows ``shown`` (again: none) or the whole ``job``."""
        here = self._run()
        if here is None:
            return
        window = self._level.query_one("#runs", LiveTable).window
        shown = list(window.shown().select("job", "run").iter_rows()) if window is not None else []
        if what == "job":
            self.jobs ^= {here[0]}
        elif what == "shown":
            self.runs = set() if self.runs.issuperset(shown) else self.runs | set(shown)
            self.jobs.clear()
            self._range_from = None
        elif self._range_from is None:
            self._range_from = here
            self.runs.add(here)
        else:
            if self._range_from in shown:
                first, last = sorted((shown.index(self._range_from), shown.index(here)))
                self.runs.update(shown[first : last + 1])
            self._range_from = None
        self._marks_changed()

    def toggle_run(self) -> None:
        """Take runs out of the comparison, or put them back on the side of their job."""
        here = self._run()
        if here is None or self._level.pane.result is None:
            return
        runs = {(row["job"], row["run"]): row["side"] for row in _run_rows(self._level.pane.result)}
        if self.runs or self.jobs or runs.get(here):
            self.put("")
            return
        self.put(max(("left", "right"), key=[side for (job, _), side in runs.items() if job == here[0] and side].count))

    def put(self, side: str) -> None:
        """Put what is marked, or the run under the cursor, on a side."""
        here = self._run()
        if here is None or self._level.pane.result is None or self._level.pane.parameters is None:
            return
        from engine.run_comparison.runs.selection import put

        whole = sorted(self.jobs)
        chosen = sorted(run for run in self.runs if run[0] not in self.jobs) or ([] if whole else [here])
        rest = {"left": 0, "right": 0}
        for row in _run_rows(self._level.pane.result):
            mine = (row["job"], row["run"]) in chosen or row["job"] in whole
            for word in rest:
                rest[word] += not mine and row["side"] in (word, "both")
                rest[word] += mine and word == side
        if not (rest["left"] and rest["right"]):
            self._level.notify(f"that would leave nothing on the {'left' if not rest['left'] else 'right'}", timeout=3)
            return
        detail = self._level.pane.result.detail
        left, right = put(detail.left_patterns, detail.right_patterns, chosen, side, whole)
        self.runs.clear()
        self.jobs.clear()
        self._range_from = None
        if not self._level.pane.change(left=left, right=right):
            self._marks_changed()


def _run_rows(result: Result) -> list[dict[str, Any]]:
    return result.tables["runs"].select("job", "run", "side").to_dicts()
