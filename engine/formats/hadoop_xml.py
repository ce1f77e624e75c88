"""Hadoop's configuration XML: properties as written.

Source: ``org.apache.hadoop.conf.Configuration``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

MAX_BYTES = 64 * 2**20  # bytes of the largest XML file that is parsed. Real job configurations have 20 to 300 kB.
MAX_TAGS = 400_000
"""Most tags of an XML file that is parsed: each element takes about 250 bytes of memory, and a property up to ten tags."""
_JAVA_BLANKS = "".join(map(chr, range(33)))  # characters that Java's ``String.trim`` removes
_LONG_NAMESPACE = re.compile(rb"xmlns[^=<]{0,100}=\s*[\"'][^\"'<]{256}")
"""Longest namespace: it is repeated in the name of each element below it."""


class BadXml(ValueError):
    """Raised for bytes that are no XML, XML with entities or document types, too large, or with another root."""


def root_of(data: bytes, name: str) -> Element:
    """Parse ``data``, whose root element must be called ``name``. Returns that element. Raises BadXml."""
    if len(data) > MAX_BYTES:
        raise BadXml(f"{len(data)} bytes are more than the {MAX_BYTES} that are read")
    if data.count(b"<") > MAX_TAGS:
        raise BadXml(f"more than {MAX_TAGS} tags")
    if b"\0" in data:
        raise BadXml("it is not UTF-8, as Hadoop writes it")
    if _LONG_NAMESPACE.search(data):
        raise BadXml("a namespace of more than 256 characters")
    try:
        root: Element = fromstring(data, forbid_dtd=True)
    except DefusedXmlException as error:
        raise BadXml(f"entities and document types are not read ({type(error).__name__})") from error
    except (ParseError, ValueError, LookupError, RecursionError) as error:
        raise BadXml(f"no well-formed XML: {error}") from error
    if tag_of(root) != name:
        raise BadXml(f"the root element is {root.tag!r}, not {name!r}")
    return root


def tag_of(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def properties(data: bytes, renamed: Mapping[str, str] | None = None) -> list[tuple[str, str, str | None]]:
    """Read the properties of a ``<configuration>`` as Hadoop 2 does: name, value, and the last ``<source>``.

    Of a repeated name the last value counts, unless an earlier one was ``<final>``; an empty value sets nothing. Blanks
    around a name fall away, those around a value stay. ``renamed``: old name → new name; an old name counts as the new one
    at its place in the file. Raises BadXml.
    """
    values: dict[str, tuple[str, str | None]] = {}
    final: set[str] = set()
    renamed = renamed or {}
    pending = [iter(root_of(data, "configuration"))]
    while pending:
        element = next(pending[-1], None)
        if element is None:
            pending.pop()
        elif tag_of(element) == "configuration":
            pending.append(iter(element))
        else:
            texts = {tag_of(child): child.text for child in element if child.text}
            if "name" not in texts:
                continue
            name = texts["name"].strip(_JAVA_BLANKS)
            name = renamed.get(name, name)
            if "value" in texts and name not in final:
                values[name] = (texts["value"], texts.get("source"))
            if texts.get("final") == "true":
                final.add(name)
    return [(name, value, source) for name, (value, source) in values.items()]
