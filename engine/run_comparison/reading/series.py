"""Pack the identity of a measured series into one text, so that millions of values have one column for it."""

from __future__ import annotations

from typing import NamedTuple

from engine.text import clean

SEPARATOR = "\x1f"
"""ASCII unit separator between packed fields: ``clean`` removes control characters, so no field holds one."""

NOT_AN_INTEGER = -(2**63)
"""Count of an item whose ``Count`` label is not an integer: the benchmark tool drops such items."""


class Series(NamedTuple):
    """What was measured: ``kind`` of report, ``report`` (its name without the time) and its labels.

    ``metric``: all further labels; ``bucket``: percentile or statistic; ``unit``: as written.
    """

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
        """Return the identity as one text; fields are cleaned here, for all readers."""
        return SEPARATOR.join([clean(field) for field in self])

    @classmethod
    def unpack(cls, text: str) -> Series:
        """Return the series that ``pack`` made a text of."""
        return cls(*text.split(SEPARATOR))
