"""The command line. It imports nothing heavy: Textual only for a screen, Polars only for a computation."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

from engine import __version__

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from engine.live.files.first_scan import FirstScan
    from engine.live.pool.reading_pool import ReadingPool
    from engine.problems import Problem
    from engine.result import Result
    from engine.settings import Settings
    from engine.view import View
    from engine.views import Entry
    from sample_data.feed import Feeder

FINE, FINDING, USAGE, NO_INPUT, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes: nothing to say, a finding, wrong usage, no usable input, Ctrl+C."""

COMMANDS = ("demo", "report", "check", "paths")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code. A broken pipe (``| head``) ends quietly."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            if words in (["--version"], ["-V"]):
                _write(f"loadlens {__version__}\n")
                return FINE
            return _dispatch(words)
        except _Usage as error:
            if error.code != FINE:
                raise
            _write(f"{error}\n")
            return FINE
    except KeyboardInterrupt:
        return INTERRUPTED
    except _Usage as error:
        _say(f"loadlens: {error}")
        return error.code
    except BrokenPipeError:  # whoever read has seen enough
        return FINE


def _write(text: str | bytes) -> None:
    """Write to standard output, all of it. Raises BrokenPipeError, and _Usage where it cannot be written."""
    if sys.stdout is None:
        raise _Usage("standard output is closed")
    try:
        sys.stdout.flush()
        data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
        if hasattr(sys.stdout, "buffer"):
            sys.stdout.buffer.write(data)
        else:  # somebody's stand-in for standard output
            sys.stdout.write(data.decode())
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer would make Python complain once more when it flushes at exit.
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise _Usage(f"standard output cannot be written: {error.strerror or error}") from error


class _Usage(Exception):
    """Ends the program with a message: wrong usage, output that cannot be written, or help that was asked for."""

    def __init__(self, text: str, code: int = USAGE) -> None:
        super().__init__(text)
        self.code = code


def _dispatch(words: list[str]) -> int:
    command = words[0] if words and words[0] in COMMANDS else ""
    arguments = _parser(command).parse_args(words[1:] if command else words)
    if command == "paths":
        return _paths()
    if command in ("report", "check"):
        from engine.settings import folders
        from tui import logs

        with logs.to_file(folders()["log"]):  # a reader's mistake is a problem in the report, its traceback is here
            return _report(arguments) if command == "report" else _check(arguments)
    return _dashboard(arguments, demo=command == "demo")


def _parser(command: str) -> argparse.ArgumentParser:
    import argparse

    from engine.views import VIEWS

    class Parser(argparse.ArgumentParser):
        """Its help is output like any other: it is written wholly, or that is said."""

        def _print_message(self, message: str, file: Any = None) -> None:
            if file is sys.stdout:
                _write(message)
            else:
                _say(message)

    names = [entry.name for entry in VIEWS]
    raw = argparse.RawDescriptionHelpFormatter
    if command in ("report", "check"):
        about = {
            "report": "Compute one view once and print it. Nothing but data on standard output.",
            "check": "Compute one view once; exit 1 with a line per finding at or above a level.",
        }[command]
        parser = Parser(f"loadlens {command}", description=about, allow_abbrev=False)
        parser.add_argument("view", choices=names, metavar="VIEW", help=", ".join(names))
        parser.add_argument("paths", nargs="+", metavar="PATH", help="files or folders, any number, read recursively")
        parser.add_argument(
            "-o",
            "--option",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="a choice of the view; -o help lists them",
        )
        parser.add_argument("--at", metavar="TIME", help="look at the data as they were then (ISO 8601 or epoch)")
        if command == "report":
            parser.add_argument("--table", metavar="NAME", help="only this table")
            parser.add_argument("--format", default="json", choices=("json", "csv", "markdown", "text", "upstream"))
        else:
            parser.add_argument("--fail-on", metavar="LEVEL", choices=("low", "moderate", "severe", "critical"),
                                help="exit 1 from this level on: low, moderate, severe, critical")  # fmt: skip
            parser.add_argument("--junit", metavar="FILE", help="also write the findings as JUnit XML")
        parser.add_argument("--no-cache", action="store_true", help="neither read nor write the cache of parsed files")
        parser.add_argument("--config", metavar="FILE", help="settings file instead of the usual one")
        return parser
    if command == "paths":
        return Parser("loadlens paths", description="Print where settings, state, log and cache lie.")
    epilog = """commands:
  loadlens [PATH ...]            the dashboard on files and folders, live (this folder if none is named)
  loadlens demo                  the dashboard on sample data that moves
  loadlens report VIEW PATH ...  one view computed once: json, csv, markdown, text, upstream
  loadlens check VIEW PATH ...   exit 1 with one line per finding, for cron and CI
  loadlens paths                 where settings, state, log and cache lie

exit codes: 0 fine, 1 finding, 2 usage, 3 no usable input, 130 interrupted"""
    name = "loadlens demo" if command == "demo" else "loadlens"
    parser = Parser(
        name,
        description="Where does the load come from, and what happens if a node dies?",
        epilog=None if command else epilog,
        formatter_class=raw,
        allow_abbrev=False,
    )
    if not command:
        parser.add_argument("--version", "-V", action="version", version=f"loadlens {__version__}")
        parser.add_argument("paths", nargs="*", metavar="PATH", help="files or folders to watch (default: this folder)")
    else:
        parser.add_argument(
            "--speed", type=float, default=1.0, metavar="X", help="play the sample data X times as fast"
        )
    parser.add_argument("--view", choices=names, metavar="VIEW", help=f"show this view first: {', '.join(names)}")
    parser.add_argument("--theme", metavar="NAME", help="dark, light, ansi-dark, ansi-light or a Textual theme")
    parser.add_argument("--glyphs", choices=("auto", "braille", "block", "ascii"), help="characters for plots")
    parser.add_argument("--poll", action="store_true", help="never rely on file events, look every few seconds")
    parser.add_argument("--no-cache", action="store_true", help="neither read nor write the cache of parsed files")
    parser.add_argument("--config", metavar="FILE", help="settings file instead of the usual one")
    return parser


