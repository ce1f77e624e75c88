"""Delimited text: odd rows are problems of their own, and wide or hostile tables take linear time."""

from __future__ import annotations

import pytest

from engine.core.reading import Problem, Source
from engine.formats.delimited import MOST_OPEN_QUOTES, records


def read(
    text: str, final: bool = True
) -> tuple[list[tuple[int, dict[str, str] | None]], list[tuple[str, int | None, int]]]:
    """The records, and kind, line and count of each problem."""
    problems: list[Problem] = []
    data = text.encode()
    found = list(records(Source("/t", "t.csv", 0, len(data)), data, problems, final))
    return found, [(p.kind, p.line, p.count) for p in problems]


def test_ragged_rows_are_counted_by_their_number_of_fields() -> None:
    found, problems = read("a,b\n1,2\n1\n1,2,3\n\n1\n3,4\n")
    assert found == [(2, {"a": "1", "b": "2"}), (7, {"a": "3", "b": "4"})]
    assert problems == [("ragged-row", 3, 2), ("ragged-row", 4, 1)]


def test_an_unterminated_quote_costs_only_its_line() -> None:
    found, problems = read('a,b\n1,"open\n3,4\n5,6\n')
    assert found == [(3, {"a": "3", "b": "4"}), (4, {"a": "5", "b": "6"})]
    assert problems == [("open-quote", 2, 1)]
    assert read('a,b\n1,"two\nlines"\n')[0] == [(2, {"a": "1", "b": "two\nlines"})]


def test_many_unterminated_quotes_stop_reading() -> None:
    found, problems = read("a,b\n1,2\n" + 'x"y,"z\n' * 5000)
    assert found == [(2, {"a": "1", "b": "2"})]
    assert len(problems) == MOST_OPEN_QUOTES + 1


@pytest.mark.parametrize("name", ["c", "distinct"])
def test_very_many_columns(name: str) -> None:
    width = 200_000
    header = ",".join([name] * width if name == "c" else [f"c{i}" for i in range(width)])
    ((line, row),), problems = read(f"{header}\n{',' * (width - 1)}\n")
    assert (line, len(row or {})) == (2, 1 if name == "c" else width)
    assert len(problems) == (name == "c")
