"""Export: CSV is what Python's own writer would write, whichever way it is made."""

from __future__ import annotations

import csv
import io

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from engine import export
from engine.tables import Column, Table

TABLE = Table(
    "things",
    "things with names",
    (Column("name", pl.String, "its name"), Column("count", pl.Int64, "how many"), Column("word", pl.String, "a word")),
)
_LETTERS = st.sampled_from("\",\n ;|'#\\") | st.characters(exclude_categories=["Cs", "Cc"])
_TEXT = st.none() | st.text(_LETTERS, max_size=8)


@given(st.lists(st.tuples(_TEXT, st.none() | st.integers(-(2**63), 2**63 - 1), _TEXT), max_size=5))
def test_plain_columns(rows: list[tuple[str | None, int | None, str | None]]) -> None:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(TABLE.schema.names())
    writer.writerows(rows)
    frame = pl.DataFrame(rows, schema=TABLE.schema, orient="row")
    assert export.to_csv(frame, TABLE) == out.getvalue()
