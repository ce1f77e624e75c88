"""The commands ``report`` and ``check``: compute one view once, print its tables or its findings."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core import units
from engine.core.reading import clean, harmless
from tui.cli.compute import Computation, compute
from tui.cli.output import FINDING, FINE, NO_INPUT, UsageError, message, terminal_width, write, write_file

if TYPE_CHECKING:
    import argparse


MOST_PROBLEMS = 10  # number of problems that are listed on standard error; JSON and text have all


def _report_no_input(arguments: argparse.Namespace, done: Computation) -> int:
    """Say why nothing could be computed and what the view reads; return the exit code."""
    from engine.output import report
    from engine.views import entry

    message(f"loadlens: {done.reason or 'no usable input'} in {clean(', '.join(arguments.paths))}")
    message(f"loadlens: {arguments.view} reads {entry(arguments.view).reads}")
    if done.problems:
        message(report.problems_text(done.problems, MOST_PROBLEMS))
    return NO_INPUT


def report_view(arguments: argparse.Namespace) -> int:
    """Print a view's result in the requested format; return the exit code."""
    done = compute(arguments)
    from engine.core.view import TooLarge  # late: workers read while it is loaded

    try:
        return _print(arguments, done)
    except TooLarge as error:
        raise UsageError(str(error)) from error


def _print(arguments: argparse.Namespace, done: Computation) -> int:
    from engine.output import export, report

    view, result = done.view, done.result
    if result is None:
        return _report_no_input(arguments, done)
    declared = {table.name: table for table in view.tables}
    only = arguments.table
    if only is not None and only not in result.names:
        why = "needs other options" if only in declared else "does not exist"
        raise UsageError(f"table {only!r} {why}; there are: {', '.join(result.names)}")
    give = partial(write_file, arguments.output) if arguments.output else write
    if arguments.format == "json":
        give(report.to_json(view, result, done.parameters, done.instant, only))
        return FINE
    if arguments.format == "prometheus":
        from engine.output import exposition

        text = exposition.to_prometheus(view, result, only)
    elif arguments.format == "upstream":
        answer = view.upstream(result, done.parameters)
        if answer is None:
            raise UsageError(f"what {view.name} re-implements prints nothing for these options")
        text = answer
    elif arguments.format == "text":
        text = report.to_text(view, result, only, 0 if arguments.output else terminal_width())
    else:
        name = only or next((table.name for table in view.tables if table.name in result.names), "")
        if not name:
            raise UsageError(f"{view.name} has no table for these options")
        result = result.with_tables([name])
        frame = result.focused(name) if arguments.format == "markdown" else result.tables[name]
        text = export.FORMATS[arguments.format](frame, declared[name])
    give(harmless(text) if arguments.format == "upstream" else text)
    if arguments.format != "text" and result.problems:
        message(report.problems_text(result.problems, MOST_PROBLEMS))
    return FINE


def check_view(arguments: argparse.Namespace) -> int:
    """Print the findings at or above a level, one per line; return the exit code."""
    done = compute(arguments)
    from engine.core.view import at_least
    from engine.output import junit, report

    view, result = done.view, done.result
    if result is None:
        return _report_no_input(arguments, done)
    level = arguments.fail_on or view.fail_on
    bad = at_least(result.findings, level)
    if arguments.junit is not None:
        own = getattr(view, "junit", None)
        suite = (
            own(result, done.parameters, level) if own else junit.suite_of_findings(view.name, result.findings, level)
        )
        try:
            Path(arguments.junit).write_text(junit.to_xml(suite), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--junit {arguments.junit}: {error.strerror or error}") from error
    try:
        write(harmless("".join(f"{finding.level.upper()} {finding.subject}: {finding.text}\n" for finding in bad)))
    except BrokenPipeError:
        return FINDING  # the reader has seen enough, the verdict stands
    if done.problems:
        message(
            f"loadlens: {units.plural(len(done.problems), 'problem')} in the input; loadlens report {view.name} lists them"
        )
        if unread := tuple(problem for problem in done.problems if problem.kind == "not-read"):
            message(report.problems_text(unread, MOST_PROBLEMS))
    return FINDING if bad else FINE
