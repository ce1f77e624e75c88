"""Choose which runs are compared: marks in the run list, and the sides that marked runs are put on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tui.views.run_comparison.run_marks import RunMarks, RunName
from tui.views.shared.pane import ViewPane
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.core.result import Result


class RunChoice(ViewPane):
    """The part of the tab that chooses runs; ``show_runs`` draws the list again."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.marks = RunMarks()

    def show_runs(self, result: Result) -> None:
        """Show the run list again, with other marks."""
        raise NotImplementedError

    def _run(self) -> RunName | None:
        """Return the run under the cursor; None, with a notice, if the run list is not shown."""
        if not self.query("#runs"):
            return None
        table = self.query_one("#runs", LiveTable)
        if self.query_one("#sections", Sections).current is not table:
            self.query_one("#sections", Sections).choose(1)
            self.notify("choose runs here, then press the key again", timeout=3)
            return None
        row = table.row
        return (row["job"], row["run"]) if row is not None else None

    def _shown_runs(self) -> list[RunName]:
        window = self.query_one("#runs", LiveTable).window
        if window is None:
            return []
        return [(job, run) for job, run in window.shown().select("job", "run").iter_rows()]

    def _marks_changed(self) -> None:
        if self.result is not None:
            self.show_runs(self.result)
        if self.marks:
            self.notify(self.marks.summary(), timeout=3)

    def action_mark_range(self) -> None:
        """Begin or end a range of marked runs."""
        here = self._run()
        if here is not None:
            self.marks.mark_range(here, self._shown_runs())
            self._marks_changed()

    def action_mark_shown(self) -> None:
        """Mark all rows of the table, or none."""
        if self._run() is not None:
            self.marks.mark_shown(self._shown_runs())
            self._marks_changed()

    def action_mark_job(self) -> None:
        """Mark the job of the run under the cursor, or not any more."""
        here = self._run()
        if here is not None:
            self.marks.toggle_job(here[0])
            self._marks_changed()

    def action_to_left(self) -> None:
        """Put marked runs on the left."""
        self._put("left")

    def action_to_right(self) -> None:
        """Put marked runs on the right."""
        self._put("right")

    def toggle_run(self) -> None:
        """Take runs out of the comparison, or back to the side their job is on."""
        here = self._run()
        if here is None or self.result is None:
            return
        runs = {(row["job"], row["run"]): row["side"] for row in _run_rows(self.result)}
        if self.marks or runs.get(here):
            self._put("")
            return
        sides_of_job = [side for (job, _), side in runs.items() if job == here[0] and side]
        self._put(max(("left", "right"), key=sides_of_job.count))

    def _put(self, side: str) -> None:
        """Put what is marked, or the run under the cursor, on a side."""
        here = self._run()
        if here is None or self.result is None or self.parameters is None:
            return
        from engine.run_comparison.runs.selection import put

        chosen, whole = self.marks.chosen(here)
        rest = {"left": 0, "right": 0}
        for row in _run_rows(self.result):
            mine = (row["job"], row["run"]) in chosen or row["job"] in whole
            for word in rest:
                rest[word] += not mine and row["side"] in (word, "both")
                rest[word] += mine and word == side
        if not (rest["left"] and rest["right"]):
            self.notify(f"that would leave nothing on the {'left' if not rest['left'] else 'right'}", timeout=3)
            return
        detail = self.result.detail
        left, right = put(detail.left_patterns, detail.right_patterns, chosen, side, whole)
        self.marks.clear()
        if not self.change(left=left, right=right):
            self._marks_changed()

    def action_usual_sides(self) -> None:
        """Choose the sides as at start."""
        self.change(left=(), right=())


def _run_rows(result: Result) -> list[dict[str, Any]]:
    return result.tables["runs"].select("job", "run", "side").to_dicts()
