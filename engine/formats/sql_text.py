"""Text of SQL statements: the fingerprint that makes a class of them (literals become ``?``), labels, first words."""

from __future__ import annotations

import hashlib
import re

MAX_QUERY = 1 << 16  # characters of a statement that identify its class

# Possessive, and a text without its end reaches to the end of the statement: nothing is looked at twice.
_REST = (
    r"|(?P<name>%s[^\W\d][\w$]*(?:\.[^\W\d][\w$]*)*)"
    r"|(?P<number>\$\d+|[-+]?(?:0x[0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?))"
    r"|(?P<blank>\s+)"
    r"|(?P<other>.)"
)
_TOKEN = re.compile(
    r"(?P<comment>/\*(?!!).*?(?:\*/|\Z)|--[ \t][^\n]*|\#[^\n]*)"
    r"|(?P<text>'(?:[^'\\]++|\\.|'')*+(?:'|\\?\Z)|\"(?:[^\"\\]++|\\.|\"\")*+(?:\"|\\?\Z))" + _REST % "`[^`]*`|",
    re.DOTALL,
)
_POSTGRES_TOKEN = re.compile(
    r"(?P<comment>/\*.*?(?:\*/|\Z)|--[^\n]*)"
    r"|(?P<text>[eE]'(?:[^'\\]++|\\.|'')*+(?:'|\\?\Z)|'(?:[^']++|'')*+(?:'|\Z)"
    r"|\$(?P<tag>(?:[^\W\d]\w*+)?)\$.*?(?:\$(?P=tag)\$|\Z))" + _REST % r'"(?:[^"]++|"")*+(?:"|\Z)|',
    re.DOTALL,
)
_ERASED = {"comment": " ", "blank": " ", "text": "?"}
_LISTS = re.compile(r"\(\?\+\)(?:\s*,\s*\(\?\+\))+")
_SIGNED = re.compile(r"[\w`)?]\s*$")
_VERB = re.compile(r"[a-z]+", re.IGNORECASE)


def fingerprint(query: str, *, postgres: bool = False) -> str:
    """Remove from ``query`` what differs between two runs of the same statement. Idempotent on its own output.

    ``postgres``: text in double quotes is a name, a backslash escapes nothing, and ``#`` begins no comment.
    """
    out: list[str] = []
    for token in (_POSTGRES_TOKEN if postgres else _TOKEN).finditer(query[:MAX_QUERY]):
        kind, text = token.lastgroup, token.group()
        if kind in _ERASED:
            out.append(_ERASED[kind])
        elif kind == "number":
            # a sign after a value is an operator, elsewhere it belongs to the number
            if text[0] in "+-" and _SIGNED.search("".join(out[-3:])):
                out.append(text[0])
            out.append("?")
        elif kind == "name":
            lowered = text if text[0] == '"' else text.lower()
            out.append("?" if lowered in ("null", "true", "false") else lowered)
        else:
            out.append(text)
    flat = re.sub(r" +", " ", "".join(out)).strip().rstrip(";").rstrip()
    flat = re.sub(r"\bis (not )?\?", lambda m: f"is {m.group(1) or ''}null", flat)
    flat = re.sub(r"\b(in|values|value)\s*(?=\()", r"\1 ", flat)
    flat = re.sub(r"(?<=[ ,])\(\s*\?(?:\s*,\s*\?)*\s*\)", "(?+)", flat)
    flat = _LISTS.sub("(?+)", flat)
    return re.sub(r"\blimit \?(?:\s*,\s*\?| offset \?)?", "limit ?", flat)


_LITERAL = r"(?:(?!\2).)*+(?:\2|\Z)|(?<![\w$.])(?<![eE][-+])\d++(?:\.\d++)?+(?![\w.])"
_LITERALS = re.compile(r"(`[^`]*+`)|(['\"])" + _LITERAL, re.DOTALL)
_POSTGRES_LITERALS = re.compile(r'("[^"]*+")|(\')' + _LITERAL, re.DOTALL)
_NOT_PLAIN = re.compile(r"[\\#\x01]|--|/\*|\$\w*+\$")


def shape(query: str, *, postgres: bool = False) -> str | None:
    """Blank the plain literals of ``query``. Statements of one shape have one fingerprint, but that takes ten times as long.

    None where comments or escapes need the full parser.
    """
    literals = _POSTGRES_LITERALS if postgres else _LITERALS
    return None if _NOT_PLAIN.search(query) else literals.sub("\\1\\2\x01", query)


def query_hash(text: str) -> str:
    """Return 16 hex digits that identify a fingerprint."""
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()[:16]


_OPENS = re.compile(r"([(.]) +")
_CLOSES = re.compile(r"(?<! ) +([),.;])")
LABEL = 120  # most characters of a label


def readable(query: str) -> str:
    """Write a statement on one line with single blanks, also where ``engine.core.reading.clean`` replaced line ends and tabs."""
    return " ".join(query.replace("·", " ").split())


def label(query: str) -> str:
    """Label a statement: one line without leading comments, the backticks and blanks of digests; at most ``LABEL``
    characters. Empty where there is no text."""
    text = _after_comments(readable(query[: 8 * LABEL].replace("`", "")), " \t\r\n")
    text = _CLOSES.sub(r"\1", _OPENS.sub(r"\1", text)).rstrip(";")
    return text if len(text) <= LABEL else text[: LABEL - 1] + "…"


def verb(query: str) -> str:
    """Return the statement's first word in capitals (``SELECT``), ``?`` for an empty statement."""
    word = _VERB.match(_after_comments(query))
    return word.group().upper()[:16] if word else "?"


def _after_comments(query: str, passed: str = " (\t\r\n") -> str:
    """Return a statement from its first word on: without leading comments, and what is ``passed`` (blanks and brackets)."""
    text = query.lstrip(passed)
    while text.startswith("/*") and "*/" in text:
        text = text.split("*/", 1)[1].lstrip(passed)
    return text
