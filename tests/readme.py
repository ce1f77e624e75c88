"""Keeps README's generated tables true: ``python -m tests.readme`` rewrites them, a contract test compares them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def keys() -> str:
    """Every action, from the registry the dashboard binds."""
    from tui.actions import key_text, registry

    lines = ["| where | keys | action | what it does |", "|---|---|---|---|"]
    for action in registry():
        shown = " ".join(f"`{key_text(key)}`" for key in action.keys).replace("|", "\\|")
        lines.append(f"| {action.scope} | {shown} | `{action.id}` | {action.help} |")
    return "\n".join(lines)


def settings() -> str:
    """Every settings key, from the types that validate them."""
    from engine.settings import SECTIONS, documentation
    from engine.views import VIEWS

    sections = dict(SECTIONS)
    sections.update({entry.name: entry.load().parameters for entry in VIEWS if entry.ready})
    return documentation(sections)


SECTIONS = {"keys": keys, "settings": settings}


def updated(text: str) -> str:
    """``text`` of README with its generated tables as the code has them now."""
    for name, make in SECTIONS.items():
        pattern = re.compile(rf"(?<=<!-- {name}: generated -->\n).*?(?=<!-- /{name} -->)", re.S)
        body = f"{make()}\n".replace("\\", "\\\\")  # subn reads backslashes in the replacement
        text, found = pattern.subn(body, text)
        if found != 1:
            raise SystemExit(f"README has no section marked {name}")
    return text


if __name__ == "__main__":
    README.write_text(updated(README.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write("README updated\n")