def _say(text: str) -> None:
    """A message on standard error, if there is one that can be written."""
    import contextlib

    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(text.rstrip("\n"), file=sys.stderr, flush=True)


def _settings(arguments: argparse.Namespace) -> Settings:
    import dataclasses
    from pathlib import Path

    import msgspec

    from engine import settings
    from engine.views import VIEWS

    found = settings.load(Path(arguments.config) if arguments.config else None, tuple(e.name for e in VIEWS))
    ui = {k: v for k in ("theme", "glyphs") if (v := getattr(arguments, k, None)) is not None}
    live: dict[str, Any] = {}
    if getattr(arguments, "poll", False):
        live["poll"] = True
    if arguments.no_cache:
        live["cache"] = False
    return dataclasses.replace(
        found, ui=msgspec.structs.replace(found.ui, **ui), live=msgspec.structs.replace(found.live, **live)
    )


def _paths() -> int:
    from engine.settings import folders

    lines = (f"{name:7} {path}{'' if _there(path) else '  (not there yet)'}\n" for name, path in folders().items())
    _write("".join(lines))
    return FINE


def _there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # below a folder that may not be entered
        return False


def _look_at_paths(paths: Sequence[str]) -> None:
    """Refuse what can only be a mistake. Raises _Usage."""
    import os
    from pathlib import Path

    if "" in paths:
        raise _Usage("an empty PATH (a variable that is not set?); write . for this folder")
    try:
        Path.cwd()
    except OSError as error:
        if not all(os.path.expanduser(path).startswith("/") for path in paths):  # noqa: PTH111  (Path's raises)
            raise _Usage(f"the current folder cannot be used: {error.strerror}; name folders by full paths") from error


def _dashboard(arguments: argparse.Namespace, *, demo: bool) -> int:
    import contextlib
    import signal
    from pathlib import Path

    refusal = _not_a_terminal()
    if refusal:
        _say(refusal)
        return USAGE
    if demo:
        from sample_data.feed import playing

        if not arguments.speed > 0:  # nor a NaN
            raise _Usage("--speed: a number above 0 is wanted")
        with contextlib.ExitStack() as stack:
            try:
                feeder = stack.enter_context(playing(arguments.speed))
            except OSError as error:
                raise _Usage(f"no temporary folder for the sample data: {error.strerror or error}") from error
            code = _show([feeder.target], arguments, feeder)
    else:
        _look_at_paths(arguments.paths or ["."])
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # an exception in the middle of an import helps nobody
        code = _show([Path(path) for path in arguments.paths or ["."]], arguments)
    _end(code)


