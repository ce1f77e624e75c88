"""Results with the memo of a session are those of a fresh one."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl

from engine.core.parameters import parse
from engine.core.reading import Source
from engine.core.view import Context, FileInfo, Inputs
from engine.query_profile.reading.wlr_csv import WlrCsv
from engine.query_profile.view import VIEW
from tests.engine.query_profile.builders import (
    capture,
    inputs,
    sample,
    snapshot,
)


def test_an_appended_row_changes_nothing_but_adds() -> None:
    """With the memo of a session the result is that of a fresh one."""
    data = sample()["t.csv"]
    cut = data.rfind(b"\n", 0, data.rfind(b"\n")) + 1
    context = Context(0)
    choice = parse(VIEW.parameters, [("method", "wlr"), ("draws", "0")])
    first = inputs({"t.csv": data[:cut]})
    (number,) = first.files
    VIEW.compute(first, choice, context)
    kind = WlrCsv()
    begun = kind.read(Source("/in/t.csv", "t.csv", 0, cut), data[:cut], None, True)
    rest = kind.read(Source("/in/t.csv", "t.csv", 0, len(data), cut), data[cut:], begun.state, True)
    both = pl.concat(
        [first.table("matrix"), rest.rows["matrix"].with_columns(pl.lit(number, dtype=pl.UInt32).alias("file"))]
    )
    info = FileInfo(number, "/in/t.csv", "t.csv", "wlr-csv", 0, len(data), 2)
    grown = Inputs(2, {number: info}, (), lambda name: both if name == "matrix" else first.table(name))
    fresh = VIEW.compute(inputs({"t.csv": data}), choice, Context(0))
    appended = VIEW.compute(grown, choice, context)
    assert fresh.summary == appended.summary
    assert fresh.tables["predictions"].equals(appended.tables["predictions"])
    assert np.allclose(fresh.tables["classes"]["slope"], appended.tables["classes"]["slope"], rtol=1e-12)


def test_snapshots_one_by_one_give_the_same_as_all_at_once() -> None:
    """Partial results only save time: also after a reset that is reported later, and when old files are deleted."""
    rng = np.random.default_rng(4)
    calls = np.cumsum(rng.poisson(50, (12, 3)), axis=0)
    texts = [snapshot(*((j, c, c * 2.0) for j, c in enumerate(row) if j < 2 or i > 4)) for i, row in enumerate(calls)]
    texts[7] = snapshot((0, 3, 5), (1, 4, 6))
    whole = capture(*texts, cpu=[1000 * i * i for i in range(12)])
    cpu = {"cpu.csv": whole.pop("cpu.csv")}
    names = sorted(whole)
    context = Context(now_ms=0)
    parameters = parse(VIEW.parameters, [("draws", "0")])
    late_info = {"info.csv": b"captured_at,dealloc,stats_reset\n2026-01-01T00:02:00Z,0,1\n2026-01-01T00:03:00Z,0,2\n"}
    stages = [names[:1], names[:2], names[:6], names[:7], names, names, names[3:]]
    for version, stage in enumerate(stages, 1):
        files = cpu | {name: whole[name] for name in stage} | (late_info if version > 5 else {})
        given = inputs(files)
        partial = VIEW.compute(dataclasses.replace(given, version=version), parameters, context)
        fresh = VIEW.compute(dataclasses.replace(given, version=version), parameters, Context(now_ms=0))
        assert partial.summary == fresh.summary
        assert partial.tables.keys() == fresh.tables.keys()
        assert all(frame.equals(fresh.tables[name]) for name, frame in partial.tables.items())
    assert partial.summary["intervals"] == 8
