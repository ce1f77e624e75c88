"""Write ``docs/reference`` and the end of each guide: ``uv run python docs/make_reference.py``, from the root of the repository.

A contract test compares the pages with the code, so that they cannot go stale.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.core.parameters import Parameters

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

NOTE = "<!-- Generated: uv run python docs/make_reference.py -->"


def keys() -> Iterator[str]:
    """Yield the page of all actions, from the registry that the dashboard binds."""
    from engine.views import VIEWS
    from tui.actions import key_text, registry, view_actions

    yield "# Keys"
    yield '\nEvery key can be remapped in the settings file under `[keys]`, for example `"table.reverse" = "F9"`.\n'
    views = [entry for entry in VIEWS if view_actions(entry.name)]
    yield "One table for all views; the keys of the shared actions follow. `:` is the palette, where actions without a key are.\n"
    yield "| key | " + " | ".join(entry.title for entry in views) + " |"
    yield "|---" * (len(views) + 1) + "|"
    own = {entry.name: {key: a.title for a in view_actions(entry.name) for key in a.keys} for entry in views}
    for key in sorted({key for titles in own.values() for key in titles}, key=lambda key: (len(key), key.lower(), key)):
        yield f"| `{key_text(key)}` | " + " | ".join(own[entry.name].get(key, "") for entry in views) + " |"
    yield "\n| where | keys | action | what it does |\n|---|---|---|---|"
    for action in registry():
        shown = " ".join(f"`{key_text(key)}`" for key in action.keys).replace("|", "\\|") or "`:`"
        yield f"| {action.scope} | {shown} | `{action.id}` | {action.help} |"


def documentation(sections: Mapping[str, type[Parameters]]) -> str:
    """Format a Markdown table of every key of ``sections``: section, key, default, unit, meaning."""
    from engine.core.parameters import options

    lines = ["| section | key | default | unit | meaning |", "|---|---|---|---|---|"]
    for name, kind in sections.items():
        for declared in options(kind):
            default = declared.default
            if default is None:
                shown = "not set"
            elif isinstance(default, bool):
                shown = f"`{str(default).lower()}`"
            elif isinstance(default, tuple):
                shown = "`" + ", ".join(str(part) for part in default) + "`" if default else "empty"
            else:
                shown = f"`{default}`" if default != "" else "empty"
            choice = f" ({', '.join(declared.choices)})" if declared.choices else ""
            cells = (name, f"`{declared.key}`", shown, declared.unit, f"{declared.sentence}{choice}")
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def settings() -> Iterator[str]:
    """Yield the page of all settings and options, from the types that validate them."""
    from engine.views import VIEWS
    from tui.settings import SECTIONS

    yield "# Settings and options"
    yield (
        "\nThe settings file (`loadlens paths` names it) is TOML: a section, then `key = value`. The keys of a view's section"
        "\nare also its options on the command line: `loadlens report VIEW PATH -o key=value`.\n"
    )
    sections = dict(SECTIONS)
    sections.update({entry.name: entry.load().parameters for entry in VIEWS})
    yield documentation(sections)


def tables() -> Iterator[str]:
    """Yield the page of all result tables with their columns."""
    from engine.views import VIEWS

    yield "# Tables and columns"
    yield (
        "\nWhat `loadlens report VIEW PATH --table NAME` prints, and what the tabs show. NaN and infinities are null in JSON,"
        "\n64-bit ids are strings; the order of rows is defined.\n"
    )
    for entry in VIEWS:
        yield f"## {entry.title} (`{entry.name}`)\n"
        if (HERE / "models" / f"{entry.name}.md").exists():
            yield f"What the system has, and its rules: [{entry.name}](../models/{entry.name}.md)."
        yield ""
        for table in entry.load().tables:
            yield f"### `{table.name}`\n\n{_cell(table.meaning)}\n"
            yield "| column | unit | meaning |\n|---|---|---|"
            yield from (f"| `{c.name}` | {_cell(c.unit)} | {_cell(c.meaning)} |" for c in table.columns)
            yield ""


def files() -> Iterator[str]:
    """Yield the page of all file formats, from the kinds that recognise them."""
    from engine.views import VIEWS

    yield "# Files that are read"
    yield (
        "\nFiles are recognised by their content and name, wherever they lie below the watched folders, plain or packed with"
        "\ngzip or Zstandard. A *log* grows by whole records and only what is new is read; a *document* is read whole.\n"
    )
    yield "| view | kind | format | read as |\n|---|---|---|---|"
    for entry in VIEWS:
        for kind in entry.load().kinds:
            how = "log" if kind.append else "document"
            yield f"| {entry.name} | `{kind.id}` | {_cell(kind.title)} | {how} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


PAGES = {"keys": keys, "settings": settings, "tables": tables, "files": files}


def guides() -> Iterator[tuple[Path, str]]:
    """Yield the guide of each view, with what ``loadlens feeds`` prints below the mark at its end."""
    from engine.views import VIEWS
    from tui.cli.feeds import lines

    for path in (HERE / "views" / f"{entry.name}.md" for entry in VIEWS):
        if path.exists():
            above, mark, _ = path.read_text(encoding="utf-8").partition(NOTE)
            yield path, "\n".join((above + mark, "```sh", *lines(path.stem, None, "/var/metrics"), "```", ""))


def pages() -> dict[Path, str]:
    """Return the text of every generated page by its path."""
    reference = {
        HERE / "reference" / f"{name}.md": "\n".join((NOTE, "", *make())).rstrip("\n") + "\n"
        for name, make in PAGES.items()
    }
    return reference | dict(guides())


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