def _end(code: int) -> NoReturn:
    """End the process here and now. Everything is saved and the terminal restored, but threads may still be importing or
    computing: taking the interpreter down under native code takes time and can crash."""
    import logging
    import os

    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
    os._exit(code)


def _not_a_terminal() -> str:
    import os

    if sys.stdin is None or sys.stdout is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "loadlens: the dashboard needs a terminal; for scripts: loadlens report VIEW PATH"
    if os.environ.get("TERM") == "dumb":
        return "loadlens: TERM=dumb cannot show the dashboard; use: loadlens report VIEW PATH --format text"
    return ""


def _show(roots: list[Path], arguments: argparse.Namespace, feeder: Feeder | None = None) -> int:
    settings = _settings(arguments)
    from tui.app import run

    if feeder is None:
        return run(roots, settings, view=arguments.view)
    return run(roots, settings, view=arguments.view, demo=True, prepare=feeder.prepare, lost=feeder.remove)


def _compute(arguments: argparse.Namespace) -> tuple[View, Any, Result | None, tuple[Problem, ...], int, str]:
    """Read and compute once: view, parameters, result (None without usable input), problems, instant, reason."""
    from engine.live.files.first_scan import FirstScan
    from engine.views import entry

    _look_at_paths(arguments.paths)
    settings = _settings(arguments)
    if arguments.config and settings.unread:
        # The usual file may be odd; one that was asked for must not be passed over for other numbers.
        raise _Usage(f"--config {arguments.config}: {settings.problems[0].reason}")
    wanted = entry(arguments.view)
    if arguments.option in (["help"], ["list"]):
        raise _Usage(_option_help(_view(wanted)), code=FINE)
    # Worker processes begin to read while this one still loads what it needs.
    scan = FirstScan(arguments.paths, settings.live)
    pool = _start_reading(scan, wanted, settings) if wanted.ready else None
    try:
        return _computed(arguments, _view(wanted), settings, scan, pool)
    finally:
        if pool is not None:
            pool.close()


def _start_reading(scan: FirstScan, wanted: Entry, settings: Settings) -> ReadingPool | None:
    """Start worker processes if there is much to read that the cache does not hold."""
    from engine.live.cache.location import has_rows
    from engine.live.pool.reading_pool import WORTH_EARLY, start
    from engine.live.pool.tasks import FileTask

    if scan.size < WORTH_EARLY or has_rows(settings.live, scan.roots, wanted.name):
        return None
    scanner = scan.scanner
    files = [FileTask(p, scanner.roots[scanner.root_of(p)], stat) for p, stat in scan.changes.changed.items()]
    return start(files, [wanted.module], settings.live, worth=WORTH_EARLY, final=True)


def _view(wanted: Entry) -> View:
    try:
        return wanted.load()
    except LookupError as error:
        raise _Usage(str(error)) from error


def _computed(
    arguments: argparse.Namespace, view: View, settings: Settings, scan: FirstScan, pool: ReadingPool | None
) -> tuple[View, Any, Result | None, tuple[Problem, ...], int, str]:
    import time

    from engine import report, units
    from engine.parameters import BadOption, parse
    from engine.problems import fold
    from engine.settings import view_parameters
    from engine.view import NoInput

    parameters, wrong = view_parameters(settings, view.name, view.parameters)
    try:
        pairs = []
        for pair in arguments.option:
            key, equals, value = pair.partition("=")
            if not equals:
                raise BadOption(f"-o {pair}: wanted KEY=VALUE")
            pairs.append((key, value))
        parameters = parse(view.parameters, pairs, parameters)
    except BadOption as error:
        raise _Usage(str(error)) from error
    try:
        at_ms = report.instant(arguments.at) if arguments.at is not None else None
    except (ValueError, OverflowError) as error:
        raise _Usage(f"--at {arguments.at}: {error}") from error
    for problem in (*settings.problems, *wrong):
        _say(f"loadlens: {problem.path}: {problem.reason}")

    now_ms = time.time_ns() // 1_000_000
    instant = now_ms if at_ms is None else at_ms
    from engine.live.session import Session

    if pool is not None and hasattr(view, "load"):
        view.load()  # modules that computing needs, while the workers read
    session = Session(arguments.paths, [view], settings=settings.live, first_scan=scan, pool=pool)
    try:
        try:
            session.scan(final=True)
        except KeyboardInterrupt:
            session.close(0)
            raise
        try:
            result = session.compute(view.name, parameters, at_ms=at_ms, now_ms=now_ms)
        except NoInput as error:
            found = dict.fromkeys((*session.problems, *session.inputs(view.name).problems))
            reason = str(error) if at_ms is None else f"{error} (as of {units.iso(at_ms)})"
            return view, parameters, None, fold(found), instant, reason
        return view, parameters, result, result.problems, instant, ""
    finally:
        session.close()


