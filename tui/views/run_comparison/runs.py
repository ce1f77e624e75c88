"""Which runs are compared: marks in the run list, and the sides that marked runs are put on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tui.widgets.drawing.fragments import Fragment
from tui.widgets.table.table import LiveTable
from tui.widgets.table.window import Cell

if TYPE_CHECKING:
    from engine.core.result import Result
    from tui.views.shared.sections import Level

RUNS = "Runs"
"""Title of the section with the run list."""

RunName = tuple[str, str]
"""Job and name of a run."""


class RunMarks:
    """Runs and jobs that are marked to be put on a side."""

    def __init__(self) -> None:
        self.runs: set[RunName] = set()
        self.jobs: set[str] = set()
        self._range_from: RunName | None = None

    def __contains__(self, run: RunName) -> bool:
        """Whether a run is marked, by itself or with its job."""
        return run in self.runs or run[0] in self.jobs

    def __bool__(self) -> bool:
        """Whether anything is marked."""
        return bool(self.runs or self.jobs)

    def clear(self) -> None:
        """Remove all marks."""
        self.runs.clear()
        self.jobs.clear()
        self._range_from = None

    def mark_range(self, here: RunName, shown: Sequence[RunName]) -> None:
        """Begin a range at a run, or mark all rows ``shown`` from where it began to here."""
        if self._range_from is None:
            self._range_from = here
            self.runs.add(here)
            return
        if self._range_from in shown:
            first, last = sorted((shown.index(self._range_from), shown.index(here)))
            self.runs.update(shown[first : last + 1])
        self._range_from = None

    def mark_shown(self, shown: Sequence[RunName]) -> None:
        """Mark all rows ``shown``, or none if all are marked."""
        self.runs = set() if self.runs.issuperset(shown) else self.runs | set(shown)
        self.jobs.clear()
        self._range_from = None

    def toggle_job(self, job: str) -> None:
        """Mark a whole job, or unmark it."""
        self.jobs ^= {job}

    def summary(self) -> str:
        """Return what is marked, and the keys that move it."""
        whole = f", {len(self.jobs)} whole jobs" if self.jobs else ""
        return f"{len(self.runs)} runs marked{whole}: b left, w right, Space takes out"

    def chosen(self, here: RunName) -> tuple[list[RunName], list[str]]:
        """Return the runs and the whole jobs that are marked; without marks the run ``here``."""
        runs = sorted(run for run in self.runs if run[0] not in self.jobs)
        return (runs or ([] if self.jobs else [here])), sorted(self.jobs)


class RunChoice:
    """Chooses the runs, for the level whose table ``#runs`` is the run list."""

    def __init__(self, level: Level) -> None:
        self._level = level
        self.marks = RunMarks()

    def side_cell(self, cell: Cell) -> Sequence[Fragment]:
        """Draw the side with an arrow towards it, and a star if the run is marked."""
        marked = (cell.row["job"], cell.row["run"]) in self.marks
        arrows = {"left": "<- left", "right": "right ->", "both": "<both>"}
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
        if self.marks:
            self._level.notify(self.marks.summary(), timeout=3)

    def mark(self, what: str) -> None:
        """Mark a ``range`` (begin or end it here), all rows ``shown`` (again: none) or the whole ``job``."""
        here = self._run()
        if here is None:
            return
        window = self._level.query_one("#runs", LiveTable).window
        shown = list(window.shown().select("job", "run").iter_rows()) if window is not None else []
        if what == "range":
            self.marks.mark_range(here, shown)
        elif what == "shown":
            self.marks.mark_shown(shown)
        else:
            self.marks.toggle_job(here[0])
        self._marks_changed()

    def toggle_run(self) -> None:
        """Take runs out of the comparison, or put them back on the side of their job."""
        here = self._run()
        if here is None or self._level.pane.result is None:
            return
        runs = {(row["job"], row["run"]): row["side"] for row in _run_rows(self._level.pane.result)}
        if self.marks or runs.get(here):
            self.put("")
            return
        sides_of_job = [side for (job, _), side in runs.items() if job == here[0] and side]
        self.put(max(("left", "right"), key=sides_of_job.count))

    def put(self, side: str) -> None:
        """Put what is marked, or the run under the cursor, on a side."""
        here = self._run()
        if here is None or self._level.pane.result is None or self._level.pane.parameters is None:
            return
        from engine.run_comparison.runs.selection import put

        chosen, whole = self.marks.chosen(here)
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
        self.marks.clear()
        if not self._level.pane.change(left=left, right=right):
            self._marks_changed()


def _run_rows(result: Result) -> list[dict[str, Any]]:
    return result.tables["runs"].select("job", "run", "side").to_dicts()
