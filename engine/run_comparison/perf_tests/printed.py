"""Print the six tables of perf-tests' benchmark tool (docs/models/run-comparison.md, The benchmark tool: output)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from engine.run_comparison.perf_tests.pool import BenchmarkKey

PRINTED = ("Perc99", "Perc90", "Perc50")
"""Percentiles that the tool prints, in its order."""

HEADER = ("E2E TEST", "VERB", "RESOURCE", "SUBRESOURCE", "SCOPE", "PERCENTILE", "COMMENTS")


class Row(NamedTuple):
    """One line of the output."""

    key: BenchmarkKey
    matched: bool
    ratio: float
    p_value: float
    mean_left: float
    mean_right: float
    n_left: int
    n_right: int


def _comments(row: Row, scheme: str) -> tuple[str, ...]:
    """Return the last column: what the scheme says of a metric."""
    counts = f"N1={row.n_left}", f"N2={row.n_right}"
    if scheme == "ks":
        return f"Pvalue={go_fixed(row.p_value, 4)}", "", *counts
    means = f"AvgL(ms)={go_fixed(row.mean_left, 2)}", f"AvgR(ms)={go_fixed(row.mean_right, 2)}"
    return f"AvgL/R={go_fixed(row.ratio, 2)}", *means, *counts


def go_fixed(value: float | None, digits: int) -> str:
    """Format a number as Go's ``%.<digits>f`` does; None as NaN."""
    if value is None or math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.{digits}f}"


def printed(rows: Sequence[Row], scheme: str) -> str:
    """Return the six tables as one text: Perc99, Perc90 and Perc50, first mismatched, then matched.

    Rows are in the order of falling ratio, NaN at the end. Where the tool's order is random (equal ratios, the whole of
    KS-Test) they are in the order of their text.
    """
    blocks = []
    for percentile in PRINTED:
        for matched in (False, True):
            picked = [row for row in rows if row.key.bucket == percentile and row.matched == matched]
            picked.sort(key=lambda row: (math.isnan(row.ratio), -row.ratio if row.ratio == row.ratio else 0.0, row.key))
            lines = [HEADER, *((*row.key, *_comments(row, scheme)) for row in picked)]
            blocks.append(f"{percentile} {'matched' if matched else 'mismatched'}: {len(picked)}\n\n{_aligned(lines)}")
    return "\n".join(blocks)


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    """Pad columns to their widest cell with two blanks between, and cut trailing blanks."""
    widths = [max((len(line[i]) for line in lines if i < len(line)), default=0) for i in range(max(map(len, lines)))]
    return "".join("  ".join(cell.ljust(widths[i]) for i, cell in enumerate(line)).rstrip() + "\n" for line in lines)
