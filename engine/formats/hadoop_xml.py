"""Hadoop's configuration XML: properties as they stand, and the replacing of ``${variables}``."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

MAX_BYTES = 64 * 2**20
"""Largest XML file that is parsed. Real job configurations have 20 to 300 kB."""
MAX_PROPERTIES = 200_000
"""Most properties taken of one file."""
MAX_SUBSTITUTIONS = 20
"""How often Hadoop's ``Configuration`` replaces a variable in one value before it gives up."""
MAX_VALUE = 2**20
"""Longest value a substitution may grow to, in characters."""


class BadXml(ValueError):
    """Not XML, not allowed XML (entities, document types), too large, or not the expected root."""


def root_of(data: bytes, name: str) -> Element:
    """The root element of ``data``, which must be called ``name``. Raises BadXml."""
    if len(data) > MAX_BYTES:
        raise BadXml(f"{len(data)} bytes are more than the {MAX_BYTES} that are read")
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
    """The properties of a ``<configuration>``: name, value, and the last ``<source>``. A name given twice counts with
    its last value, as in Hadoop (unless the earlier was ``<final>``). Raises BadXml."""
    found: dict[str, tuple[str, str | None]] = {}
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
            found[name] = (value, source)
            if len(found) > MAX_PROPERTIES:
                raise BadXml(f"more than {MAX_PROPERTIES} properties")
        if fixed and name:
            final.add(name)
    return [(name, value, source) for name, (value, source) in found.items()]


_VARIABLE = re.compile(r"\$\{([^}$\s]+)\}")


def resolve(value: str, lookup: Callable[[str], str | None]) -> str:
    """``value`` with its ``${variables}`` replaced as Hadoop's ``Configuration`` does: the first one each time, at most
    20 times; an unknown one stops it. A value that names itself or grows beyond bounds is returned as it was."""
    result = value
    for _ in range(MAX_SUBSTITUTIONS):
        match = _VARIABLE.search(result)
        if match is None:
            return result
        found = lookup(match.group(1))
        if found is None:
            return result
        result = result[: match.start()] + found + result[match.end() :]
        if len(result) > MAX_VALUE:
            return value
    return value
