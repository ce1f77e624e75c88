"""The arguments of all commands, and the settings that they change."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from engine import __version__
from tui.cli.output import UsageError, message, write

if TYPE_CHECKING:
    from engine.own_files.settings import Settings

COMMANDS = ("demo", "replay", "report", "check", "fleet", "feeds", "paths")
"""Words that begin a command; any other first word is a path for the dashboard."""

LEVELS = ("low", "moderate", "severe", "critical")  # levels that ``--fail-on`` takes

EPILOG = """commands:
  loadlens [PATH ...]            the dashboard on files and folders, live (this folder if none is named)
  loadlens demo                  the dashboard on sample data that moves
  loadlens replay FILE           the dashboard on a session that --record FILE has recorded
  loadlens report VIEW PATH ...  one view computed once: json, csv, markdown, text, prometheus, upstream
  loadlens check VIEW PATH ...   exit 1 with one line per finding, for cron and CI
  loadlens fleet VIEW PATH ...   job heuristics of years of histories, on Apache Spark
  loadlens feeds VIEW            the commands that get a view's data, from Prometheus or without it
  loadlens paths                 where settings, state, log and cache lie

exit codes: 0 fine, 1 finding, 2 usage, 3 no usable input, 130 interrupted"""


class Parser(argparse.ArgumentParser):
    """Writes help as any other output: wholly, or the program fails with a message."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with the reason alone: the usage in front of it would push it off the screen."""
        raise UsageError(f"{message}; {self.prog} --help tells more")

    def _print_message(self, text: str, file: Any = None) -> None:
        if file is sys.stdout:
            write(text)
        else:
            message(text)


def _number(text: str) -> float:
    """Return a number. Raises ArgumentTypeError in an operator's words."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


WITH_VALUE = ("--theme", "--glyphs", "--view", "--config", "--speed", "-o", "--option", "--at", "--table", "--format",
              "--fail-on", "--junit", "--output", "--prometheus", "--record")  # fmt: skip
"""Options whose next word is their value."""


def command_of(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the command, wherever it stands among the options, and the other words. Raises UsageError for a misspelt one.

    Without a command (an empty text) the words are options and paths of the dashboard. A folder that is called like a
    command is named by its path (``./demo``).
    """
    value = False
    for index, word in enumerate(words):
        if value or (word.startswith("-") and word != "--"):
            value = not value and word in WITH_VALUE
            continue
        if word in COMMANDS:
            return word, [*words[:index], *words[index + 1 :]]
        _refuse_misspelt(word)
        break
    return "", list(words)


def _refuse_misspelt(word: str) -> None:
    """Raise UsageError for the first word without option if it is no path, but nearly a command, or the name of a view."""
    import difflib

    if os.path.lexists(word) or "/" in word:
        return
    if word in _view_names():
        raise UsageError(f"{word!r} is a view; loadlens report {word} PATH, or loadlens --view {word} PATH")
    near = difflib.get_close_matches(word, COMMANDS, 1)
    if near:
        raise UsageError(f"no command, file or folder {word!r}; did you mean loadlens {near[0]}?")


def parser(command: str) -> Parser:
    """Return the parser of what follows ``command`` (one of ``COMMANDS``, or empty for the dashboard)."""
    if command == "paths":
        return Parser("loadlens paths", description="Print where settings, state, log and cache lie.")
    makers = {"report": _one_shot_parser, "check": _one_shot_parser, "fleet": _fleet_parser, "feeds": _feeds_parser}
    return makers.get(command, _dashboard_parser)(command)


def _view_names() -> list[str]:
    from engine.views import VIEWS

    return [entry.name for entry in VIEWS]


