"""The table without a screen: sort, filter, find, columns, and the width of every line for any text."""

from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.tables import Column, Table
from engine.views import VIEWS, Entry
from tests.chance import tries
from tests.tui.fakes import NODES, frame
from tui.glyphs import SETS
from tui.widgets.drawing.bars import change_bar, share_bar
from tui.widgets.drawing.fragments import plain, width_of
from tui.widgets.table import window as w
from tui.widgets.table.layout import beside, layout
from tui.widgets.table.window import Choice, FilterError, build


def names(window: w.Window) -> list[str]:
    return [row["name"] for row in window.rows(0, window.height)]


def filtered(text: str, rows: int = 40) -> list[str]:
    window = build(NODES, frame(rows), Choice(filter=text))
    assert not window.error, window.error
    return names(window)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("node-003", lambda r: r["name"] == "node-003"),
        ("NODE-00", lambda r: r["name"].startswith("node-00")),
        ('"rack 1"', lambda r: r["note"] == "rack 1"),
        ("rack 1", lambda r: "rack" in r["note"] and "1" in r["name"] + r["note"] + r["state"]),
        ("cpu>50", lambda r: r["cpu"] > 50),
        ("cpu>=50% cpu<60", lambda r: 50 <= r["cpu"] < 60),
        ("size>10MB", lambda r: r["size"] > 10 * 1024**2),
        ("size=3000009", lambda r: r["size"] == 3000009),
        ("wait>5s", lambda r: r["wait"] is not None and r["wait"] > 5000),
        ("wait=", lambda r: r["wait"] is None),
        ("wait!=", lambda r: r["wait"] is not None),
        ("state=SEVERE", lambda r: r["state"] == "severe"),
        ("state>=moderate", lambda r: r["state"] in ("severe", "moderate")),
        ("state!=ok", lambda r: r["state"] != "ok"),
        ("!rack", lambda r: False),
        ("name~00[12]$", lambda r: r["name"] in ("node-001", "node-002")),
        ("name!~^node-0[012]", lambda r: r["name"] > "node-03"),
        ("seen>2025-12-31T23:50:00Z", lambda r: r["seen"] > 1_767_225_000_000),
        ("note=rack", lambda r: False),
        ("seen>23:50", lambda r: r["seen"] > 1_767_311_400_000),  # of the newest day in the column
        ("NA=node-003", lambda r: r["name"] == "node-003"),
        ("secr=x", lambda r: True),  # a column that is not on screen
        ("", lambda r: True),
        ("   ", lambda r: True),
    ],
)
def test_filter(text: str, want) -> None:
    rows = frame(40).to_dicts()
    assert filtered(text) == [row["name"] for row in rows if want(row)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cpx>3", "did you mean cpu"),
        ("cpu>abc", "is not a number"),
        ("wait>3MB", "not a unit"),
        ("s>1", "could be"),
        ("name~(", "regular expression"),
        ("cpu>", "wants a value"),
        ("trend>1", "cannot be compared"),
    ],
)
def test_filter_that_cannot_be_taken_filters_nothing_and_says_why(text: str, says: str) -> None:
    window = build(NODES, frame(10), Choice(filter=text))
    assert says in window.error and window.height == 10


SHARDS = Table(
    "shards", "Shards.", (Column("name", pl.String, "Name."), Column("on", pl.List(pl.String), "Where.", title="where"))
)
"""A table with a list of names."""


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("where=node-1", ["a"]), ("on=NODE-1", ["a"]), ("on!=node-1", ["b", "c", "d"]), ("on~node-1", ["a", "b"]),
        ("on~^node-2", ["b"]), ("node-12", ["b"]), ("!node-1", ["c", "d"]), ("on=", ["c", "d"]), ("on!=", ["a", "b"]),
    ],
)  # fmt: skip
def test_filters_find_names_in_lists(text: str, want: list[str]) -> None:
    rows = pl.DataFrame(
        {"name": ["a", "b", "c", "d"], "on": [["node-1", "node-2"], ["node-2", "node-12"], [], None]},
        schema_overrides={"on": pl.List(pl.String)},
    )
    window = build(SHARDS, rows, Choice(filter=text))
    assert not window.error and names(window) == want


@given(st.text(max_size=30))
@tries(30)
def test_any_filter_text_is_harmless(text: str) -> None:
    window = build(NODES, frame(8), Choice(filter=text))
    assert 0 <= window.height <= 8
    with_find = build(NODES, frame(8), Choice())
    try:
        with_find.find(text, 0)
    except FilterError:
        assert window.error


