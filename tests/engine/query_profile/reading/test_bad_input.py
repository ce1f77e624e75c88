"""Bad input: a problem each, never a crash, a hang or a silent wrong number; the good rows count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.query_profile.reading.wlr_csv import go_number
from tests.chance import tries
from tests.engine.query_profile.builders import compute, kinds, read
from tests.reference import reference


def table(*rows: str) -> dict[str, bytes]:
    return {"t.csv": "\n".join(rows).encode()}


GOOD = ["q.a,q.b,user_us", "10,5,30", "20,9,50", "30,7,80"]


@pytest.mark.parametrize(
    ("bad", "kind", "line"),
    [
        ("1,2", "ragged-row", 5),
        ("1,2,3,4", "ragged-row", 5),
        ("1,,3", "bad-number", 5),
        (" 10,5,30", "bad-number", 5),
        ("#1,2,3", "bad-number", 5),
        ("a,5,30", "bad-number", 5),
        ("1e999,5,30", "bad-number", 5),
        ("10,NaN,30", "not-finite", 5),
        ("10,5,-Inf", "not-finite", 5),
        ('10,"5,30', "bad-number", 5),
        ('10,"5"0,30', "bad-number", 5),
        ("10\r,5,30", "bad-number", 5),
        ("10,-5,30", "negative-value", 5),
    ],
)
def test_a_bad_row_is_reported_with_its_line_and_the_others_count(bad: str, kind: str, line: int) -> None:
    result = compute(table(*GOOD, bad), method="wlr")
    assert [(p.kind, p.line) for p in result.problems] == [(kind, line)]
    plain = compute(table(*GOOD), method="wlr")
    if kind != "negative-value":
        assert (
            result.tables["classes"]
            .select("class", "slope", "n")
            .equals(plain.tables["classes"].select("class", "slope", "n"))
        )


def test_numbers_that_go_parses_count() -> None:
    rows = ["q.a,q.b,user_us", "1e1,+20,30", "0x1.ep4,.7e1,50", "4_1,7,80", "", "9,8,70\r"]
    result = compute(table(*rows), method="wlr")
    assert result.problems == ()
    assert result.tables["classes"].sort("class")["x_total"].to_list() == [10 + 30 + 41 + 9, 20 + 7 + 7 + 8]


@pytest.mark.parametrize(
    ("text", "number"),
    [("4_1", 41.0), ("_4", None), ("4__1", None), ("", None), (" 1", None), ("1e400", None), ("-inf", float("-inf")),
     ("0x10", None), ("0x1p4", 16.0), ("١", None), ("+-1", None), ("Infinity", float("inf")), ("1_", None)],
)  # fmt: skip
def test_number_syntax_of_go(text: str, number: float | None) -> None:
    assert go_number(text) == number


def test_duplicate_headers_last_one_counts() -> None:
    result = compute(table("q.a,q.a,user_us", "1,10,30", "2,20,50", "3,30,80"), method="wlr")
    assert kinds(result) == ["duplicate-column"]
    assert result.tables["classes"]["x_total"].to_list() == [60]


def test_byte_order_mark_is_reported_and_ignored() -> None:
    files = {"t.csv": b"\xef\xbb\xbf" + "\n".join(["user_us,q.a", "30,10", "50,20", "80,30"]).encode()}
    result = compute(files, method="wlr")
    assert kinds(result) == ["byte-order-mark"]
    assert result.summary["rows_trained"] == 3


@pytest.mark.parametrize("header", ["q.a,q.b, user_us", "q.a,q.b,cpu"])
def test_missing_target_is_always_reported(header: str) -> None:
    result = compute(table(header, *GOOD[1:]), method="wlr")
    assert "missing-target" in kinds(result)
    assert result.tables["classes"].height == 0
    chosen = compute(table("q.a,q.b,cpu", *GOOD[1:]), target="cpu", method="wlr")
    assert chosen.problems == ()
    assert chosen.summary["rows_trained"] == 3


def test_missing_target_of_snapshots_lists_the_series() -> None:
    root = reference("query-profile") / "capture-pg15"
    files = {f"pgss/{p.name}": p.read_bytes() for p in sorted((root / "pgss").iterdir())[:6]}
    files["cpu.csv"] = (root / "cpu/db_process_cpu.csv").read_bytes()
    result = compute(files, target="io_us2")
    assert any(p.kind == "missing-target" and "user_us" in p.reason for p in result.problems)


PGSS = "userid,dbid,toplevel,queryid,query,calls,total_exec_time,rows"


def pgss(*rows: str, header: str = PGSS) -> bytes:
    return "\n".join([header, *rows, ""]).encode()


CPU = b"captured_at,user_us,system_us\n2026-01-01T00:00:00Z,0,0\n2026-01-01T00:01:00Z,5000,100\n2026-01-01T00:02:00Z,9000,200\n"


def snapshots(*texts: bytes, cpu: bytes = CPU) -> dict[str, bytes]:
    names = [f"pgss-20260101T000{i}00Z.csv" for i in range(len(texts))]
    return {**dict(zip(names, texts, strict=True)), "cpu.csv": cpu}


def test_hostile_query_text_is_cleaned_and_complete() -> None:
    query = '"SELECT [red]1[/b]\n, \x1b]0;owned\x07 \u202e x"'
    result = compute(
        snapshots(
            pgss(f"10,5,t,77,{query},1,1.5,1"), pgss(f"10,5,t,77,{query},3,4.5,1"), pgss(f"10,5,t,77,{query},4,5.5,1")
        )
    )
    row = result.tables["classes"].row(0, named=True)
    assert row["calls"] == 3
    assert row["x_total"] == pytest.approx(4000)
    assert "\x1b" not in row["query"]
    assert "\n" not in row["query"]
    assert "\u202e" not in row["query"]
    assert "[red]" in row["query"]


def test_rounded_queryids_join_by_text_and_are_reported() -> None:
    rows = [f"10,5,t,{i}234567890123456700,SELECT {i},{{n}},{{n}},1" for i in range(1, 6)]
    texts = [pgss(*(row.format(n=n) for row in rows)) for n in (1, 3, 6)]
    again = [text.replace(b"1234567890123456700", b"1.23456789012346e+18") for text in texts[1:]]
    result = compute(snapshots(texts[0], *again))
    assert "rounded-queryid" in kinds(result)
    assert result.tables["classes"].height == 5
    assert result.tables["classes"]["calls"].to_list() == [5] * 5


def test_an_id_beyond_64_bits_does_not_affect_the_others() -> None:
    texts = [pgss(f"10,5,t,7,SELECT 7,{n},{n},1", f"10,5,t,{n}e+308,SELECT 8,{n},{n},1") for n in (1, 3)]
    result = compute(snapshots(pgss("10,5,t,7,SELECT 7,0,0,1"), *texts))
    assert "rounded-queryid" not in kinds(result)
    assert result.tables["classes"].height == 3  # by id: 7, and two that no 64 bits hold


def test_clock_running_backwards() -> None:
    cpu = (
        b"captured_at,user_us,system_us\n2026-01-01T00:01:00Z,0,0\n2026-01-01T00:00:00Z,5,5\n2026-01-01T00:02:00Z,9,9\n"
    )
    result = compute(snapshots(pgss("10,5,t,7,S,1,1,1"), pgss("10,5,t,7,S,2,2,1"), pgss("10,5,t,7,S,3,3,1"), cpu=cpu))
    assert "clock-backwards" in kinds(result)
    header = "captured_at," + PGSS
    text = pgss(
        "2026-01-01T00:00:00Z,10,5,t,7,S,1,1,1",
        "2026-01-01T00:02:00Z,10,5,t,7,S,5,5,1",
        "2026-01-01T00:01:00Z,10,5,t,7,S,9,9,1",
        header=header,
    )
    result = compute({"all.csv": text, "cpu.csv": CPU})
    intervals = result.tables["intervals"]
    assert "clock ran backwards" in intervals["reason"].to_list()[1]
    assert intervals["used"].to_list()[1] is False


def test_bad_counters_leave_their_row_out() -> None:
    for bad, kind in (
        ("10,5,t,8,S,x,1,1", "bad-number"),
        ("10,5,t,8,S,NaN,1,1", "bad-number"),
        ("10,5,t,8,S,-1,1,1", "negative-value"),
        ("10,5,t,8,S,,1,1", "bad-record"),
        ("10,5,t,8,S,1", "ragged-row"),
    ):
        reading = read("pgss-1.csv", pgss("10,5,t,7,S,1,1,1", bad), "pgss-csv")
        assert [p.kind for p in reading.problems] == [kind]
        assert reading.problems[0].line == 3
        assert len(reading.rows["snapshots"]) == 1


def test_a_truncated_json_file_gives_its_complete_samples() -> None:
    data = (reference("query-profile") / "examples/mpstat-still-running.json").read_bytes()
    reading = read("mpstat.json", data, "sysstat-json")
    assert [p.kind for p in reading.problems] == ["cut-file"]
    assert len(reading.rows["host"]["at_ms"]) == 2 * 5
    broken = read("mpstat.json", data[:200], "sysstat-json")
    assert not broken.complete


@pytest.mark.parametrize("stamp", ["{}", '{"date":"2026-01-01","time":"00:00:30"}'])
def test_a_sample_says_of_itself_alone_which_tool_wrote_it(stamp: str) -> None:
    stamps = ('"00:00:10"', '"00:00:20"', stamp)
    samples = ",".join(f'{{"timestamp":{each},"cpu-load":[{{"cpu":"all","usr":1.5,"idle":98.5}}]}}' for each in stamps)
    host = f'{{"nodename":"a","number-of-cpus":2,"date":"2026-01-01","statistics":[{samples}]}}'
    rows = read("mpstat.json", f'{{"sysstat":{{"hosts":[{host}]}}}}'.encode(), "sysstat-json").rows["host"]
    assert set(zip(rows["at_ms"], rows["source"], strict=True)) == {
        (1767225610000, "mpstat"), (1767225620000, "mpstat"), *([] if stamp == "{}" else [(1767225630000, "sadf")])
    }  # fmt: skip


def test_several_hosts_are_never_mixed() -> None:
    one = pgss("10,5,t,7,S,1,1,1")
    files = {f"{host}-pgss-20260101T000{i}00Z.csv": one for host in ("db1", "db2") for i in range(3)}
    result = compute({**files, "cpu.csv": CPU})
    assert result.tables["sources"].height == 2
    assert any("one server at a time" in note for note in result.notes)
    sadf = (
        b"# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle\n"
        b"a;60;2026-01-01 00:01:00 UTC;-1;10;0;1;0;0;89\na;60;2026-01-01 00:02:00 UTC;-1;10;0;1;0;0;89\n"
        b"b;60;2026-01-01 00:01:00 UTC;-1;20;0;1;0;0;79\nb;60;2026-01-01 00:02:00 UTC;-1;20;0;1;0;0;79\n"
    )
    result = compute({**{k: v for k, v in files.items() if k.startswith("db1")}, "sadf.csv": sadf})
    assert "several-hosts" in kinds(result)


@tries(12)
@given(
    st.lists(
        st.lists(st.sampled_from(["0", "1", "700", "NaN", "-5", "", "1e300", "+Inf", "x"]), min_size=3, max_size=3),
        max_size=8,
    ),
    st.sampled_from(["wlr", "default", "ols", "nnls", "ratio"]),
    st.sampled_from(["upstream", "safe"]),
)
def test_any_small_table_gives_a_result(rows: list[list[str]], method: str, rules: str) -> None:
    result = compute(table("q.a,q.b,user_us", *(",".join(row) for row in rows)), method=method, rules=rules)
    for value in result.summary.values():
        assert not isinstance(value, float) or value == value


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("sysstat-json", "mpstat.json",
         '{"sysstat":{"hosts":[{"date":"2026-01-01","statistics":['
         '{"timestamp":"00:00:05","cpu-load":[{"cpu":"all","usr":1,"sys":1,"idle":98}]},'
         '{"timestamp":"00:00:10","cpu-load":[{"cpu":"all","usr":2,"sys":-1,"idle":98}]},'
         '{"timestamp":"00:00:20","cpu-load":[{"cpu":"all","usr":4,"sys":1,"idle":95}]}]}]}}'),
        ("cpu-csv", "cpu.csv", "captured_at,user_us\n2026-01-01T00:00:05Z,1\n2026-01-01T00:00:10Z,-2\n2026-01-01T00:00:20Z,4\n"),
    ],
)  # fmt: skip
def test_no_share_of_a_cpu_is_below_0(kind: str, name: str, text: str) -> None:
    """Its sample is left out, as if it were not there."""
    reading = read(name, text.encode(), kind)
    rows = reading.rows["host"]
    taken = [(value, seconds) for what, value, seconds in zip(rows["name"], rows["value"], rows["seconds"], strict=True)
             if what == "user_us"]  # fmt: skip
    assert [value for value, _ in taken] == [1.0, 4.0] and {seconds for _, seconds in taken} <= {15.0, None}
    assert [problem.kind for problem in reading.problems] == ["bad-number"] and "below 0" in reading.problems[0].reason