def _option_help(view: View) -> str:
    from engine.parameters import options

    lines = [f"options of {view.name} (-o KEY=VALUE):"]
    for found in options(view.parameters):
        unit = f" [{found.unit}]" if found.unit else ""
        choices = f" ({'|'.join(found.choices)})" if found.choices else ""
        default = ",".join(map(str, found.default)) if isinstance(found.default, tuple) else found.default
        shown = (
            ""
            if default in (None, "")
            else f" (default {str(default).lower() if isinstance(default, bool) else default})"
        )
        lines.append(f"  {found.key}{unit}{choices}: {found.sentence}{shown}")
    return "\n".join(lines)


def _no_input(arguments: argparse.Namespace, reason: str, problems: tuple[Problem, ...]) -> int:
    from engine import report
    from engine.text import clean
    from engine.views import entry

    _say(f"loadlens: {reason or 'no usable input'} in {clean(', '.join(arguments.paths))}")
    _say(f"loadlens: {arguments.view} reads {entry(arguments.view).reads}")
    if problems:
        _say(report.problems_text(problems))
    return NO_INPUT


def _report(arguments: argparse.Namespace) -> int:
    view, parameters, result, problems, instant, reason = _compute(arguments)
    from engine import export, report  # late: workers read while they are loaded

    if result is None:
        return _no_input(arguments, reason, problems)
    declared = {table.name: table for table in view.tables}
    only = arguments.table
    if only is not None and only not in result.tables:
        why = "needs other options" if only in declared else "does not exist"
        raise _Usage(f"table {only!r} {why}; there are: {', '.join(result.tables)}")
    if arguments.format == "json":
        _write(report.to_json(view, result, parameters, instant, only))
        return FINE
    if arguments.format == "upstream":
        text = view.upstream(result, parameters)
        if text is None:
            raise _Usage(f"what {view.name} re-implements prints nothing for these options")
    elif arguments.format == "text":
        text = report.to_text(view, result, only)
    else:
        name = only or next((table.name for table in view.tables if table.name in result.tables), "")
        if not name:
            raise _Usage(f"{view.name} has no table for these options")
        frame = result.focused(name) if arguments.format == "markdown" else result.tables[name]
        text = export.FORMATS[arguments.format](frame, declared[name])
    _write(text)
    if arguments.format != "text" and problems:
        _say(report.problems_text(problems))
    return FINE


def _check(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    view, parameters, result, problems, _instant, reason = _compute(arguments)
    from engine import export, junit

    if result is None:
        return _no_input(arguments, reason, problems)
    level = arguments.fail_on or view.fail_on
    bad = export.at_least(result.findings, level)
    if arguments.junit is not None:
        own = getattr(view, "junit", None)
        suite = own(result, parameters) if own else junit.suite_of_findings(view.name, result.findings, level)
        try:
            Path(arguments.junit).write_text(junit.to_xml(suite), encoding="utf-8")
        except OSError as error:
            raise _Usage(f"--junit {arguments.junit}: {error.strerror or error}") from error
    try:
        _write("".join(f"{finding.level.upper()} {finding.subject}: {finding.text}\n" for finding in bad))
    except BrokenPipeError:
        return FINDING  # the reader has seen enough, the verdict stands
    if problems:
        _say(f"loadlens: {len(problems)} problems in the input; loadlens report {view.name} lists them")
    return FINDING if bad else FINE


def run() -> NoReturn:
    """The program as a process: ends it without taking down the interpreter, which takes a tenth of a second."""
    import gc

    if getattr(sys, "frozen", False):  # one program file: a worker process starts it again
        from multiprocessing import freeze_support

        freeze_support()
    # Reports are over soon, and what they make are rows, not cycles: going through them takes a while. The dashboard
    # begins to collect when everything is loaded.
    gc.disable()
    _end(main())


if __name__ == "__main__":
    run()