@pytest.mark.parametrize(
    ("text", "rows"),
    [("cpu>50", [1]), ("led>5000", [1]), ("led_in>4MB/s", [1]), ("pot>9000", []), ("wasted>1", [0]), ("wasted>1.5GBh", []),
     ("wasted>4000000MBs", [0]), ("busy>1.5s", [1]), ("busy<1ms", [0]), ("share>20%", [1]), ("cpu/call>3", [0]),
     ("led in>4MB/s", [1]), ("Led in KB/s > 5000", [1]), ("pot. out > 9000", []), ("cpu % > 50", [1]), ("cpu%>50", [1]),
     ("share > 20% led in>1", [1]), ("n= led in>1", [])],
)  # fmt: skip
def test_a_filter_names_the_title_on_screen_and_compares_in_the_unit_shown(text: str, rows: list[int]) -> None:
    spec = Table(
        "t", "T.",
        (Column("n", pl.Int64, "N."), Column("cpu_pct", pl.Float64, "C.", "%", "percent", title="cpu %"),
         Column("cpu_low", pl.Float64, "C.", kind="number", hidden=True),
         Column("cost", pl.Int64, "C.", kind="number", title="cpu/call"),
         Column("leader_nw_in_kbs", pl.Float64, "L.", "KB/s", "number", title="led in KB/s"),
         Column("pnw_out_kbs", pl.Float64, "P.", "KB/s", "number", title="pot. out KB/s"),
         Column("wasted_mb_s", pl.Int64, "W.", "MB s", "mb_s", title="wasted"),
         Column("busy_us", pl.Float64, "B.", "us", "number", title="busy"),
         Column("share", pl.Float64, "S.", kind="ratio")),
    )  # fmt: skip
    data = pl.DataFrame(
        [[0, 20.0, 99.0, 5, 100.0, 9000.0, 5_000_000, 900.0, 0.1], [1, 60.0, 0.0, 2, 6000.0, 10.0, 90_000, 2e6, 0.3]],
        schema=spec.schema, orient="row",
    )  # fmt: skip
    window = build(spec, data, Choice(filter=text))
    assert not window.error and [row["n"] for row in window.rows(0, 9)] == rows


def test_integers_beyond_a_double_compare_exactly() -> None:
    spec = Table("t", "T.", (Column("n", pl.Int64, "N.", kind="count"),))
    data = pl.DataFrame({"n": [2**60, 2**60 + 1]}, schema=spec.schema)
    assert build(spec, data, Choice(filter=f"n={2**60 + 1}")).rows(0, 9) == [{"n": 2**60 + 1}]
    assert build(spec, data, Choice(filter=f"n>{2**80}")).height == 0


@pytest.mark.parametrize("column", [column.name for column in NODES.columns])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_by_every_column_keeps_all_rows_and_puts_nothing_last(column: str, descending: bool) -> None:
    window = build(NODES, frame(40), Choice(sort=column, descending=descending))
    assert sorted(names(window)) == sorted(frame(40)["name"])
    values = [row[column] for row in window.rows(0, 40)]
    known = [value for value in values if value is not None]
    assert values[: len(known)] == known
    if column in ("cpu", "size", "wait", "seen", "name"):
        assert known == sorted(known, reverse=descending)


def test_sort_is_stable_and_not_a_number_is_last() -> None:
    spec = Table("t", "T.", (Column("k", pl.Int64, "K."), Column("v", pl.Float64, "V.", kind="number")), key=("k",))
    data = pl.DataFrame({"k": [1, 2, 3, 4, 5], "v": [2.0, math.nan, 2.0, math.inf, None]}, schema=spec.schema)
    up = [row["k"] for row in build(spec, data, Choice(sort="v")).rows(0, 9)]
    down = [row["k"] for row in build(spec, data, Choice(sort="v", descending=True)).rows(0, 9)]
    assert up == [1, 3, 4, 2, 5] and down == [4, 1, 3, 2, 5]


def test_reverse_without_a_sort_column() -> None:
    assert names(build(NODES, frame(5), Choice(descending=True))) == [f"node-00{i}" for i in (4, 3, 2, 1, 0)]


def test_keys_are_found_wherever_they_are() -> None:
    window = build(NODES, frame(40), Choice(sort="cpu", filter="state!=ok"))
    for position in range(window.height):
        assert window.locate(window.key(position)) == position
        assert window.locate(window.key(position), position) == position
    assert window.locate(("node-000",)) is None and window.locate(("gone",)) is None and window.locate(None) is None
    assert window.locate((7,)) is None and window.key(999) is None


def test_duplicate_keys_and_null_keys_do_no_harm() -> None:
    data = pl.DataFrame({"name": ["a", None, "a"]}).with_columns(
        [pl.lit(None, dtype=c.dtype).alias(c.name) for c in NODES.columns if c.name != "name"]
    )
    window = build(NODES, data.select(list(NODES.schema)), Choice())
    assert window.locate((None,)) == 1 and window.locate(("a",)) == 0
    assert window.locate(("a",), 2) == 2 and window.locate(("a",), 1) == 0, "where it was, if it is still there"


