"""The same report in another order of keys, with other blanks, line ends or a byte order mark gives the same values."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from engine.core.reading import HEAD, FileKind, Source
from engine.run_comparison.reading.frames import JsonReport
from engine.run_comparison.reading.series import Series
from engine.run_comparison.view import READERS
from tests.contract.file_samples import SAMPLES

KINDS = [(kind, *SAMPLES["run-comparison"][kind.id]) for kind in READERS if kind.id in SAMPLES["run-comparison"]]
REPORTS = [each for each in KINDS if isinstance(each[0], JsonReport) and each[2][:1] in b"{["]
NOT_OURS = {"build-log"}
"""Kinds whose values are those of perf-tests, whatever they are."""


def values(kind: FileKind, name: str, data: bytes) -> list[tuple[str, Any]]:
    assert kind.recognise(name, data[:HEAD]), data[:200]
    table = kind.read(Source(f"/in/{name}", name, 0, len(data)), data, None, True).rows["measurements"]
    return sorted(zip(table["series"], table["value"], strict=True))


def turned(value: Any) -> Any:
    """The keys of all objects in the opposite order, with one more in front."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("kind", "name", "data"), REPORTS, ids=[kind.id for kind, _, _ in REPORTS])
def test_a_report_written_in_another_way(kind: FileKind, name: str, data: bytes) -> None:
    whole, document = values(kind, name, data), json.loads(data)
    for text in (
        json.dumps(document, indent=4),
        json.dumps(document, separators=(" ,", ": ")),
        json.dumps(document, sort_keys=True),
        "\ufeff\n" + json.dumps(document).replace(", ", ",\r\n"),
        json.dumps(document if kind.id == "bencher" else turned(document)),
    ):
        assert values(kind, name, text.encode()) == whole, text[:300]


@pytest.mark.parametrize(("kind", "name", "data"), KINDS, ids=[kind.id for kind, _, _ in KINDS])
def test_no_time_or_rate_is_below_zero(kind: FileKind, name: str, data: bytes) -> None:
    for found in re.finditer(rb"(?<![\w.\-])[0-9]+(?:\.[0-9]+)?(?![\w.])", data):
        bad = data[: found.start()] + b"-" + data[found.start() :]
        reading = kind.read(Source(f"/in/{name}", name, 0, len(bad)), bad, None, True)
        table = reading.rows.get("measurements", {"series": [], "value": []})
        units = [
            Series.unpack(text).unit for text, value in zip(table["series"], table["value"], strict=True) if value < 0
        ]
        assert kind.id in NOT_OURS or not any(unit == "ms" or unit.endswith("/s") for unit in units), bad
