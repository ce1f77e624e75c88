"""What a view declares for other programs: gauges for Prometheus, and test cases for CI systems (JUnit)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

PERCENT, MB, KB, US = 0.01, 1048576.0, 1024.0, 1e-6  # factors to base units: ratio 0 to 1, bytes, seconds


class Gauge(msgspec.Struct, frozen=True):
    """Series of one column of a result table.

    ``name`` (behind ``loadlens_``, with its unit at the end) and ``meaning``; ``labels``: label to column; ``factor`` to the base
    unit; ``adds``: rows add up; ``only``: column and values of the rows that are meant, of the first value that a row has.
    ``each``: every row gets a series, as there are few by nature.
    """

    name: str
    table: str
    column: str
    meaning: str
    labels: Mapping[str, str]
    factor: float = 1.0
    adds: bool = False
    each: bool = False
    only: tuple[str, tuple[str, ...]] | None = msgspec.field(default=None)


Outcome = Literal["passed", "failure", "skipped"]


class Case(msgspec.Struct, frozen=True):
    """One test case. ``message``: why it failed or was skipped; ``kind``: type of a failure, empty for none."""

    group: str
    name: str
    outcome: Outcome = "passed"
    message: str = ""
    kind: str = ""


class Suite(msgspec.Struct, frozen=True):
    """Test cases under one name, with properties of the whole and a text for its output."""

    name: str
    cases: tuple[Case, ...]
    properties: Mapping[str, str] = msgspec.field(default_factory=dict)
    output: str = ""
