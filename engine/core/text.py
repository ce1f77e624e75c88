"""Make text from files harmless before it reaches a terminal."""

from __future__ import annotations

import re

MAX_FIELD = 4096
"""Maximum characters of a field; longer texts are cut when they are read."""

# C0 and C1 controls, DEL, line and paragraph separators, bidirectional controls, byte-order mark, lone surrogates,
# interlinear annotation, tag characters: each can move the cursor, reorder or hide what an operator reads.
_HOSTILE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)


def clean(text: str, limit: int = MAX_FIELD) -> str:
    """Replace characters that a terminal would act on by ``·``, and cut ``text`` to ``limit`` characters.

    Cut texts end in ``…``. Idempotent: ``clean(clean(x)) == clean(x)``.
    """
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return text if text.isascii() and text.isprintable() else _HOSTILE.sub("·", text)


_NOT_PRINTED = bytes(range(0x20)).replace(b"\n", b"") + b"\x7f"


def _may_be_hostile(text: str) -> bool:
    """Quick check that spares most texts the search: they are plain ASCII lines."""
    if not text.isascii():
        return True
    data = text.encode("ascii")
    return len(data.translate(None, _NOT_PRINTED)) < len(data)


def harmless(text: str) -> str:
    """Replace characters that a terminal would act on in a text of several lines by ``·``: the last gate before output.

    Names are cleaned when they are read; text from the command line is not.
    """
    if not _may_be_hostile(text):
        return text
    return "\n".join(_HOSTILE.sub("·", line) for line in text.split("\n"))


def harmless_json(text: str) -> str:
    """Escape characters that a terminal would act on in a JSON text; its value stays the same."""
    if not _may_be_hostile(text):
        return text
    return "\n".join(_HOSTILE.sub(lambda found: _escaped(found[0]), line) for line in text.split("\n"))


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def decode(data: bytes) -> str:
    """Decode UTF-8, with U+FFFD for bytes that are not. Does not clean: parse first, then clean the fields."""
    return data.decode("utf-8", errors="replace")
