"""A lost line, or a killed run before the next in one file, never gives wrong rows of a benchmark tool."""

from __future__ import annotations

from typing import Any

import pytest

from engine.core.reading import FileKind, Reading, Source
from engine.run_comparison.reading.frames import JsonReport
from engine.run_comparison.view import READERS
from tests.contract.file_samples import SAMPLES

OWN = {
    "go-benchmark": ("bench.txt", b"goos: linux\npkg: a/b\nBenchmarkParse-8 \t 1200\t 812.5 ns/op\t 16 B/op\n"
                     b"BenchmarkWrite-8 \t 300\t 99.5 ns/op\nPASS\n"),
    "csv-series": ("history.csv", b"time,build,latency [ms]\n2026-01-05T10:00:00,b1,1.5\n2026-01-06T10:00:00,b2,12.25\n"),
}  # fmt: skip
"""Samples of kinds of which the view's sample data have files."""
LOGS = {"jmeter-jtl", "jmeter-jtl-xml", "hey-csv", "k6-csv", "k6-json", "catch2", "ycsb", "ab-gnuplot", "locust-parts"}
"""Kinds whose lines are joined into statistics: half a run gives other ones, and documents that close themselves."""
TEXTS = {
    kind.id: (kind, *(OWN.get(kind.id) or SAMPLES["run-comparison"][kind.id]))
    for kind in READERS
    if not isinstance(kind, JsonReport) and not getattr(kind, "closes", False) and kind.id not in LOGS
    if kind.id in OWN or kind.id in SAMPLES["run-comparison"]
}
LINES_ARE_RECORDS = {
    "go-benchmark", "csv-series", "google-benchmark-csv", "locust", "libtest", "criterion-text", "gungraun", "catch2-text",
    "mlperf",
}  # fmt: skip
"""Kinds whose lines stand each for itself: nothing in the file says that one is missing."""


def read(kind: FileKind, name: str, data: bytes) -> Reading:
    return kind.read(Source(f"/data/{name}", name, 0, len(data)), data, None, True)


def rows(reading: Reading) -> list[tuple[Any, ...]]:
    if not reading.complete:
        return []
    table = reading.rows.get("measurements")
    return sorted(zip(table["series"], table["value"], strict=True)) if table is not None else []


@pytest.mark.parametrize("id", sorted(TEXTS.keys() - LINES_ARE_RECORDS))
def test_a_lost_line_gives_the_same_rows_or_a_problem(id: str) -> None:
    kind, name, sample = TEXTS[id]
    lines = sample.splitlines(keepends=True)
    whole = rows(read(kind, name, sample))
    assert whole
    for at, line in enumerate(lines):
        left = b"".join(lines[:at] + lines[at + 1 :])
        if kind.recognise(name, left):
            reading = read(kind, name, left)
            assert reading.problems or rows(reading) == whole, line


@pytest.mark.parametrize("id", sorted(TEXTS))
def test_a_killed_run_before_the_next_gives_the_values_of_the_next(id: str) -> None:
    """As ``tool >> file`` leaves it: the second begins where the first was cut, in the middle of a line."""
    kind, name, sample = TEXTS[id]
    whole = rows(read(kind, name, sample))
    for cut in range(len(sample)):
        reading = read(kind, name, sample[:cut] + sample)
        found = rows(reading)
        assert set(found) <= set(whole), sample[:cut][-30:]
        assert set(found) == set(whole) or reading.problems, sample[:cut][-30:]