def test_find_goes_around() -> None:
    window = build(NODES, frame(10), Choice())
    assert window.find("node-003", 0) == 3 and window.find("node-003", 3) == 3 and window.find("zzz", 0) is None
    assert window.find("node", 9) == 0 and window.find("node", 0, -1) == 9


def test_important_columns_stay_when_narrow() -> None:
    columns = w.shown_columns(NODES, frame(3), Choice())
    assert [c.name for c in columns] == ["name", "state", "cpu", "size", "wait", "seen", "note", "trend"]
    for width in range(1, 220):
        places = layout(columns, width)
        shown = [slot.column for slot in places.slots]
        assert places.hidden == len(columns) - len(shown)
        assert shown == [c for c in columns if c in shown], "in declared order"
        worst = max(c.priority for c in shown)
        assert all(c in shown for c in columns if c.priority < worst)
        assert all(a.x + a.width < b.x for a, b in zip(places.slots, places.slots[1:], strict=False))
        if len(shown) > 1:
            assert places.slots[-1].x + places.slots[-1].width <= width


@pytest.mark.parametrize(("name", "note"), [(40, 4), (8, 60), (60, 60), (300, 9)])
def test_no_text_is_cut_while_there_are_blanks(name: int, note: int) -> None:
    needs = {"name": name, "note": note}
    for width in range(20, 400, 7):
        slots = layout(w.shown_columns(NODES, frame(3), Choice()), width, 0, needs).slots
        texts = [(slot.width, needs[slot.column.name]) for slot in slots if slot.column.name in needs]
        blanks = width - slots[-1].x - slots[-1].width + sum(max(wide - need, 0) for wide, need in texts)
        assert not blanks or all(wide >= need for wide, need in texts), width


def test_texts_are_measured_as_they_are_drawn() -> None:
    data = frame(3).with_columns(name=pl.Series(["ring-12", "環-7", ""]), note=pl.lit("rack 1"), state=pl.lit("ok"))
    window = build(NODES, data, Choice())
    assert window.needs == {"name": 7, "note": 6}
    starred = w.Looks({"note": lambda cell: [("* ", "key"), (str(cell.value), "")]})
    assert build(NODES, data, Choice(), looks=starred).needs["note"] == 8
    assert build(NODES, data.with_columns(pl.col("note").cast(pl.Categorical)), Choice()).needs == {
        "name": 7,
        "note": 6,
    }
    wide = build(NODES, data.with_columns(name=pl.lit("環" * 9)), Choice())
    assert wide.needs["name"] == 18


def test_every_column_can_be_scrolled_to() -> None:
    columns = w.shown_columns(NODES, frame(3), Choice())
    seen = set()
    for offset in range(len(columns)):
        places = layout(columns, 40, offset)
        assert places.slots[0].column.name == "name"
        seen |= {slot.column.name for slot in places.slots}
    assert seen == {c.name for c in columns}


def test_chosen_columns_that_are_gone_are_passed_over() -> None:
    found = w.shown_columns(NODES, frame(1), Choice(columns=("cpu", "gone", "name")))
    assert [c.name for c in found] == ["cpu", "name"]
    assert len(w.shown_columns(NODES, frame(40), Choice(columns=("gone",)))) == 8


def test_columns_without_any_value_are_left_out_unless_they_are_chosen() -> None:
    """A null in every row, or no text in any; a key stays, and so does everything of a table without rows."""
    empty = frame(40).with_columns(
        pl.lit(None, pl.Float64).alias("cpu"), pl.lit("").alias("note"), pl.lit("").alias("name")
    )
    shown = [c.name for c in w.shown_columns(NODES, empty, Choice())]
    assert "cpu" not in shown and "note" not in shown and "name" in shown and "wait" in shown
    assert [c.name for c in w.shown_columns(NODES, empty, Choice(columns=("note", "cpu")))] == ["note", "cpu"]
    assert len(w.shown_columns(NODES, empty.clear(), Choice())) == 8
    half = empty.with_columns(pl.Series("note", [""] * 39 + ["x"]))
    assert "note" in [c.name for c in w.shown_columns(NODES, half, Choice())]


