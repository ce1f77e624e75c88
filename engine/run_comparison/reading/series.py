"""The identity of a measured series: one packed text per series, so that millions of values carry one column."""

from __future__ import annotations

from typing import NamedTuple

from engine.text import clean

SEPARATOR = "\x1f"
"""Unit separator: ``clean`` lets no control character of a file through, so no field can hold one."""

NOT_AN_INTEGER = -(2**63)
"""Count of an item whose ``Count`` label is not an integer: upstream drops such items."""


class Series(NamedTuple):
    """What was measured: ``kind`` of report, ``report`` (its name without the time), the labels, the ``metric`` (all
    further labels), the ``bucket`` (percentile or statistic) and the ``unit`` as written."""

    kind: str
    report: str
    verb: str = ""
    resource: str = ""
    subresource: str = ""
    scope: str = ""
    metric: str = ""
    bucket: str = ""
    unit: str = ""

    def pack(self) -> str:
        """The identity as one text; fields are cleaned here, the gate for text of all readers."""
        return SEPARATOR.join([clean(field) for field in self])

    @classmethod
    def unpack(cls, text: str) -> Series:
        """The inverse of ``pack``."""
        return cls(*text.split(SEPARATOR))
