"""One measured line of the timing suite, and the table of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """``measured`` in ``unit``; ``reference`` in the same unit: a floor, a budget or upstream's figure (``note`` says
    which), None without one; ``ratio``: measured / reference, filled in when left out."""

    name: str
    measured: float
    unit: str
    reference: float | None = None
    ratio: float | None = None
    note: str = ""


def best(work: Callable[[], object], times: int = 3) -> float:
    """Seconds of the fastest of ``times`` calls."""
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        took.append(time.perf_counter() - begin)
    return min(took)


def show(lines: Sequence[Line]) -> str:
    """The lines as a text table."""
    rows = [("what", "measured", "reference", "ratio", "note")]
    for line in lines:
        ratio = line.ratio
        if ratio is None and line.reference:
            ratio = line.measured / line.reference
        rows.append(
            (
                line.name,
                f"{line.measured:.4g} {line.unit}",
                "" if line.reference is None else f"{line.reference:.4g} {line.unit}",
                "" if ratio is None else f"{ratio:.3g}",
                line.note,
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
