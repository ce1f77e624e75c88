"""Numbers as text and back."""

from __future__ import annotations

import datetime as dt
import math
import subprocess
import sys
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core import units
from engine.core.tables import Kind

KINDS = typing.get_args(Kind)


@pytest.mark.parametrize(
    ("kind", "value", "width", "want"),
    [
        ("count", 1234567, 0, "1,234,567"), ("count", 1234567, 7, "1.23M"), ("count", 999_999, 4, "1.00M"),
        ("number", 0.30000000000000004, 0, "0.3"), ("number", 0.000123, 0, "0.000123"), ("number", 1e-9, 0, "1.000e-09"),
        ("number", -0.000666, 9, "-0.000666"), ("number", -0.0006659, 8, "-0.00067"), ("number", -0.0006659, 6, "-7e-04"),
        ("number", -12.345678, 0, "-12.35"), ("number", math.nan, 0, "NaN"), ("number", -math.inf, 0, "-∞"),
        ("bytes", 0, 0, "0 B"), ("bytes", 1023, 0, "1023 B"), ("bytes", 1024, 0, "1.00 KiB"),
        ("bytes", 1024**3 * 1.5, 0, "1.50 GiB"), ("bytes", -2048, 0, "-2.00 KiB"), ("bytes_per_s", 2048, 0, "2.00 KiB/s"),
        ("ms", 0, 0, "0 ms"), ("ms", 0.25, 0, "250 µs"), ("ms", 350, 0, "350 ms"), ("ms", 999.7, 0, "1.0 s"),
        ("ms", 12_340, 0, "12.3 s"), ("ms", 59_960, 0, "1m 00s"), ("ms", 245_000, 0, "4m 05s"),
        ("ms", 3_720_000, 0, "1h 02m"), ("ms", 3_599_900, 0, "1h 00m"), ("ms", 86_400_000 * 3.2, 0, "3d 05h"),
        ("s", 5, 0, "5.0 s"), ("ms", -1500, 0, "-1.5 s"),
        ("percent", 45.31, 0, "45.3%"), ("percent", 0.001, 0, "0.001%"), ("percent", -0.0, 0, "0.0%"),
        ("ratio", 1.25, 0, "1.25×"), ("ratio", 123.4, 0, "123×"),
        ("mb_s", 3.5 * 1024 * 3600, 0, "3.50 GB·h"), ("mb_s", 12, 0, "12 MB·s"),
        ("level", "severe", 0, "SEVERE"), ("level", 4, 0, "CRITICAL"), ("flag", True, 0, "yes"), ("flag", False, 0, "no"),
        ("text", None, 0, "–"), ("count", None, 0, "–"), ("json", {"a": 1}, 0, '{"a": 1}'), ("text", 5, 0, "5"),
        ("count", "odd", 0, "odd"), ("spark", [1.0, None, 3.0], 0, "1…3"),
    ],
)  # fmt: skip
def test_text(kind, value, width, want) -> None:
    assert units.text(kind, value, width) == want


def test_moment_shortens() -> None:
    ms = 1_767_225_600_000
    found = [units.text("time_ms", ms, width, dt.UTC) for width in (0, 19, 14, 11, 8)]
    assert found == ["2026-01-01 00:00:00", "2026-01-01 00:00:00", "01-01 00:00:00", "01-01 00:00", "00:00:00"]


anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10), st.lists(st.floats(), max_size=3),
    st.integers(10**300, 10**320), st.binary(max_size=4),
)  # fmt: skip


@given(st.sampled_from(KINDS), anything, st.integers(0, 20))
def test_anything_has_a_text(kind, value, width) -> None:
    assert isinstance(units.text(kind, value, width), str)


@given(st.floats(0.01, 1e12), st.sampled_from(["ms", "bytes", "count", "percent", "number", "ratio"]))
def test_a_shown_number_reads_back_nearly_the_same(value: float, kind) -> None:
    shown = units.text(kind, value)
    if kind == "ms" and value >= 59_950:
        shown = shown.replace(" ", "")
    elif kind in ("count", "number") and "e" in shown:
        return
    again = units.amount(kind, shown)
    assert again == pytest.approx(value, rel=0.06, abs=0.06)


