"""CSV with blank lines: they cost next to nothing, and line numbers stay true."""

from __future__ import annotations

import polars as pl
import pytest

from engine.broker_load.reading import tabular
from engine.broker_load.reading.tabular import CsvRows
from engine.reading import Reading, Source
from engine.text import decode

HEADER = b"time_ms,metric,broker,topic,partition,value\n"
GOOD = b"1700000000000,ALL_TOPIC_BYTES_IN,1,,,5\n"


def take(data: bytes) -> Reading:
    """Read one file whole."""
    return CsvRows().read(Source("/m.csv", "m.csv", 0, len(data)), data, None, True)


@pytest.mark.parametrize("blank", [b"\n", b"\r\n", b"  \n", b"\n\r\n\t\n"])
def test_blank_lines_are_left_out_and_counted(blank: bytes) -> None:
    made = take(HEADER + blank * 3 + GOOD + blank + b"bad\n" + GOOD + blank * 2)
    count = blank.count(b"\n")
    rows = made.rows["metrics"]
    assert isinstance(rows, pl.DataFrame) and rows["value"].to_list() == [5.0, 5.0]
    assert [problem.line for problem in made.problems] == [1 + 3 * count + 1 + count + 1]
    assert made.state["lines"] == 4 + 6 * count


def test_a_flood_of_line_ends_is_not_made_into_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packed file of a few hundred KB may hold hundreds of MB of line ends."""
    lengths: list[int] = []

    def counted(data: bytes) -> str:
        lengths.append(len(data))
        return decode(data)

    monkeypatch.setattr(tabular, "decode", counted)
    made = take(HEADER + b"\n" * 3_000_000 + GOOD)
    assert made.state["lines"] == 3_000_002
    assert max(lengths) < 200
