"""Numbers as Dr. Elephant writes them."""

from __future__ import annotations

from engine.job_heuristics.dr_elephant.display import clock, factor, java_double, size, span


def test_bytes_and_times() -> None:
    assert [size(v) for v in (0, 1023, 1024, 2**20 - 1, 2**20, 2 * 2**30 - 1, 2**40, 2**50, 3 * 2**60)] == [
        "0 bytes", "1023 bytes", "1 KB", "1023 KB", "1 MB", "1 GB", "1 TB", "1 PB", "3 EB",
    ]  # fmt: skip
    assert [span(v) for v in (0, 999, 1000, 60_000, 3_661_000, -5)] == [
        "0 sec", "", "1 sec", "1 min", "1 hr 1 min 1 sec", "",
    ]  # fmt: skip
    assert [clock(v) for v in (999, 1000, 3_723_999, 3_600_000 * 25)] == [
        "999 msec", "00:00:01 HH:MM:SS", "01:02:03 HH:MM:SS", "25:00:00 HH:MM:SS",
    ]  # fmt: skip


def test_factors() -> None:
    assert [factor(a, b) for a, b in ((0, 0), (1, 0), (-1, 0), (1, 8), (0, 5), (5, 1))] == [
        "", "(Infinityx)", "(-Infinityx)", "(0.13x)", "(0.00x)", "(5.00x)",
    ]  # fmt: skip


def test_numbers_as_java_writes_them() -> None:
    inf = float("inf")
    values = (
        1.0,
        0.005,
        0.001,
        0.00099,
        9999999.0,
        1e7,
        2.55584716796875e-4,
        -1.5e10,
        0.0,
        -0.0,
        inf,
        -inf,
        float("nan"),
    )
    assert [java_double(v) for v in values] == [
        "1.0", "0.005", "0.001", "9.9E-4", "9999999.0", "1.0E7", "2.55584716796875E-4", "-1.5E10", "0.0", "-0.0", "Infinity",
        "-Infinity", "NaN",
    ]  # fmt: skip
