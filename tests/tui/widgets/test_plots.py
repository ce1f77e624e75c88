"""Plots, bars and fragments of text: exact sizes for any data, visible peaks, right shapes, nothing hostile."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.chance import tries
from tui.glyphs import SETS, choose
from tui.widgets.drawing import axes, bars, plot
from tui.widgets.drawing import fragments as f

glyph_sets = st.sampled_from([SETS[name] for name in sorted(SETS)])
numbers = st.one_of(st.none(), st.floats(width=64), st.integers(-(10**30), 10**30))
series = st.lists(numbers, max_size=60)
texts = st.text(max_size=30)


def check(lines: list[f.Line], width: int, height: int | None = None) -> None:
    if height is not None:
        assert len(lines) == height
    for line in lines:
        assert f.width_of(line) == width, f.plain(line)
        assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in f.plain(line))


@given(texts, st.integers(0, 40), st.sampled_from(["left", "right"]))
@tries(60)
def test_fit_is_exact(text: str, width: int, align: str) -> None:
    out = f.fit(text, width, align)
    assert cell_len(out) == width
    assert cell_len(f.cut(f.harmless(text), width)) <= width
    assert cell_len(f.cut_left(f.harmless(text), width)) <= width
    assert cell_len(f.cut_middle(f.harmless(text), width)) <= width


def test_names_that_begin_alike_differ_when_cut() -> None:
    names = [f"team.product-with-a-very-long-name.v{number}" for number in range(12)]
    shown = [f.cut_middle(name, 20) for name in names]
    assert len(set(shown)) == 12 and all(len(text) == 20 and text.startswith("team.prod") for text in shown)


@given(st.lists(st.tuples(texts, st.sampled_from(["", "ok", "dim"])), max_size=6), st.integers(0, 60))
@tries(40)
def test_fit_line_is_exact(line: list, width: int) -> None:
    out = f.fit_line(line, width)
    assert f.width_of(out) == width
    assert all(a[1] != b[1] for a, b in pairwise(out)), "neighbours of one style are one fragment"


@given(st.text(alphabet=st.characters(), max_size=80), st.integers(1, 30))
@tries(60)
def test_wrap_fits_and_loses_nothing_but_spaces(text: str, width: int) -> None:
    lines = f.wrap(text, width)
    assert all(cell_len(line) <= width or len(line) == 1 for line in lines)
    wrapped = "".join(lines).replace(" ", "")
    assert wrapped == "".join(f.harmless(part) for part in text.split("\n")).replace(" ", "")


@given(series, series, st.integers(0, 120), st.integers(0, 30), glyph_sets, st.booleans(), st.booleans(), texts)
@tries(30)
def test_plot_is_exact(x, y, width, height, glyphs, step, points, name) -> None:
    one = plot.Series(sorted(v for v in x if v is not None and v == v), y, name, step=step, points=points)
    marks = [plot.Mark(v, name) for v in x[:2] if isinstance(v, float)]
    out = plot.plot([one], width, height, glyphs, marks=marks, rules=marks)
    check(out, width, height if width else 0)
    if glyphs.ascii and name.isascii() and name.isprintable():  # a control character becomes a dot that is not ASCII
        assert all(f.plain(line).isascii() for line in out)


@given(series, series, st.integers(0, 100), st.integers(0, 20), glyph_sets)
@tries(20)
def test_histogram_and_ecdf_are_exact(edges, counts, width, height, glyphs) -> None:
    known = sorted(v for v in edges if v is not None and math.isfinite(v))
    out = plot.histogram(known, counts[: max(len(known) - 1, 0)] or [1.0], width, height, glyphs, other=counts)
    check(out, width, height if width else 0)
    check(plot.ecdf([("a", edges, "bar"), ("b", counts, "bar2")], width, height, glyphs), width, height if width else 0)


@given(series, st.integers(0, 100), glyph_sets, texts)
@tries(30)
def test_bars_are_exact(values, width, glyphs, text) -> None:
    check(bars.bars([bars.Bar(text, v, text) for v in values], width, glyphs), width)
    spans = [bars.Span(float(v), None) for v in values if v is not None]
    check(bars.lanes([bars.Lane(text, spans, text)], width, glyphs, kind="ms"), width)
    assert len(plot.spark(values, width, glyphs)) <= width


def test_line_goes_through_its_points() -> None:
    lines = plot.plot([plot.Series([0, 1, 2, 3], [0, 10, 0, 10])], 40, 12, SETS["ascii"])
    body = [f.plain(line) for line in lines[:-2]]
    assert body[0].startswith("10|") and body[-1].startswith(" 0|")
    peak = [i for i, c in enumerate(body[0]) if c in "'.:"]
    assert len(peak) >= 2 and max(peak) >= 38, "both peaks are in the top row, the second at the right edge"


def test_peaks_survive_thinning() -> None:
    values = [0.0] * 10_000
    values[4321] = 100.0
    assert max(v for v in plot.thin(values, 50) if v is not None) == 100.0
    assert "█" in plot.spark(values, 50, SETS["block"])
    drawn = plot.plot([plot.Series(list(range(10_000)), values)], 60, 10, SETS["braille"])
    assert any(ord(c) > 0x2800 for c in f.plain(drawn[0])), "the peak reaches the top row"


def test_gaps_are_gaps() -> None:
    y = [5.0] * 40 + [None] * 20 + [5.0] * 40
    lines = plot.plot([plot.Series(list(range(100)), y)], 104, 8, SETS["ascii"], y_span=(0, 10))
    row = next(f.plain(line) for line in lines if "''''" in f.plain(line) or "...." in f.plain(line))
    assert "          " in row[40:70]


@pytest.mark.parametrize(
    ("value", "peak", "want"),
    [(0, 10, "    "), (10, 10, "████"), (5, 10, "██  "), (0.0001, 10, "▏   "), (20, 10, "███>"), (None, 1, "    "),
     (float("nan"), 1, "    "), (1, 0, "    "), (-3, 10, "    ")],
)  # fmt: skip
def test_bar(value, peak, want) -> None:
    assert bars.bar(value, peak, 4, SETS["block"]) == want


def test_each_level_has_a_mark_of_its_own() -> None:
    for glyphs in SETS.values():
        assert len(set(glyphs.severity.values())) == len(glyphs.severity)


def test_lanes_differ_without_colour() -> None:
    spans = [bars.Span(0, 50, "bar"), bars.Span(50, 100, "severe", sign="x")]
    line = f.plain(bars.lanes([bars.Lane("map", spans)], 60, SETS["ascii"], kind="ms")[0])
    assert "#" in line and "x" in line and line.index("x") > line.rindex("#")


kinds = st.sampled_from(["number", "ms", "bytes", "time_ms", "count"])


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12), st.integers(1, 12), kinds)
@tries(40)
def test_ticks_are_few_and_inside(low: float, size: float, most: int, kind: str) -> None:
    found = axes.ticks((low, low + size), most, kind)
    assert 1 <= len(found) <= max(most, 1)
    tolerance = size * 1e-6 + abs(low) * 1e-9
    assert all(low - tolerance <= v <= low + size + tolerance for v in found)
    assert found == sorted(found)


def test_ranges_are_round_and_hold_all_data() -> None:
    assert axes.round_range(3, 87) == (0.0, 100.0)
    assert axes.round_range(0, 130)[1] >= 130
    assert axes.round_range(0, 9)[1] < 100


def test_glyphs_are_chosen_by_locale_and_terminal() -> None:
    assert choose("auto", {"LANG": "en_US.UTF-8"}).name == "braille"
    assert choose("auto", {"LANG": "de_DE.ISO-8859-1"}).name == "ascii"
    assert choose("auto", {"LC_ALL": "C"}).name == "ascii"
    assert choose("auto", {"LANG": "C.UTF-8", "TERM": "linux"}).name == "block"
    assert choose("ascii", {"LANG": "en_US.UTF-8"}).name == "ascii"
    assert choose("auto", {"LANG": "en_US.UTF-8"}, "ascii").name == "ascii"
    assert choose("auto", {"LANG": "en_US.UTF-8"}, "UTF_8").name == "braille"
