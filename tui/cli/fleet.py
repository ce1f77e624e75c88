"""The command ``fleet``: job heuristics for more histories than one machine should read, on Spark."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from engine.core import units
from tui.cli.output import FINDING, FINE, NO_INPUT, UsageError, message, write

if TYPE_CHECKING:
    import argparse

    from engine.job_heuristics.fleet.run.run import Order, Outcome


def run_fleet(arguments: argparse.Namespace) -> int:
    """Compute the tables on Spark and write them; return the exit code."""
    order = _order(arguments)
    from engine.job_heuristics.fleet.run import session

    try:
        with session.session(arguments.master or "", arguments.remote or "") as spark:
            shown = _Progress()
            from engine.job_heuristics.fleet.run.run import run

            with session.progress(spark, shown.tasks):
                outcome = run(spark, order, shown.step)
    except session.SparkMissing as error:
        raise UsageError(str(error)) from error
    except KeyboardInterrupt:
        raise
    except Exception as error:  # any error of Spark, in one sentence
        raise UsageError(f"the run on Spark failed: {session.in_words(error)}") from error
    return _tell(order, outcome, arguments.fail_on)


def _order(arguments: argparse.Namespace) -> Order:
    """Check the arguments. Raises UsageError."""
    from engine.core.parameters import BadOption
    from engine.views import entry
    from tui.cli.compute import chosen_parameters

    if arguments.day and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", arguments.day):
        raise UsageError(f"--day {arguments.day}: wanted YYYY-MM-DD")
    if arguments.partitions < 0:
        raise UsageError("--partitions cannot be negative")
    view = entry("job-heuristics").load()
    try:
        parameters = chosen_parameters(view, arguments.option)
    except BadOption as error:
        raise UsageError(str(error)) from error
    if parameters.job or parameters.compare:
        raise UsageError("options job and compare are for one job: loadlens report shows it")
    from engine.job_heuristics.fleet.run.run import Order

    return Order(
        view=view,
        paths=arguments.paths,
        out=arguments.out,
        parameters=parameters,
        now_ms=time.time_ns() // 1_000_000,
        day=arguments.day or "",
        partitions=arguments.partitions,
        pack=arguments.pack or "",
        packed=arguments.packed,
    )


def _tell(order: Order, outcome: Outcome, level: str | None) -> int:
    from engine.core.view import LEVELS

    if not outcome.rows.get("jobs"):
        message(f"loadlens: no job in {units.plural(outcome.files, 'file')}")
        return NO_INPUT
    write("".join(f"{name:15} {rows:>12,} rows\n" for name, rows in outcome.rows.items()))
    write(f"of {units.plural(outcome.files, 'file')}, {outcome.bytes / 1e6:,.1f} MB; written to {order.folder}\n")
    if outcome.rows["problems"]:
        message(f"loadlens: {units.plural(outcome.rows['problems'], 'problem')} in the input: see table problems")
    bad = LEVELS[LEVELS.index(level) :] if level else ()
    return FINDING if any(outcome.findings.get(each) for each in bad) else FINE


class _Progress:
    """Progress on standard error: step, tasks done, time left."""

    def __init__(self) -> None:
        self._what, self._files, self._since = "listing", 0, time.monotonic()

    def step(self, what: str, files: int, size: int) -> None:
        """Begin a step over ``files`` files of ``size`` bytes."""
        self._what, self._files, self._since = what, files, time.monotonic()
        message(f"loadlens: {what}" + (f": {units.plural(files, 'file')}, {size / 1e6:,.1f} MB" if files else ""))

    def tasks(self, done: int, known: int) -> None:
        """Report ``done`` of ``known`` tasks."""
        if not done or done == known:
            return
        left = (time.monotonic() - self._since) / done * (known - done)
        files = f", about {self._files * done // known:,} of {self._files:,} files" if self._files else ""
        message(f"loadlens: {self._what}: {done} of {known} tasks{files}, about {left:,.0f} s left")
