"""Statements of PostgreSQL's logs, of mysql.slow_log and of CloudWatch, and the CPU of the server alone, in their spellings."""

from __future__ import annotations

import json

import pytest

from engine.core.view import Result
from tests.engine.query_profile.builders import compute, kinds

AT = "2026-01-01 00:00:%02d.500 UTC [7%d] LOG:  "
SLOW = "".join(
    f"# Time: 2026-01-01T00:{i // 2:02d}:{i % 2 * 30 + 1:02d}Z\n# User@Host: a[a] @ h []  Id: 1\n"
    f"# Query_time: {0.2 + i % 3}  Lock_time: 0.0 Rows_sent: 1  Rows_examined: 10\nSELECT {i} FROM t\n"
    for i in range(10)
)


def classes(result: Result) -> list[tuple[object, ...]]:
    """Text, calls, time in ms, user and database of the classes, most time first."""
    rows = result.tables["classes"].select("query", "calls", "x_total", "user", "database").rows()
    return [(query, calls, round(time / 1000, 3), user, database) for query, calls, time, user, database in rows]


def engine_row(text: str) -> str:
    return f'"2026-01-01 00:00:04","s[s] @ w [10.0.0.9]","00:00:01.5","00:00:00.1",1,9,"one",0,0,1,"{text}",12,0\n'


EVENTS = [
    {"timestamp": 2, "message": "\tFROM t"},
    {
        "timestamp": 1,
        "message": "2026-01-01 00:00:01 UTC:10.0.0.9(4):s@shop:[71]:LOG:  duration: 12.5 ms  statement: SELECT a",
    },
]


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("a.log", AT % (1, 1) + "statement: SELECT 1\n" + AT % (2, 1) + "duration: 5.0 ms\n", [("select ?", 1, 5, "", "")]),
        ("a.log", AT % (1, 1) + "duration: 5 ms  plan:\n\tQuery Text: SELECT a\n\tFROM t\n\tSeq Scan on t  (cost=0.00..1.00)\n",
         [("select a from t", 1, 5, "", "")]),
        ("a.log", "2026-01-01 00:00:01 CET [71]: [3-1] user=s,db=shop,client=h LOG:  duration: 5 ms  statement: SELECT a\n",
         [("select a", 1, 5, "s", "shop")]),
        ("a.log", "1767225601.500 [71] LOG:  duration: 5.0 ms  execute fetch from s/c: SELECT a\n", [("select a", 0, 5, "", "")]),
        ("a.csv", '2026-01-01 00:00:01.500 UTC,"s","shop",71,"h:3",6b,8,"SELECT",2025-12-31 22:22:56 UTC,5/0,0,LOG,00000,'
         '"duration: 5 ms  statement: SELECT ""a""\nFROM t",,,,,,,,,"api"\n', [("select \"a\" from t", 1, 5, "s", "shop")]),
        ("slow_log.CSV", engine_row("SELECT a\\n FROM `t` WHERE b = \\\"x\\\""),
         [("select a from `t` where b = ?", 1, 1500, "s", "one")]),
        ("slow_log.tsv", "start_time\tuser_host\tquery_time\tlock_time\tdb\tsql_text\n"
         "2026-01-01 00:00:04\ts[s] @ w []\t25:00:01\t00:00:00\tone\t0x53454C4543542061\n",
         [("select a", 1, 90_001_000, "s", "one")]),
        ("events.json", json.dumps({"events": EVENTS}), [("select a from t", 1, 12.5, "s", "shop")]),
    ],
)  # fmt: skip
def test_statements_are_read_in_every_form(name: str, text: str, wanted: list[tuple[object, ...]]) -> None:
    assert classes(compute({name: text.encode()}, draws="0")) == wanted


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (AT % (1, 1) + "Dauer: 5.123 ms  Anweisung: SELECT 1\n", "other-language"),
        (AT % (1, 1) + "checkpoint starting: time\n", "no-durations"),
        ((AT % (1, 1)).replace("UTC", "CST") + "duration: 5 ms  statement: SELECT 1\n", "bad-time"),
        (AT % (1, 1) + "duration: 5 ms\n", "no-statement"),
        (AT % (1, 1) + "duration: 5.0.1 ms  statement: SELECT 1\n", "bad-number"),
    ],
)
def test_a_log_that_cannot_tell_says_what_to_set(text: str, kind: str) -> None:
    assert kind in kinds(compute({"a.log": text.encode()}, draws="0"))


MINUTES = range(1_767_225_600, 1_767_225_960, 60)


@pytest.mark.parametrize(
    ("files", "us"),
    [
        ({f"cpuacct.stat-{at}": f"user {i * 10}\nsystem {i * 2}\n" for i, at in enumerate(MINUTES)}, 480_000),
        ({"group.txt": "".join(f"{at}\nuser {i * 10}\nsystem {i * 2}\n" for i, at in enumerate(MINUTES))}, 480_000),
        ({f"cpuacct.usage-{at}": f"{i * 100_000_000}\n" for i, at in enumerate(MINUTES)}, 400_000),
        ({"cpu.txt": "".join(f"2026-01-01T00:{i:02d}:00Z\nusage_usec {i}\nuser_usec {i * 9000}\nsystem_usec {i * 1000}\n"
                             f"throttled_usec {i * 9_000_000}\n" for i in range(6))}, 40_000),
        ({"pidstat.txt": "Linux 6.1 (db1) \t01/01/26 \t_x86_64_\t(2 CPU)\n\n12:00:00 AM   UID   PID  %usr %system  %CPU Command\n"
          + "".join(f"12:0{i}:00 AM   101   16    1.00    1.00    2.00  mariadbd\n" for i in range(1, 6))}, 4_800_000),
    ],
)  # fmt: skip
def test_the_servers_own_cpu_is_read_in_every_form(files: dict[str, str], us: float) -> None:
    result = compute({"slow.log": SLOW.encode(), **{name: text.encode() for name, text in files.items()}}, draws="0")
    assert result.summary["y_measured"] == pytest.approx(us) and result.summary["cores"] in (None, 2.0)
    assert any("throttled for 15%" in note for note in result.notes) == ("cpu.txt" in files)


def test_a_row_listed_twice_counts_wherever_it_stands() -> None:
    head = "captured_at\tSCHEMA_NAME\tDIGEST\tDIGEST_TEXT\tCOUNT_STAR\tSUM_TIMER_WAIT\n"
    rows = {
        f"digest-{1_767_225_600 + 60 * i}.tsv": head
        + "".join(f"2026-01-01 00:0{i}:00\tshop\t{d}\tSELECT {d}\t{i}\t{i * 10**12}\n" for d in ("a", "b", "a", "c"))
        for i in range(2)
    }
    result = compute({name: text.encode() for name, text in rows.items()}, draws="0")
    assert [row[1] for row in classes(result)] == [2, 1, 1]
