"""Export: CSV is what Python's own writer would write, and no text runs in a spreadsheet or acts on a terminal."""

from __future__ import annotations

import csv
import io
import json
import re
from xml.etree import ElementTree

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.exports import Case, Suite
from engine.core.reading import harmless, harmless_json
from engine.core.tables import Column, Table
from engine.output import export, junit

TABLE = Table(
    "things",
    "things with names",
    (Column("name", pl.String, "its name"), Column("count", pl.Int64, "how many"), Column("word", pl.String, "a word")),
)
_LETTERS = st.sampled_from("\",\n ;|'#\\=+-@1.e") | st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp"])
_TEXT = st.none() | st.text(_LETTERS, max_size=8)


def shown(text: str | None) -> str | None:
    """The text as a spreadsheet may have it: an apostrophe in front of what it would run, unless that is a number."""
    if not text or text[0] not in "=+-@＝＋－＠" or len(text) == 1:
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    words = not text.isascii() or text != text.strip() or {*text} & {*"_nN"}  # 1_0, inf, nan
    return f"'{text}" if words else text


@given(st.lists(st.tuples(_TEXT, st.none() | st.integers(-(2**63), 2**63 - 1), _TEXT), max_size=5))
def test_plain_columns(rows: list[tuple[str | None, int | None, str | None]]) -> None:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(TABLE.schema.names())
    writer.writerows((shown(name), count, shown(word)) for name, count, word in rows)
    frame = pl.DataFrame(rows, schema=TABLE.schema, orient="row")
    assert export.to_csv(frame, TABLE) == out.getvalue()


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"), ("+cmd|x", "'+cmd|x"), ("-topic", "'-topic"), ("@SUM(A1)", "'@SUM(A1)"), ("＝1", "'＝1"),
        ("-5", "-5"), ("+1.5e3", "+1.5e3"), ("-.5", "-.5"), ("-", "-"), ("=", "="), ("a=b", "a=b"), ("-1-1", "'-1-1"),
        ("-inf", "'-inf"), ("--5", "'--5"), ("'=1", "'=1"),
    ],
)  # fmt: skip
def test_formulas_are_shown_and_numbers_stay_numbers(text: str, cell: str) -> None:
    for width in (1, 3):
        frame = pl.DataFrame({"name": [text], "count": [-7], "word": ["x"]}).select(TABLE.schema.names()[:width])
        assert next(csv.reader(io.StringIO(export.to_csv(frame, TABLE).split("\n", 1)[1])))[0] == cell
    assert json.loads(export.to_json(frame, TABLE))[0]["name"] == text


HOSTILE = "\x1b]0;t\x07\x9b2J\u202e\u200b\u2028\x7f\x00\r\t\ud800\U000e0041"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\ud800-\udfff\U000e0000-\U000e007f]")


def test_no_format_lets_controls_through() -> None:
    text = HOSTILE.replace("\ud800", "")
    frame = pl.DataFrame({"name": [text], "count": [1], "word": [f"a{text}b"]})
    for made in export.FORMATS.values():
        assert not CONTROL.search(made(frame, TABLE))
    assert json.loads(export.to_json(frame, TABLE))[0]["name"] == text
    suite = Suite(text, (Case(text, text, "failure", HOSTILE + "\uffff", text),), {text: text}, text)
    xml = junit.to_xml(suite)
    assert not CONTROL.search(xml)
    assert ElementTree.fromstring(xml).find("testcase") is not None


@given(st.text())
def test_harmless_texts(text: str) -> None:
    assert not CONTROL.search(harmless(text))
    assert len(harmless(text)) == len(text)
    assert harmless(text) == text or CONTROL.search(text) or not text.isascii()
    encoded = json.dumps(text, ensure_ascii=False)
    assert json.loads(harmless_json(encoded)) == text
    assert not CONTROL.search(harmless_json(encoded))


def test_text_keeps_to_a_width_by_cutting_texts_then_leaving_columns_out() -> None:
    table = Table(
        "t",
        "T.",
        (
            Column("name", pl.String, "N.", priority=0),
            Column("rest", pl.String, "R.", priority=3),
            Column("n", pl.Int64, "N.", kind="count", priority=1),
            Column("secret", pl.Int64, "S.", kind="count", hidden=True),
        ),
    )
    frame = pl.DataFrame({"name": ["x" * 60], "rest": ["y" * 20], "n": [123], "secret": [7]}, schema=table.schema)
    wide = export.to_text(frame, table)
    assert "x" * 60 in wide and "secret" in wide.splitlines()[0]
    for width in (80, 60, 40):
        lines = export.to_text(frame, table, width).splitlines()
        assert all(len(line) <= width for line in lines[:3]) and "123" in lines[2] and "x…" in lines[2]
    assert lines[-1] == "(2 more columns, in other formats and on wider terminals: rest, secret)"
