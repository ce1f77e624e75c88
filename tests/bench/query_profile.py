"""The query profile: how fast, beside the seconds of VividCortex' program (``regress.go`` without its TRAIN lines)."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.core.parameters import parse
from engine.core.reading import Source
from engine.core.view import Context, Inputs
from engine.query_profile.reading.wlr_csv import WlrCsv
from engine.query_profile.view import VIEW
from engine.query_profile.wlr.regression import Sums
from tests.bench.line import Line, best
from tests.engine.query_profile.builders import inputs

PROGRAM_S = 1.5
"""Seconds of VividCortex' program for 500 classes x 10,000 rows (1.5 to 1.9), its slow printing silenced."""


def made_table(classes: int, rows: int) -> bytes:
    """A WLR CSV, two thirds of its cells filled."""
    rng = np.random.default_rng(7)
    x = np.where(rng.random((rows, classes)) < 0.67, rng.integers(1, 200_000, (rows, classes)), 0)
    y = (x.sum(axis=1) * rng.normal(2, 0.1, rows)).astype(np.int64)
    import polars as pl

    frame = pl.DataFrame({f"q.{j:016x}": x[:, j] for j in range(classes)}).with_columns(pl.Series("user_us", y))
    return frame.write_csv().encode()


def run() -> list[Line]:
    """Reading, fitting and predicting; one more interval; switching the method."""
    data = made_table(500, 10_000)
    wlr = parse(VIEW.parameters, [("method", "wlr")])

    def report() -> Any:
        return VIEW.compute(inputs({"t.csv": data}), wlr, Context(now_ms=0))

    lines = [
        Line("500 classes x 10,000 rows: read, fit, predict", best(report), "s", PROGRAM_S,
             note="regress.go without its TRAIN lines; goal 0.3 s"),
    ]  # fmt: skip
    kind = WlrCsv()
    source = Source("/in/t.csv", "t.csv", 0, len(data))
    reading = best(lambda: kind.read(source, data, None, True))
    frame = kind.read(source, data, None, True).rows["matrix"]
    values = frame["values"][0].to_numpy().reshape(-1, 501)
    x, y = np.ascontiguousarray(values[:, :-1]), values[:, -1]
    fitting = best(lambda: Sums.zero(500).add(x, y).lines().predict(x))
    lines.append(Line("  of it fitting and predicting", fitting, "s", reading, note="reference: reading"))
    sums = Sums.zero(500).add(x, y)
    lines.append(Line("one more interval, 500 classes", best(lambda: sums.add(x[:1], y[:1]), 20) * 1e6, "us"))
    few = Sums.zero(50).add(np.ascontiguousarray(x[:, :50]), y)
    short = np.ascontiguousarray(x[:1, :50])
    lines.append(Line("one more interval, 50 classes", best(lambda: few.add(short, y[:1]), 20) * 1e6, "us"))
    large = made_table(1000, 20_000)
    source = Source("/in/l.csv", "l.csv", 0, len(large))
    begin = best(lambda: kind.read(source, large, None, True), 1)
    frame = kind.read(source, large, None, True).rows["matrix"]
    values = frame["values"][0].to_numpy().reshape(-1, 1001)
    x, y = np.ascontiguousarray(values[:, :-1]), values[:, -1]
    fit = best(lambda: Sums.zero(1000).add(x, y).lines().predict(x), 1)
    lines.append(Line("1,000 classes x 20,000 rows: fit and predict", fit, "s", begin, note="reference: reading"))
    given: Inputs = inputs({"t.csv": made_table(184, 720)})
    context = Context(now_ms=0)
    VIEW.compute(given, parse(VIEW.parameters, []), context)
    for method in ("wlr", "default"):
        choice = parse(VIEW.parameters, [("method", method)])
        lines.append(
            Line(f"switch to {method}, 184 x 720", best(lambda c=choice: VIEW.compute(given, c, context), 3) * 1e3, "ms",
                 100.0, note="goal")  # type: ignore[misc]
        )  # fmt: skip
    cold = best(lambda: VIEW.compute(given, parse(VIEW.parameters, []), Context(now_ms=0)), 1) * 1e3
    lines.append(Line("all methods, intervals and trust from scratch, 184 x 720", cold, "ms"))
    return lines
