"""Numbers as Dr. Elephant writes them."""

from __future__ import annotations

from engine.job_heuristics.dr_elephant.display import clock, factor, java_double, percent, size, span


def test_display() -> None:
    assert [size(v) for v in (0, 1023, 1024, 2 * 2**30 - 1)] == ["0 bytes", "1023 bytes", "1 KB", "1 GB"]
    assert [span(v) for v in (0, 999, 60_000, 3_661_000)] == ["0 sec", "", "1 min", "1 hr 1 min 1 sec"]
    assert [clock(v) for v in (999, 3_600_000 * 25)] == ["999 msec", "25:00:00 HH:MM:SS"]
    assert [factor(a, b) for a, b in ((0, 0), (1, 0), (1, 8), (0, 5))] == ["", "(Infinityx)", "(0.13x)", "(0.00x)"]
    assert [java_double(v) for v in (1.0, 0.005, 1e7, 2.55584716796875e-4, float("inf"))] == [
        "1.0", "0.005", "1.0E7", "2.55584716796875E-4", "Infinity",
    ]  # fmt: skip
    assert (percent(9_206, 534_604), percent(1, 0)) == ("1.72 %", "NaN")
