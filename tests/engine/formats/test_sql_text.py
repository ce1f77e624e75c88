"""Classes, verbs and labels of statements."""

from __future__ import annotations

import pytest

from engine.formats.sql_text import LABEL, fingerprint, label, shape, verb


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT * FROM t WHERE a = 5 AND b = 'x''y'", "select * from t where a = ? and b = ?"),
        ("select a from T2 where x in (1, 2,3)", "select a from t2 where x in (?+)"),
        ("INSERT INTO t (a,b) VALUES (1,'a'),(2,'b')", "insert into t (a,b) values (?+)"),
        ("UPDATE i SET p = p - 3 WHERE id=-4", "update i set p = p -? where id=?"),
        ("SELECT 1 -- comment\n;", "select ?"),
        ("/* hint */ SELECT `Total` FROM x LIMIT 10, 20", "select `total` from x limit ?"),
        ("SELECT 0x1F, 1e-5, null", "select ?, ?, ?"),
    ],
)
def test_fingerprints(query: str, wanted: str) -> None:
    found = fingerprint(query)
    assert found.replace("- ?", "-?") == wanted
    assert fingerprint(found) == found


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (
            'SELECT "users".* FROM "users" WHERE "users"."id" = 7',
            'select "users".* from "users" where "users"."id" = ?',
        ),
        ("SELECT a #>> '{x}' FROM T WHERE b = 'C:\\' AND c = 'd'", "select a #>> ? from t where b = ? and c = ?"),
        ("SELECT $q$it's$q$, $$a$$, E'x\\'y', 3 --c", "select ?, ?, ?, ?"),
    ],
)
def test_fingerprints_of_postgresql(query: str, wanted: str) -> None:
    assert fingerprint(query, postgres=True) == wanted
    assert fingerprint(wanted, postgres=True) == wanted
    kept, same, other = (
        shape(each, postgres=True) for each in (query, query.replace("7", "8"), query.replace("users", "x"))
    )
    assert kept is None or kept == same != other


def test_verbs() -> None:
    assert [verb(q) for q in ("select 1", "  (WITH x", "/* a */ UPDATE t", "", "?")] == [
        "SELECT",
        "WITH",
        "UPDATE",
        "?",
        "?",
    ]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (
            "SELECT NAME , `price` FROM `shop` . `items` WHERE ID = ? ",
            "SELECT NAME, price FROM shop.items WHERE ID = ?",
        ),
        ("SELECT COUNT ( * ) , AVG ( `price` ) FROM `items`", "SELECT COUNT (*), AVG (price) FROM items"),
        ("/* app:web */\n  SELECT\n\ta,\n b FROM t;", "SELECT a, b FROM t"),
        ("SELECT a,··b··FROM t", "SELECT a, b FROM t"),
        ("/* app */ (SELECT a) UNION (SELECT b)", "(SELECT a) UNION (SELECT b)"),
        ("", ""),
        ("/* only a comment", "/* only a comment"),
        ("x" * 500, "x" * (LABEL - 1) + "…"),
    ],
)
def test_labels_are_one_short_line(query: str, wanted: str) -> None:
    assert label(query) == wanted
