"""Lines of the slow log: what they say, and what damaged ones cost."""

from __future__ import annotations

from typing import Any

import pytest

from engine.query_profile.workloads import deltas
from tests.engine.query_profile.builders import compute, read


def log(*comments: str, sql: str = "SELECT 1;", stamp: str = "1767225600") -> bytes:
    lines = [
        "# Time: 2026-01-01T00:00:00Z",
        *comments,
        "# Query_time: 1.5  Lock_time: 0.1 Rows_sent: 1  Rows_examined: 2",
    ]
    return "\n".join([*lines, f"SET timestamp={stamp};", sql, ""]).encode()


def row(*comments: str, **parts: str) -> dict[str, Any]:
    rows = read("slow.log", log(*comments, **parts), "slow-log").rows["interval_classes"]
    return {name: values[0] for name, values in rows.items()}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("comment", "user"),
    [
        ("# User@Host: root[app] @ localhost []  Id: 5", "app"),
        ("# User@Host: root @ localhost [127.0.0.1]", "root"),
        ("# User@Host: x[a@b] @ db [::1]", "a@b"),
        ("# User@Host: [svc] @ db", "svc"),
        ("# User@Host:   ", ""),
        ("# User@Host: " + " " * 60_000, ""),
    ],
)
def test_the_user(comment: str, user: str) -> None:
    assert row(comment)["user"] == user


@pytest.mark.parametrize(
    ("comment", "database"),
    [
        ("# Thread_id: 5  Schema: shop  QC_hit: No", "shop"),
        ("# Thread_id: 5  Schema:   QC_hit: No", ""),
        ("# Schema: a:b  Last_errno: 0", "a:b"),
        ("# Schema:", ""),
        ("# Thread_id: 5", "used"),
        ("# " + "Schema" * 10_000, "used"),
    ],
)
def test_the_database(comment: str, database: str) -> None:
    """An empty schema is one, too: the statement had none, whatever was used before."""
    used = b"# Query_time: 1  Lock_time: 0\nuse used;\nSELECT 2;\n" + log(comment)
    rows = read("slow.log", used, "slow-log").rows["interval_classes"]
    assert rows["database"][-1] == database  # type: ignore[index]


@pytest.mark.parametrize(
    "comment",
    ["# Query_time: 1e400", "# Query_time: 1  Rows_sent: 1e300", "# Query_time: 1 Lock_time: nan", "# Query_time: x",
     "# Query_time:", "# Query_time: 1  Log_slow_rate_limit: 1e300", "# Query_time: -1"],
)  # fmt: skip
def test_a_damaged_number_costs_its_statement(comment: str) -> None:
    data = b"# User@Host: a[a] @ b\n" + comment.encode() + b"\nSELECT 1;\n" + log()
    reading = read("slow.log", data, "slow-log")
    assert [problem.kind for problem in reading.problems] == ["bad-number"]
    assert reading.rows["interval_classes"]["calls"] == [1.0]  # type: ignore[index]


def test_times_that_are_millennia_apart_make_no_million_intervals() -> None:
    data = log() + log().replace(b"2026-01-01", b"9999-12-31") + log().replace(b"2026-01-01", b"0002-01-01")
    result = compute({"slow.log": data}, draws="0")
    assert result.tables["classes"]["calls"].sum() == 3
    assert result.tables["intervals"].height <= deltas.MOST_BUCKETS + 1


def test_a_stamp_beyond_all_times_is_left_alone() -> None:
    old = log(stamp="999999999999").replace(b"2026-01-01T00:00:00Z", b"260101  0:00:00")
    result = compute(
        {"slow.log": old, "cpu.csv": b"captured_at,user_us\n2020-01-01T00:00:00Z,1\n2020-01-01T00:01:00Z,2\n"}
    )
    assert result.tables["classes"]["calls"].to_list() == [1.0]
