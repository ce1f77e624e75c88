"""The text exposition parser: grammar, odd but real input, hostile input."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.reading import Source
from engine.formats.prometheus import series, text
from engine.formats.prometheus.text import looks_like
from tests.chance import tries

EXPOSITION = b"""# HELP jobs done
# TYPE jobs counter
jobs{name="a",topic="t.1",} 12.0
jobs{ name = "b" , topic = "x y" } 1.5e3 1700000000000
jobs 7
size{topic=",name=",name="q"} NaN
size{name="}{",} +Inf
size{name="a\\"b\\\\c\\nd"} -Inf\r
"""


def parse(path, data, labels=(), names=None):
    [scrape] = text.parts(path, data, labels, names)
    return scrape


def test_reads_names_labels_values_and_places() -> None:
    """Every legal form of a sample line."""
    scrape = parse("f", EXPOSITION, ("name", "topic"))
    rows = scrape.samples
    assert rows["metric"].to_list() == ["jobs"] * 3 + ["size"] * 3
    assert rows["name"].to_list() == ["a", "b", None, "q", "}{", 'a"b\\c·d']
    assert rows["topic"].to_list() == ["t.1", "x y", None, ",name=", None, None]
    values = rows["value"].to_list()
    assert values[:3] == [12.0, 1500.0, 7.0]
    assert math.isnan(values[3])
    assert values[4:] == [math.inf, -math.inf]
    assert rows["time_ms"].to_list() == [None, 1700000000000, None, None, None, None]
    assert rows["line"].to_list() == [3, 4, 5, 6, 7, 8]
    assert (scrape.problems, scrape.cut) == ((), False)


def test_last_line_without_line_end_is_left_out() -> None:
    """A cut number must not become a smaller number."""
    scrape = parse("f", b"a 1\nb 12345", ())
    assert scrape.samples["metric"].to_list() == ["a"]
    assert scrape.cut
    assert [(p.kind, p.line) for p in scrape.problems] == [("cut-file", 2)]


def test_openmetrics_time_is_in_seconds_and_exemplars_are_ignored() -> None:
    """``# EOF`` makes it OpenMetrics."""
    scrape = parse("f", b'a_total{x="1"} 5 1700000000.5 # {trace="z"} 1\n# EOF', ("x",))
    assert scrape.samples.rows() == [("a_total", "1", 5.0, 1700000000500, 1, 'x="1"')]
    assert not scrape.cut


@pytest.mark.parametrize(
    "line",
    [b'd{x="open} 3', b"{} 1", b"e 12x", b"f{topic} 1", b'g{a="1",,} 1', b"a-b 1", b"x", b"1 2", b'h{a="1" b="2"} 1'],
)
@pytest.mark.parametrize("names", [None, "^a"])
def test_a_bad_line_is_a_problem_with_its_place(line: bytes, names: str | None) -> None:
    """The other lines stay."""
    scrape = parse("f", b"a 1\n" + line + b"\na 2\n", (), names)
    assert scrape.samples["value"].to_list() == [1.0, 2.0]
    assert names or [(p.kind, p.line, p.count) for p in scrape.problems] == [("bad-line", 2, 1)]


def test_names_selects_by_regular_expression() -> None:
    """Only wanted metrics are returned."""
    assert parse("f", EXPOSITION, (), "^size").samples.height == 3


def test_recognises_expositions_only() -> None:
    """By content, whatever the name."""
    assert looks_like(EXPOSITION)
    assert looks_like(b"up 1\n")
    for value in (b".5", b"-3", b"+Inf", b"-inf", b"NaN", b"nan 1760000000000"):
        assert looks_like(b"up " + value + b"\n"), value
    for other in (
        b"a,b\n1,2\n",
        b"",
        b"{}",
        b"# Time: 2024\n# User@Host: a\nselect 1;\n",
        b"\xff\xfe\x00",
        b"Results information follows\nServer is nginx\n",
        b"Concurrency infinite\nsome name\n",
        b"option -n\noption -c\n",
    ):
        assert not looks_like(other)


@tries(12)
@given(st.binary(max_size=200))
def test_any_bytes_become_rows_or_problems(data: bytes) -> None:
    """Never an exception; every non-comment line is a row or a problem."""
    scrape = parse("f", data, ("a",))
    rows = data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    wanted = sum(1 for row in rows if row.strip() and not row.strip().startswith("#"))
    assert scrape.samples.height + sum(p.count for p in scrape.problems) <= wanted + 1


@tries(12)
@given(st.lists(st.tuples(st.text(max_size=8), st.floats(allow_nan=False)), max_size=6))
def test_round_trip(pairs: list[tuple[str, float]]) -> None:
    """What an exporter escapes comes back, cleaned for a terminal."""
    from engine.core.reading import clean

    body = "".join(
        'm{{v="{}"}} {!r}\n'.format(t.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"), v)
        for t, v in pairs
        if "\r" not in t
    )
    scrape = parse("f", body.encode("utf-8", "surrogatepass"), ("v",))
    expected = [clean(t.encode("utf-8", "surrogatepass").decode("utf-8", "replace")) for t, _ in pairs if "\r" not in t]
    assert scrape.samples["v"].to_list() == expected
    assert scrape.samples["value"].to_list() == [v for t, v in pairs if "\r" not in t]


def test_a_series_of_a_large_text_is_held_once_across_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [f'up{{instance="b{n % 3}",exported_job="j{n % 2}",job="x"}} {n} {1000 * n}' for n in range(40)]
    data = "\n".join([*lines[:20], "up sample", *lines[20:], lines[0], ""]).encode()
    source = Source("/m/a.txt", "a.txt", 0, len(data))
    whole = series.read(source, data, ("instance", "job"), "up")
    assert whole.series.height == 41
    monkeypatch.setattr(text, "LARGE", 100)
    parts = series.read(source, data, ("instance", "job"), "up")
    assert parts.series.height == 6 and parts.points.height == 41
    shown = ["metric", "instance", "job", "labels", "value", "time_ms"]
    assert parts.samples.select(shown).equals(whole.samples.select(shown))
    assert parts.problems == whole.problems and [problem.line for problem in parts.problems] == [21]
