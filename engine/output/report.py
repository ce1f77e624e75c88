"""``report``: a result as the JSON contract that scripts rely on, or as text."""

from __future__ import annotations

from typing import Any

import msgspec

from engine import __version__
from engine.core.parameters import Attachment, Parameters, options
from engine.core.reading import Problem, harmless, harmless_json
from engine.core.units import iso
from engine.core.view import Result, TooLarge, View
from engine.output import export


def settings(parameters: Parameters) -> dict[str, Any]:
    """Return the report's ``settings`` object: option key to plain value; an attached file is its name."""
    values: dict[str, Any] = {}
    for declared in options(type(parameters)):
        value = getattr(parameters, declared.field)
        values[declared.key] = value.name if isinstance(value, Attachment) else msgspec.to_builtins(value)
    return values


def envelope(view: View, result: Result, parameters: Parameters, at_ms: int, only: str | None = None) -> dict[str, Any]:
    """Build the whole report as one JSON-ready object. ``at_ms``: the instant it describes; ``only``: the one table to include.

    Raises KeyError if ``only`` is not a table of the result, TooLarge.
    """
    declared = {table.name: table for table in view.tables}
    chosen = _tables(view, result, only)
    result = result.with_tables(chosen)
    return {
        "loadlens": __version__,
        "view": view.name,
        "at": iso(at_ms),
        "settings": settings(parameters),
        "summary": export.finite(dict(result.summary)),
        "notes": list(result.notes),
        "tables": {name: list(export.rows(result.tables[name], declared[name])) for name in chosen},
        "problems": [problem.as_row() for problem in result.problems],
    }


def _tables(view: View, result: Result, only: str | None) -> list[str]:
    """Return the names of the tables of a report in their order. Raises KeyError, TooLarge."""
    if only is not None:
        if only not in result.names:
            raise KeyError(only)
        return [only]
    if not result.later:
        return list(result.tables)
    if view.tables[0].name in result.later and (number := result.summary.get("jobs", 0)) > MOST_JOBS:
        raise TooLarge(f"all tables of {number:,} jobs are too much for one report: choose one (--table)")
    return [table.name for table in view.tables if table.name in result.names]


MOST_JOBS = 100_000  # most jobs for which a report holds every table


def to_json(view: View, result: Result, parameters: Parameters, at_ms: int, only: str | None = None) -> bytes:
    """Format the report as indented UTF-8 JSON."""
    text = msgspec.json.format(msgspec.json.encode(envelope(view, result, parameters, at_ms, only)), indent=1)
    if not text.isascii() or b"\x7f" in text:  # all other control characters of ASCII are escaped
        text = harmless_json(text.decode()).encode()
    return text + b"\n"


def to_text(view: View, result: Result, only: str | None = None, width: int = 0) -> str:
    """Format the report as text (suitable for screen readers): headline, notes, tables, problems.

    ``width``: characters of a line that tables keep to; 0 for any length.
    """
    declared = {table.name: table for table in view.tables}
    chosen = _tables(view, result, only)
    result = result.with_tables(chosen)
    parts = [f"{view.title}\n{'=' * len(view.title)}\n"]
    for line in result.headline:
        basis = f" ({line.basis})" if line.basis else ""
        level = f" [{line.level.upper()}]" if line.level not in ("", "ok") else ""
        parts.append(f"{line.label}: {line.value}{level}{basis}\n")
    parts.extend(f"note: {note}\n" for note in result.notes)
    for name in chosen:
        frame = result.tables[name]
        shown = result.focused(name, frame)
        # A text leaves out columns without a value in any row, such as those of another kind of input.
        if shown.height:
            shown = shown[[column.name for column in shown if column.null_count() < shown.height]]
        meaning = declared[name].meaning
        if shown.height < frame.height:
            meaning += f" ({shown.height:,} of {frame.height:,}: {' '.join(result.focus[name])})"
        parts.append(f"\n{name}: {meaning}\n\n{export.to_text(shown, declared[name], width)}")
    parts.append("\n" + problems_text(result.problems) if result.problems else "\nno problems\n")
    return harmless("".join(parts))


def problems_text(problems: tuple[Problem, ...], most: int | None = None) -> str:
    """Format one line per problem: reason, then place, kind and number of occurrences; ``most`` lines, then how many more."""
    lines = [f"{len(problems)} problem{'s' if len(problems) != 1 else ''}:"]
    for problem in problems[:most]:
        row = problem.as_row()
        place = f"{problem.path}:{problem.line}" if problem.line is not None else problem.path
        times = f", {problem.count} times" if problem.count > 1 else ""
        lines.append(f"  {row['reason']} ({place}: {problem.kind}{times})")
    if most is not None and len(problems) > most:
        lines.append(f"  and {len(problems) - most} more; --format json lists all")
    return "\n".join(lines) + "\n"