def _view_name(word: str) -> str:
    """Return ``word`` if it is the name of a view. Raises argparse.ArgumentTypeError with the nearest name."""
    import difflib

    names = _view_names()
    if word in names:
        return word
    near = difflib.get_close_matches(word, names, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
    raise argparse.ArgumentTypeError(f"{word!r} is no view; {hint}")


def _one_shot_parser(command: str) -> Parser:
    about = {
        "report": "Compute one view once and print it. Nothing but data on standard output.",
        "check": "Compute one view once; exit 1 with a line per finding at or above a level.",
    }[command]
    made = Parser(f"loadlens {command}", description=about, allow_abbrev=False)
    made.set_defaults(command=command)
    made.add_argument("view", type=_view_name, metavar="VIEW", help=", ".join(_view_names()))
    made.add_argument("paths", nargs="*", metavar="PATH", help="files or folders, any number, read recursively")
    _add_options(made)
    made.add_argument("--at", metavar="TIME", help="look at the data as they were then (ISO 8601 or epoch)")
    if command == "report":
        made.add_argument("--table", metavar="NAME", help="only this table")
        formats = ("json", "ndjson", "csv", "markdown", "text", "prometheus", "upstream")
        made.add_argument("--format", default="json", choices=formats, help="of what is printed (default json)")
        made.add_argument("--output", metavar="FILE", help="write it to this file instead, all at once or not at all")
    else:
        told = f"exit 1 from this level on: {', '.join(LEVELS)}"
        made.add_argument("--fail-on", metavar="LEVEL", choices=LEVELS, help=told)
        made.add_argument("--junit", metavar="FILE", help="also write the findings as JUnit XML")
    _add_common(made)
    return made


def _feeds_parser(command: str) -> Parser:
    made = Parser(
        f"loadlens {command}",
        description="Print the commands that get a view's data: from Prometheus or VictoriaMetrics, or without them. It opens "
        "no connection itself.",
        allow_abbrev=False,
    )
    made.add_argument("view", type=_view_name, metavar="VIEW", help="the view to feed")
    made.add_argument("--prometheus", metavar="URL", help="address of Prometheus, Thanos or Mimir (with its prefix)")
    made.add_argument(
        "--output", metavar="FOLDER", default="/var/metrics", help="where the data are put (/var/metrics)"
    )
    return made


def _fleet_parser(command: str) -> Parser:
    made = Parser(
        f"loadlens {command}",
        description="Compute the job heuristics of many histories on Apache Spark and write the tables of a report as "
        "Parquet, row for row the same.",
        allow_abbrev=False,
    )
    made.add_argument(
        "view", choices=("job-heuristics",), metavar="VIEW", help="job-heuristics; no other view needs it"
    )
    made.add_argument(
        "paths", nargs="+", metavar="PATH", help="folders or URIs that Spark can list (hdfs:, s3a:, file:)"
    )
    made.add_argument("--out", required=True, metavar="URI", help="where the tables go: URI/table=NAME/*.parquet")
    made.add_argument("--day", metavar="YYYY-MM-DD", help="write to URI/day=YYYY-MM-DD, in place of what is there")
    made.add_argument("--master", metavar="URL", help="master of a new session (yarn, k8s://..., local[4])")
    made.add_argument("--remote", metavar="URL", help="Spark Connect server (sc://HOST)")
    made.add_argument(
        "--partitions", type=int, default=0, metavar="N", help="tasks (default: one per 64 MB, two a core)"
    )
    made.add_argument("--pack", metavar="URI", help="also keep the files packed as Parquet there, for a later --packed")
    made.add_argument("--packed", action="store_true", help="PATHs hold what --pack has written")
    _add_options(made)
    made.add_argument(
        "--fail-on", metavar="LEVEL", choices=LEVELS, help="exit 1 if there is a finding from this level on"
    )
    return made


def _add_options(made: Parser) -> None:
    made.add_argument(
        "-o",
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a choice of the view; loadlens report VIEW -o help lists them",
    )


def _dashboard_parser(command: str) -> Parser:
    """Return the parser of the dashboard: on the operator's files, on the sample data (``demo``), on a recording (``replay``)."""
    names = _view_names()
    about = {
        "": "Where does the load come from, and what happens if a node dies?",
        "demo": "Show the dashboard on sample data that moves.",
        "replay": "Show the dashboard on a session that --record has recorded.",
    }[command]
    made = Parser(
        f"loadlens {command}".strip(),
        description=about,
        epilog=None if command else EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    if command == "replay":
        made.add_argument("file", metavar="FILE", help="a recording, made by loadlens PATH --record FILE")
    elif not command:
        made.add_argument("--version", "-V", action="version", version=f"loadlens {__version__}")
        made.add_argument("paths", nargs="*", metavar="PATH", help="files or folders to watch (default: this folder)")
    if command:
        what = "recording" if command == "replay" else "sample data"
        made.add_argument("--speed", type=_number, default=1.0, metavar="X", help=f"play the {what} X times as fast")
    if command != "replay":
        made.add_argument(
            "--record", metavar="FILE", help="record what the files hold and how they change, for a replay"
        )
    made.add_argument("--view", choices=names, metavar="VIEW", help=f"show this view first: {', '.join(names)}")
    made.add_argument("--theme", metavar="NAME", help="dark, light, ansi-dark, ansi-light or a Textual theme")
    made.add_argument("--glyphs", choices=("auto", "braille", "block", "ascii"), help="characters for plots")
    made.add_argument("--poll", action="store_true", help="never rely on file events, look every few seconds")
    _add_common(made)
    return made


def _add_common(made: Parser) -> None:
    """Add the arguments of every command that reads files."""
    made.add_argument("--follow-symlinks", action="store_true", help="follow symbolic links out of the folders, too")
    made.add_argument("--no-cache", action="store_true", help="neither read nor write the cache of parsed files")
    made.add_argument("--config", metavar="FILE", help="settings file instead of the usual one")


def load_settings(arguments: argparse.Namespace) -> Settings:
    """Load the settings file, overridden by the arguments that set the same."""
    import msgspec

    from engine.live.options import LiveSettings
    from tui.settings import UiSettings, load

    loaded = load(Path(arguments.config) if arguments.config else None)
    ui = {k: v for k in ("theme", "glyphs") if (v := getattr(arguments, k, None)) is not None}
    asked = (
        ("poll", getattr(arguments, "poll", False), True), ("cache", arguments.no_cache, False),
        ("follow_symlinks", arguments.follow_symlinks, True),
    )  # fmt: skip
    live = {name: value for name, given, value in asked if given}
    return loaded.put(
        msgspec.structs.replace(loaded.of(UiSettings), **ui), msgspec.structs.replace(loaded.of(LiveSettings), **live)
    )


def check_paths(paths: Sequence[str]) -> None:
    """Refuse paths that can only be a mistake. Raises UsageError."""
    if "" in paths:
        raise UsageError("an empty PATH (a variable that is not set?); write . for this folder")
    try:
        Path.cwd()
    except OSError as error:
        if not all(os.path.expanduser(path).startswith("/") for path in paths):  # noqa: PTH111  (Path's raises)
            raise UsageError(
                f"the current folder cannot be used: {error.strerror}; name folders by full paths"
            ) from error
