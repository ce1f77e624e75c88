"""Hadoop's configuration XML: properties as written.

Source: ``org.apache.hadoop.conf.Configuration``.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

MAX_BYTES = 16 * 2**20
"""Bytes of the largest XML file that is parsed. Real job configurations have 20 to 300 kB, with plans inside up to some MB."""
MAX_TAGS = 500_000
"""Most tags of a file: each element takes some hundred bytes of memory. A job's 3,000 properties are 25,000 tags."""
_LONG_NAMESPACE = re.compile(rb"xmlns[^=<]{0,100}=\s*[\"'][^\"'<]{256}")
"""A namespace is repeated in the name of each element below it."""


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
    if root.tag != name:
        raise BadXml(f"the root element is {root.tag!r}, not {name!r}")
    return root


def properties(data: bytes) -> list[tuple[str, str, str | None]]:
    """Read the properties of a ``<configuration>``: name, value, and the last ``<source>``.

    Of a repeated name the last value counts, as in Hadoop (unless an earlier one was ``<final>``). Raises BadXml.
    """
    values: dict[str, tuple[str, str | None]] = {}
    final: set[str] = set()
    for element in root_of(data, "configuration").iter("property"):
        name = value = source = None
        fixed = False
        for child in element:
            text = child.text or ""
            if child.tag == "name":
                name = text.strip()
            elif child.tag == "value":
                value = text
            elif child.tag == "source":
                source = text
            elif child.tag == "final":
                fixed = text.strip() == "true"
        if name and value is not None and name not in final:
            values[name] = (value, source)
        if fixed and name:
            final.add(name)
    return [(name, value, source) for name, (value, source) in values.items()]