@pytest.mark.parametrize(
    ("kind", "typed", "want"),
    [("bytes", "10MB", 10 * 1024**2), ("bytes", "1.5GiB", 1.5 * 1024**3), ("bytes", "512", 512), ("ms", "5m", 300_000),
     ("ms", "1h30m", 5_400_000), ("s", "500ms", 0.5), ("s", "7", 7), ("percent", "50%", 50), ("count", "10k", 10_000),
     ("count", "1,234", 1234), ("ratio", "1.5x", 1.5), ("number", "-2e3", -2000), ("number", "inf", math.inf),
     ("time_ms", "1767225600000", 1_767_225_600_000), ("time_ms", "2026-01-01T00:00:00Z", 1_767_225_600_000),
     ("mb_s", "1GB·h", 1024 * 3600), ("mb_s", "2", 2 * 1024 * 3600), ("mb_s", "5MBs", 5), ("ratio", "50%", 0.5)],
)  # fmt: skip
def test_amount(kind, typed, want) -> None:
    assert units.amount(kind, typed) == want


@pytest.mark.parametrize(
    ("typed", "day"), [("2026", (2026, 1, 1)), ("2026-03", (2026, 3, 1)), ("20260310", (2026, 3, 10))]
)
def test_a_part_of_a_date_is_a_time(typed, day) -> None:
    assert units.amount("time_ms", typed) == dt.datetime(*day).timestamp() * 1000
    assert units.amount("count", typed.replace("-", "")) == int(typed.replace("-", ""))


@pytest.mark.parametrize(("kind", "typed"), [("bytes", "ten"), ("ms", "5 parsecs"), ("count", ""), ("time_ms", "soon")])
def test_texts_that_are_no_amount(kind, typed) -> None:
    with pytest.raises(ValueError, match=r"not a (number|unit|date)"):
        units.amount(kind, typed)


@given(st.sampled_from(KINDS), st.text(max_size=12))
def test_amount_gives_a_number_or_a_sentence(kind, typed) -> None:
    try:
        assert isinstance(units.amount(kind, typed), float)
    except ValueError as error:
        assert str(error)


def test_ranks_follow_the_engine() -> None:
    from engine.core.view import LEVELS

    assert units.LEVEL_OF_RANK == LEVELS
    for level in LEVELS:
        assert units.level_of(level) == level
    assert [units.level_of(number) for number in range(5)] == ["ok", "low", "moderate", "severe", "critical"]
    assert units.level_of("NONE") == "ok" and units.level_of("bogus") == "" and units.level_of(True) == ""


def test_ages_rarely_change() -> None:
    shown = [units.age(second) for second in range(3600)]
    assert len(set(shown)) < 80 and shown[0] == "now" and shown[-1] == "59 min"
    assert [units.age(-seconds) for seconds in (1, 60, 61, 1e10)] == ["now", "now", "ahead", "ahead"]


def test_units_need_no_frames() -> None:
    code = "import sys, engine.core.units; sys.exit(any(m in sys.modules for m in ('polars', 'numpy', 'textual')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_numbers_of_a_column_line_up_in_one_unit_and_are_never_rounded_to_zero() -> None:
    assert [units.aligned("bytes_per_s", v, 1.63 * 2**20) for v in (1.63 * 2**20, 990 * 2**10, 0.0, 100.0)] == [
        "1.63 MiB/s", "0.97 MiB/s", "0.00 MiB/s", "<0.01 MiB/s",
    ]  # fmt: skip
    assert [units.aligned("number", v, 207.6) for v in (207.63, 3.068, -0.01)] == ["207.6", "3.1", ">-0.1"]
    assert [units.aligned("number", v, 0.3386) for v in (0.3386, 0.0061, 0.0)] == ["0.3386", "0.0061", "0.0000"]
    assert [units.aligned("percent", v, 63.6) for v in (63.6, 0.04)] == ["63.6%", "<0.1%"]
    assert units.aligned("bytes", 1023.0, 1023.0) == "1.00 KiB" and units.aligned("bytes", 999.0, 999.0) == "999 B"
    assert units.aligned("ms", 5.0, 9.0) is None and units.aligned("number", 7, 9.0) is None
    assert units.aligned("number", float("nan"), 9.0) is None
