"""The command line. It imports nothing heavy: Textual only for a screen, Polars only for a computation."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

from tui.cli.output import FINE, INTERRUPTED, UsageError, message, write

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; return its exit code. A broken pipe (``| head``) ends quietly."""
    # Polars returns freed memory at once, so that the memory shown as used is used.
    os.environ.setdefault("_RJEM_MALLOC_CONF", "muzzy_decay_ms:0")
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            if words in (["--version"], ["-V"]):
                from tui.cli.build import version

                write(f"{version()}\n")
                return FINE
            return _dispatch(words)
        except UsageError as error:
            if error.code != FINE:
                raise
            write(f"{error}\n")
            return FINE
    except KeyboardInterrupt:
        return INTERRUPTED
    except UsageError as error:
        message(f"loadlens: {error}")
        return error.code
    except BrokenPipeError:  # the reader has seen enough
        return FINE


def _dispatch(words: list[str]) -> int:
    """Run the command that ``words`` begin with; return the exit code."""
    from tui.cli.arguments import command_of, parser

    command, others = command_of(words)
    if command in ("report", "check") and {"-h", "--help"}.intersection(others):
        from engine.views import VIEWS

        write(parser(command).format_help())
        named = next((entry for entry in VIEWS if entry.name in others), None)
        if named is not None:
            from tui.cli.compute import option_help

            write(f"\n{named.name} reads {named.reads}\n\n{option_help(named.load())}\n")
        return FINE
    arguments = parser(command).parse_intermixed_args(others)
    if command == "paths":
        from engine.own_files.settings import folders

        for name, path in folders().items():
            there = os.path.exists(path)  # noqa: PTH110  (unlike Path's it never raises, below a closed folder for example)
            write(f"{name:7} {path}{'' if there else '  (not there yet)'}\n")
        return FINE
    if command in ("report", "check"):
        from engine.own_files.settings import folders
        from tui.cli import report
        from tui.process import logs

        with logs.to_file(folders()["log"]):  # a reader's mistake is a problem in the report, its traceback is here
            return report.report_view(arguments) if command == "report" else report.check_view(arguments)
    if command == "feeds":
        from tui.cli import feeds

        return feeds.print_feeds(arguments)
    if command == "fleet":
        from tui.cli import fleet

        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # the run on Spark is cancelled
        return fleet.run_fleet(arguments)
    from tui.cli import dashboard

    exit_now({"demo": dashboard.show_demo, "replay": dashboard.show_replay}.get(command, dashboard.show)(arguments))


def exit_now(code: int) -> NoReturn:
    """End the process without finalising the interpreter.

    Everything is saved and the terminal restored, but threads may still be importing or computing: finalising under native
    code takes time and can crash.
    """
    import logging

    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
    os._exit(code)


def run() -> NoReturn:
    """Run the program as a process."""
    import gc

    if getattr(sys, "frozen", False):  # one program file: a worker process starts it again
        from multiprocessing import freeze_support

        freeze_support()
    # Reports are over soon, and what they make are rows, not cycles: going through them takes a while. The dashboard
    # begins to collect when everything is loaded.
    gc.disable()
    exit_now(main())


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    run()