ANY = Table(
    "any",
    "Anything.",
    (
        Column("text", pl.String, "T.", priority=0),
        Column("level", pl.String, "L.", kind="level"),
        Column("number", pl.Float64, "N.", kind="number"),
        Column("bytes", pl.Int64, "B.", kind="bytes"),
        Column("at", pl.Int64, "A.", kind="time_ms"),
        Column("flag", pl.Boolean, "F.", kind="flag"),
        Column("spark", pl.List(pl.Float64), "S.", kind="spark"),
        Column("bar", pl.Float64, "X.", kind="number", width=12),
        Column("change", pl.Float64, "Y.", kind="number", width=12),
        Column("strip", pl.String, "Z.", width=5),
    ),
    key=("text",),
)
RENDERERS = {
    "bar": share_bar(text="number"),
    "change": change_bar("number", "bar", limit="change"),
}
floats = st.one_of(st.none(), st.floats(width=64))
rows = st.lists(
    st.tuples(
        st.one_of(st.none(), st.text(max_size=40)),
        st.one_of(st.none(), st.text(max_size=10), st.sampled_from(["SEVERE", "ok", "Critical"])),
        floats,
        st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        st.one_of(st.none(), st.booleans()),
        st.one_of(st.none(), st.lists(floats, max_size=30)),
        floats,
        floats,
        st.one_of(st.none(), st.text("01234x", max_size=12)),
    ),
    max_size=4,
)


@given(
    rows,
    st.integers(1, 160),
    st.sampled_from(sorted(SETS)),
    st.booleans(),
    st.sampled_from([c.name for c in ANY.columns]),
)
@tries(30)
def test_every_line_is_as_wide_as_asked_whatever_the_data(data, width: int, glyphs: str, down: bool, sort: str) -> None:
    table = pl.DataFrame(
        [pl.Series(c.name, [row[i] for row in data], dtype=c.dtype) for i, c in enumerate(ANY.columns)]
    )
    window = build(ANY, table, Choice(sort=sort, descending=down), looks=w.Looks(RENDERERS))
    places = layout(window.columns, width, 0, window.needs)
    lines = w.lines(window, 0, 10, places, width, SETS[glyphs])
    assert len(lines) == len(data)
    for line in [*lines, w.header(window, places, width, SETS[glyphs], "bar")]:
        assert width_of(line) == width
        text = plain(line)
        assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in text)


def test_hundred_thousand_rows_are_quick_enough_to_sort_and_filter() -> None:
    """Not a benchmark (see tests/bench): a guard against work per row in Python."""
    import time

    data = frame(200)
    big = pl.concat([data] * 500)
    begun = time.process_time()
    build(NODES, big, Choice(sort="name", filter="rack cpu>20"))
    assert time.process_time() - begun < 3.0


def test_of_titles_with_one_first_word_the_first_that_suits_the_value_is_compared() -> None:
    columns = (
        Column("share", pl.Float64, "S.", "%", "percent", title="CPU share %"),
        Column("cpu_s", pl.Float64, "C.", "s", "s", title="CPU s"),
        Column("cpus", pl.Float64, "C.", kind="number", title="CPUs"),
    )
    spec = Table("t", "T.", columns)
    data = pl.DataFrame([[60.0, 1.0, 0.1], [10.0, 90.0, 0.2]], schema=spec.schema, orient="row")
    shares = {text: build(spec, data, Choice(filter=text)).rows(0, 9) for text in ("cpu>50", "cpu>5s", "cpus>0.1")}
    assert [[row["share"] for row in rows] for rows in shares.values()] == [[60.0], [10.0], [10.0]]


def test_texts_that_are_held_once_sort_and_filter_as_texts_do() -> None:
    texts = pl.DataFrame({"name": ["b", "a", "C", None, "a"], "state": ["critical", "low", "LOW", "none", ""]})
    once = texts.with_columns(pl.all().cast(pl.Categorical))
    for choice in (
        Choice(sort="name"), Choice(sort="name", descending=True), Choice(sort="state"), Choice(filter="a"),
        Choice(filter="name=c"), Choice(filter="state>=low"), Choice(filter="name~^[ab]"), Choice(filter="state="),
    ):  # fmt: skip
        left, right = build(NODES, texts, choice), build(NODES, once, choice)
        assert left.order.equals(right.order) and left.rows(0, 9) == right.rows(0, 9), choice
        assert [column.name for column in left.columns] == [column.name for column in right.columns]


@pytest.mark.parametrize("entry", VIEWS)
def test_a_column_shown_at_one_width_is_shown_at_every_greater_one(entry: Entry) -> None:
    for table in entry.load().tables:
        for alone in (True, False):
            before: set[str] = set()
            for width in range(80 + alone, 221, 2):
                panel, room = (0, 0) if alone else beside(table.columns, width, {})
                places = layout(table.columns, width - panel - bool(panel), 0, {}, room)
                shown = {slot.column.name for slot in places.slots}
                assert before <= shown, f"{entry.name}/{table.name} at {width}"
                assert all(slot.x + slot.width <= width - panel for slot in places.slots)
                before = shown
