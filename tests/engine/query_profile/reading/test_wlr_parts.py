"""A WLR table gives the same rows and problems whole and in any parts, however it is damaged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.core.reading import Problem, Source, bounded
from engine.core.view import Inputs
from engine.query_profile.reading.wlr_csv import WlrCsv
from engine.query_profile.view import VIEW
from tests.chance import tries
from tests.contract.samples import opened

SHOWN = 200


def in_parts(data: bytes, cuts: Sequence[int]) -> tuple[list[Any], list[Any], tuple[Problem, ...]]:
    """Names, numbers and problems of a file that grows to ``cuts`` and then to its end."""
    kind = WlrCsv()
    state, consumed = None, 0
    names: list[Any] = []
    numbers: list[Any] = []
    problems: tuple[Problem, ...] = ()
    for end, final in [*((cut, False) for cut in sorted(cuts)), (len(data), False), (len(data), True)]:
        part = data[consumed:end]
        if not part:
            continue
        reading = kind.read(Source("/in/t.csv", "t.csv", 0, end, consumed), part, state, final)
        if reading.consumed:
            state, consumed = reading.state, consumed + reading.consumed
            problems = bounded((*problems, *reading.problems), SHOWN)
            for block_names, values in reading.rows["matrix"].rows() if "matrix" in reading.rows else ():
                names = names or block_names
                assert block_names == names
                numbers += values
    return names, list(map(repr, numbers)), problems


CELLS = [
    "0",
    "7",
    "700",
    '"9"',
    "1e1",
    "4_1",
    "NaN",
    "-5",
    "+Inf",
    "",
    " 3",
    "x",
    '"',
    '1"2',
    '"3',
    "0x1p4",
    "5\r",
    "\x00",
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A table with some damage: cells that are no numbers, lost line ends and quotes, bytes that are no text."""
    width = draw(st.integers(1, 4))
    names = [draw(st.sampled_from(["user_us", "q.a", '"q,b"', "q.c", '"x""y"', '"two\nlines"', 'half"']))] * (width > 3)
    names += [f"q.{j}" for j in range(width - len(names))]
    cell = st.sampled_from(CELLS[:5]) | st.sampled_from(CELLS)
    rows = draw(st.lists(st.lists(cell, min_size=width, max_size=width), max_size=8))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    text = bytearray(end.join(",".join(row) for row in [["user_us", *names[1:]], *rows]).encode())
    for place, junk in draw(st.lists(st.tuples(st.integers(0, 200), st.sampled_from(JUNK)), max_size=3)):
        text[place % (len(text) + 1) : place % (len(text) + 1)] = junk
    return bytes(text + (b"\n" if draw(st.booleans()) else b""))


JUNK = [b'"', b"\n", b"\r", b",", b"\xff", b"\n\n", b"\xef\xbb\xbf", b"\r\n", b""]


@tries(40)
@given(damaged(), st.lists(st.integers(0, 200), max_size=8))
@example(b"u\n\ns\ner_us", [3])
def test_parts_give_what_the_whole_gives(data: bytes, cuts: list[int]) -> None:
    assert in_parts(data, cuts) == in_parts(data, ())


@pytest.mark.parametrize(
    ("bad", "trained"),
    [(b'10,"5,30\n', 6), (b'"\n', 6), (b"10\r,5,30\n", 6), (b"1,2\n", 6), (b"\xff,1,2\n", 6), (b'""\n"", 1,\n', 6)],
)
@pytest.mark.parametrize("place", [1, 3, 6])
def test_one_damaged_line_costs_itself_live_and_cold(tmp_path: Path, bad: bytes, trained: int, place: int) -> None:
    lines = [b"q.a,q.b,user_us\n", *(b"%d,%d,%d\n" % (10 + i, 5 * i, 30 + i) for i in range(6))]
    lines.insert(place, bad)
    path = tmp_path / "t.csv"
    path.write_bytes(lines[0])
    live = opened("query-profile", tmp_path)
    for line in lines[1:]:
        with path.open("ab") as file:
            file.write(line[:3])
            file.flush()
            live.scan(final=False)
            file.write(line[3:])
        live.scan(final=True)
    cold = opened("query-profile", tmp_path)
    result = live.compute("query-profile", VIEW.parameters(method="wlr", draws=0), now_ms=0)
    assert result.summary["rows_trained"] == trained
    assert {problem.line for problem in result.problems} <= {place + 1, place + 2}
    grown, whole = live.inputs("query-profile"), cold.inputs("query-profile")
    assert grown.problems == whole.problems
    assert rows(grown) == rows(whole)
    live.close()
    cold.close()


def rows(given: Inputs) -> tuple[set[tuple[str, ...]], list[float]]:
    """Names and numbers of the table, in however many blocks it was read."""
    blocks = given.table("matrix").select("names", "values").rows()
    return {tuple(names) for names, _ in blocks}, [number for _, values in blocks for number in values]


def test_a_header_that_never_ends_is_one_problem() -> None:
    data = b'q.a,"q.b,user_us\n' + b"1,2,3\n" * 5
    names, numbers, problems = in_parts(data, (5, 20, 30))
    assert (names, numbers) == ([], [])
    assert [(problem.kind, problem.line) for problem in problems] == [("bad-header", 1)]


def test_a_file_of_bad_rows_lists_the_first_and_counts_the_others() -> None:
    data = b"q.a,user_us\n" + b"".join(b"%dx,1\n" % i for i in range(5000)) + b"1,2\n"
    for cuts in ((), (1000, 1001, 9000), range(0, 30_000, 3000)):
        _, numbers, problems = in_parts(data, cuts)
        assert numbers == ["1.0", "2.0"]
        assert len(problems) == SHOWN
        assert sum(problem.count for problem in problems) == 5000
        assert [problem.line for problem in problems[:3]] == [2, 3, 4]
