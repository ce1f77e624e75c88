"""Read the files of one view and compute it once, for ``report`` and ``check``."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from engine.live.options import LiveSettings
from engine.live.pool import tasks
from engine.live.pool.tasks import FileTask
from engine.live.pool.trial import attempt
from tui.cli.arguments import check_paths, load_settings
from tui.cli.output import FINE, UsageError, message

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from engine.core.reading import Problem
    from engine.core.view import Result, View
    from engine.live.files.scan import FirstScan
    from engine.live.pool.read_ahead import ReadAhead
    from engine.live.pool.reading_pool import ReadingPool
    from engine.own_files.settings import Settings
    from engine.views import Entry


class Computation(msgspec.Struct, frozen=True):
    """A view computed once, as of ``instant`` (epoch ms); ``reason``: why there is no ``result``."""

    view: View
    parameters: Any
    instant: int
    problems: tuple[Problem, ...]
    result: Result | None = None
    reason: str = ""


def compute(arguments: argparse.Namespace) -> Computation:
    """Read the files that ``arguments`` name and compute their view once. Raises UsageError."""
    from engine.live.cache.location import has_rows
    from engine.live.files.scan import FirstScan
    from engine.views import entry

    wanted = entry(arguments.view)
    if arguments.option in (["help"], ["list"]):
        raise UsageError(option_help(_view(wanted)), code=FINE)
    if not arguments.paths:
        raise UsageError(f"which files? loadlens {arguments.command} {wanted.name} PATH ...; it reads {wanted.reads}")
    check_paths(arguments.paths)
    settings = load_settings(arguments)
    if arguments.config and settings.unread:
        # The usual file may be odd; one that was asked for must not be passed over for other numbers.
        raise UsageError(f"--config {arguments.config}: {settings.problems[0].reason}")
    live = settings.of(LiveSettings)
    scan = FirstScan(arguments.paths, live)
    fresh = threading.active_count() == 1 and "polars" not in sys.modules  # so that this process can be forked
    pool: ReadingPool | ReadAhead | None = None
    files, passed = [], None
    if not has_rows(live, scan.roots, wanted.name):
        # Other processes begin to read while this one still loads what it needs.
        from engine.live.pool.reading_pool import start

        scanner = scan.scanner
        files = [FileTask(p, scanner.roots[scanner.root_of(p)], stat) for p, stat in scan.changes.changed.items()]
        pool = start(files, [wanted.module], live, scan.roots, final=True)
    if pool is None and live.workers != 1 and any(stat[2] > tasks.SMALL for stat in scan.changes.changed.values()):
        passed = attempt(tasks.memory(live), tasks.patience(scan.size))
    view = _view(wanted)
    if pool is None and fresh:
        from engine.live.pool import read_ahead

        pool = read_ahead.start(files, view, wanted.module, live, scan.roots, wanted.effort)
    try:
        return _computed(arguments, view, settings, scan, pool, passed)
    finally:
        if pool is not None:
            pool.close()


def _view(wanted: Entry) -> View:
    """Import a view."""
    view = wanted.load()
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        # Polars installs a handler in which Ctrl+C is lost between its queries.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return view


def _computed(
    arguments: argparse.Namespace,
    view: View,
    settings: Settings,
    scan: FirstScan,
    pool: ReadingPool | ReadAhead | None,
    passed: Callable[[], None] | None,
) -> Computation:
    """Compute the view. ``passed``: called when all is read, in a process that a reader may end."""
    import time

    from engine.core import units
    from engine.core.parameters import BadOption, parse_instant
    from engine.core.reading import fold
    from engine.core.view import NoInput, UnknownName
    from engine.own_files.settings import view_parameters

    parameters, wrong = view_parameters(settings, view.name, view.parameters)
    try:
        parameters = chosen_parameters(view, arguments.option, parameters)
    except BadOption as error:
        raise UsageError(str(error)) from error
    try:
        at_ms = parse_instant(arguments.at) if arguments.at is not None else None
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--at {arguments.at}: {error}") from error
    for problem in (*settings.problems, *wrong):
        message(f"loadlens: {problem.path}: {problem.reason}")

    now_ms = time.time_ns() // 1_000_000
    instant = now_ms if at_ms is None else at_ms
    from engine.live.session import Session

    if pool and hasattr(view, "load"):
        view.load()  # modules that computing needs, while other processes read
    live = settings.of(LiveSettings)
    if passed is not None:
        live = msgspec.structs.replace(live, workers=1)
    budget = contextlib.nullcontext if passed is None else tasks.budget
    session = Session(arguments.paths, [view], settings=live, first_scan=scan, pool=pool, budget=budget)
    try:
        try:
            session.scan(final=True)
            if passed is not None:
                passed()
        except KeyboardInterrupt:
            session.close(0)
            raise
        try:
            result = session.compute(view.name, parameters, at_ms=at_ms, now_ms=now_ms)
        except UnknownName as error:
            raise UsageError(str(error)) from error
        except NoInput as error:
            problems = dict.fromkeys((*session.problems, *session.inputs(view.name).problems, *session.unread))
            reason = str(error) if at_ms is None else f"{error} (as of {units.iso(at_ms)})"
            return Computation(view, parameters, instant, fold(problems), reason=reason)
        wrong_options = [
            f"{problem.path}: {problem.reason}" for problem in result.problems if problem.kind == "bad-option"
        ]
        if wrong_options:  # its numbers would answer another question
            raise UsageError("; ".join(wrong_options))
        result = dataclasses.replace(result, problems=fold((*result.problems, *session.unread)))
        return Computation(view, parameters, instant, result.problems, result)
    finally:
        session.close()


def chosen_parameters(view: View, words: Sequence[str], base: Any = None) -> Any:
    """Return the view's parameters with those that ``words`` (KEY=VALUE) set, over those of ``scenario=NAME``.

    Raises BadOption.
    """
    from engine.core.parameters import BadOption, parse
    from engine.own_files.scenarios import Scenarios, split_scenario

    scenario, words = split_scenario(words)
    if scenario:
        from engine.own_files.settings import State, folders

        base = Scenarios(State(folders()["state"]), view.name).load(scenario, base or view.parameters())
    pairs = []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise BadOption(f"-o {word}: wanted KEY=VALUE; loadlens report {view.name} -o help lists the keys")
        pairs.append((key, value))
    return parse(view.parameters, pairs, base)


def option_help(view: View) -> str:
    """Return the text of ``-o help``: the tables, then one line per option."""
    from engine.core.parameters import options, value_text

    tables = ", ".join(table.name for table in view.tables)
    lines = [f"{view.title}; tables: {tables}", "", f"options of {view.name} (-o KEY=VALUE):"]
    for option in options(view.parameters):
        unit = f" [{option.unit}]" if option.unit else ""
        choices = f" ({'|'.join(option.choices)})" if option.choices else ""
        default = value_text(option.default)
        shown = f" (default {default})" if default else ""
        lines.append(f"  {option.key}{unit}{choices}: {option.sentence}{shown}")
    lines.append("  scenario: Options as saved under a name in the dashboard (key S); those named beside it win")
    return "\n".join(lines)
