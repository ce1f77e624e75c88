"""Marks in the run list: single runs, ranges, all rows shown and whole jobs."""

from __future__ import annotations

from collections.abc import Sequence

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
        """Mark a whole job, or not any more."""
        self.jobs ^= {job}

    def summary(self) -> str:
        """Return what is marked, and the keys that move it."""
        whole = f", {len(self.jobs)} whole jobs" if self.jobs else ""
        return f"{len(self.runs)} runs marked{whole}: b left, w right, Space takes out"

    def chosen(self, here: RunName) -> tuple[list[RunName], list[str]]:
        """Return the runs and the whole jobs that are marked; without marks the run ``here``."""
        runs = sorted(run for run in self.runs if run[0] not in self.jobs)
        return (runs or ([] if self.jobs else [here])), sorted(self.jobs)
