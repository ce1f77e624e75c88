"""Hadoop's XML: what it reads, and files made to take time or memory."""

from __future__ import annotations

import pytest

from engine.formats.hadoop_xml import MAX_BYTES, MAX_TAGS, BadXml, properties

OPEN, CLOSE = b"<configuration>", b"</configuration>"


def test_the_last_value_counts_unless_an_earlier_one_is_final() -> None:
    def one(name: str, value: str, more: str = "") -> bytes:
        return f"<property><name> {name} </name><value>{value}</value>{more}</property>".encode()

    data = (
        one("a", "1") + one("a", "2", "<source>x.xml</source>") + one("b", "1", "<final>true</final>") + one("b", "2")
    )
    assert properties(OPEN + data + CLOSE) == [("a", "2", "x.xml"), ("b", "1", None)]


@pytest.mark.parametrize(
    "data",
    [
        b"", b"<a/>", OPEN, OPEN + b"&x;" + CLOSE, b'<!DOCTYPE c [<!ENTITY x "y">]>' + OPEN + CLOSE,
        OPEN + b" " * MAX_BYTES + CLOSE, OPEN + b"<a/>" * (MAX_TAGS + 1) + CLOSE,
        f"<?xml version='1.0' encoding='utf-16'?>{OPEN.decode()}{CLOSE.decode()}".encode("utf-16"),
        b"<configuration xmlns='" + b"u" * 300 + b"'>" + b"".join(b"<a%d/>" % i for i in range(1000)) + CLOSE,
    ],
    ids=["empty", "root", "cut", "entity", "doctype", "large", "tags", "utf-16", "namespace"],
)  # fmt: skip
def test_what_is_refused(data: bytes) -> None:
    with pytest.raises(BadXml):
        properties(data)


@pytest.mark.parametrize(
    "inner", [b"<a>" * 200_000 + b"</a>" * 200_000, b"<a " + b" ".join(b'a%d="1"' % i for i in range(50_000)) + b"/>"]
)
def test_odd_shapes_are_no_trouble(inner: bytes) -> None:
    assert properties(OPEN + inner + CLOSE) == []
