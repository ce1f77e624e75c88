"""The three sets of drawing characters: braille (finest), block (eighths) and ASCII (any terminal, any font)."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec


class Glyphs(msgspec.Struct, frozen=True):
    """A set of drawing characters.

    ``dots``: plots may use braille. ``eighths``: partial cells from empty to full from the left, ``levels``: from below.
    ``shades``: from light to dark, for heat. ``severity``: one mark per level.
    """

    name: str
    dots: bool
    eighths: str
    levels: str
    shades: str
    line: str
    corner: str
    tick: str
    vertical: str
    point: str
    gap: str
    up: str
    down: str
    ellipsis: str
    arrow: str
    separator: str
    severity: Mapping[str, str]

    @property
    def ascii(self) -> bool:
        """Return whether this is the ASCII set."""
        return self.name == "ascii"


BRAILLE = Glyphs(
    "braille", True, " ▏▎▍▌▋▊▉█", " ▁▂▃▄▅▆▇█", " ░▒▓█", "─", "└", "┤", "│", "•", "·", "▲", "▼", "…", "→", "│",
    {"": " ", "ok": "·", "low": "▵", "moderate": "△", "severe": "▲", "critical": "◆"},
)  # fmt: skip
BLOCK = msgspec.structs.replace(BRAILLE, name="block", dots=False)
ASCII = Glyphs(
    "ascii", False, "  --====#", " ._-=+*##", " .:*#", "-", "+", "|", "|", "*", ".", "^", "v", "~", ">", "|",
    {"": " ", "ok": ".", "low": "-", "moderate": "~", "severe": "!", "critical": "#"},
)  # fmt: skip

TO_ASCII = str.maketrans(
    {
        "×": "x", "µ": "u", "μ": "u", "∞": "~", "·": ".", "–": "-", "—": "-", "−": "-", "…": "~", "±": "~", "≥": ">",
        "≤": "<", "→": ">", "←": "<", "≈": "~", "≠": "#", "│": "|", "─": "-", "•": "*", "²": "2", "σ": "s", "Δ": "d",
        "λ": "l", "α": "a", "β": "b", "↑": "^", "↓": "v", "▲": "^", "▼": "v", "█": "#", "◆": "#", "“": '"', "”": '"', "’": "'",
    }
)  # fmt: skip
"""ASCII replacements, one cell each, of the signs in our own texts; other characters from files stay as they are."""

SETS: dict[str, Glyphs] = {"braille": BRAILLE, "block": BLOCK, "ascii": ASCII}


def choose(name: str | None, environ: Mapping[str, str] | None = None, encoding: str = "utf-8") -> Glyphs:
    """Return the set called ``name``; for None, ``auto`` or an unknown name the finest one that can be shown.

    That depends on locale, terminal and the ``encoding`` of what is written to it.
    """
    if name in SETS:
        return SETS[name]
    if encoding.lower().replace("-", "").replace("_", "") != "utf8":
        return ASCII
    env = os.environ if environ is None else environ
    locale = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or ""
    if locale and "utf-8" not in locale.lower() and "utf8" not in locale.lower():
        return ASCII
    return BLOCK if env.get("TERM") == "linux" else BRAILLE  # the console font has blocks but no braille
