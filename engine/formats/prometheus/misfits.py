"""What was saved in place of series: pages, refusals, and forms in which they are handed out but not read, each with its cure."""

from __future__ import annotations

import re

import msgspec

from engine.core.text import clean
from engine.formats import json_text
from engine.formats.prometheus import tables

_ENDINGS = (".json", ".jsonl", ".prom", ".om")
"""Endings of names under which answers are saved, so that a page of HTML below them is a mistake."""
_HTML = re.compile(rb"^\s*<(?:!doctype\s+html|html|head|script|title|body|h1|a\s+href)", re.IGNORECASE)
_WORDS = re.compile(rb"^[A-Za-z0-9][^\n{}\[\]\"<>=,]*[A-Za-z][^\n{}\[\]\"<>=]*\s*$")
"""A line of words, as servers refuse: ``404 page not found``, ``no org id``."""
_SHORT = 2_000
"""Bytes within which a refusal ends."""
_FEW_KEYS = 5
"""Keys of a refusal as JSON, at most: a message, a code, an id of the request."""
_PROMTOOL = re.compile(rb"^\s*[a-zA-Z_:][a-zA-Z0-9_:]*\{[^\n]*\} =>(?: |\s*\n)")
_GRAFANA = re.compile(rb'^(?:\xef\xbb\xbf)?"?Time"?,"?[^\n]*\{[^\n]*=')


def instead(name: str, head: bytes) -> tuple[str, str] | None:
    """Return kind and reason of the problem with a file called ``name`` that begins with ``head`` and was meant to hold series;
    None if it is something else."""
    if _is_page(name, head):
        return "html-page", (
            "a page of HTML in place of an answer: a proxy's login page, or a wrong address (curl -f shows errors)"
        )
    if words := _refusal(name, head):
        return "error-answer", (
            f"the server refused to answer: {words} (correct the address or log in; curl -f leaves no file of it)"
        )
    if name.endswith(".csv") and tables.lacks_header(head):
        return "no-header", tables.NO_HEADER
    if _PROMTOOL.match(head):
        return "other-form", "the text that promtool query prints for people: ask with -o json, or by curl"
    if name.endswith(".csv") and _GRAFANA.match(head):
        return "other-form", (
            "a table of Grafana has no names of series: ask Prometheus itself (loadlens feeds VIEW --prometheus URL)"
        )
    if name == "meta.json" and b'"ulid"' in head and b'"minTime"' in head:
        return "other-form", (
            "a block of Prometheus' own files is not read: promtool tsdb dump FOLDER > series.txt writes its samples"
        )
    return None


def _is_page(name: str, head: bytes) -> bool:
    """Whether a page of HTML was saved in place of an answer, as behind a proxy that wants a login."""
    return name.endswith(_ENDINGS) and _HTML.match(head) is not None and b"ring" not in head.lower()


def _refusal(name: str, head: bytes) -> str:
    """Return the words with which a server, or a proxy before it, refused to answer, as they were saved; "" if it did not."""
    if not name.endswith(_ENDINGS[:2]) or len(head) > _SHORT:
        return ""
    if _WORDS.match(head) and head.strip() not in (b"true", b"false", b"null"):
        return clean(head.decode("utf-8", "replace").strip(), 200)
    try:
        found = msgspec.json.decode(head, type=dict[str, str | int | float | bool | None])
    except json_text.ERRORS:
        return ""
    said = next((found[key] for key in ("error", "message") if isinstance(found.get(key), str)), "")
    return clean(str(said), 200) if len(found) <= _FEW_KEYS else ""
