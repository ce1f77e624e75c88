"""Making text from files harmless: the one gate between bytes someone else wrote and a terminal."""

from __future__ import annotations

import re

MAX_FIELD = 4096
"""Most characters of one field. Longer texts are cut at ingest (a 1 MB job name is an attack)."""

# C0 and C1 controls, DEL, line and paragraph separators, bidirectional controls, byte-order mark, lone surrogates,
# interlinear annotation, tag characters: each can move the cursor, reorder or hide what an operator reads.
_HOSTILE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)


def clean(text: str, limit: int = MAX_FIELD) -> str:
    """Replace each character that could act on a terminal by ``·``, and cut ``text`` to ``limit`` characters.

    Cut texts end in ``…``. Idempotent: ``clean(clean(x)) == clean(x)``.
    """
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isascii() and text.isprintable():
        return text
    return _HOSTILE.sub("·", text)


_NOT_PRINTED = bytes(range(0x20)).replace(b"\n", b"") + b"\x7f"


def _may_be_hostile(text: str) -> bool:
    """Whether ``text`` is worth a search: most of what is printed is ASCII lines."""
    if not text.isascii():
        return True
    data = text.encode("ascii")
    return len(data.translate(None, _NOT_PRINTED)) < len(data)


def harmless(text: str) -> str:
    """Replace what could act on a terminal in a text of several lines by ``·``: the last gate before any output.

    Names are cleaned when they are read; what an operator typed, or a shell put in for him, was not.
    """
    if not _may_be_hostile(text):
        return text
    return "\n".join(_HOSTILE.sub("·", line) for line in text.split("\n"))


def harmless_json(text: str) -> str:
    """Write what could act on a terminal as escapes in a JSON text, whose value stays the same."""
    if not _may_be_hostile(text):
        return text
    return "\n".join(_HOSTILE.sub(lambda found: _escaped(found[0]), line) for line in text.split("\n"))


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def decode(data: bytes) -> str:
    """Decode UTF-8; what is not UTF-8 becomes U+FFFD. Does not clean: parse first, then clean the fields."""
    return data.decode("utf-8", errors="replace")
