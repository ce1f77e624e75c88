"""Hadoop's configuration XML, read as Hadoop 2 reads it."""

from __future__ import annotations

import pytest

from engine.formats import hadoop_xml
from engine.formats.hadoop_xml import BadXml, properties


def read(*rows: str, **renamed: str) -> dict[str, str]:
    data = "<configuration>" + "".join(rows) + "</configuration>"
    return {name: value for name, value, _ in properties(data.encode(), renamed)}


def row(name: str, value: str, more: str = "") -> str:
    return f"<property><name>{name}</name><value>{value}</value>{more}</property>"


def test_names_are_trimmed_and_values_are_not() -> None:
    assert read(row("\n a ", " 5 "), row("b", "x\ny")) == {"a": " 5 ", "b": "x\ny"}
    assert read(row(" ", "1")) == {"": "1"} and read(row("", "1")) == {}


def test_an_empty_value_sets_nothing() -> None:
    assert read(row("a", ""), row("b", "1"), row("b", "")) == {"b": "1"}
    assert read("<property><name>a</name><value>1</value><value></value></property>") == {"a": "1"}


def test_the_last_value_counts_unless_one_was_final() -> None:
    assert read(row("a", "1"), row("a", "2")) == {"a": "2"}
    assert read(row("a", "1", "<final>true</final>"), row("a", "2")) == {"a": "1"}
    assert read(row("a", "1", "<final> true</final>"), row("a", "2")) == {"a": "2"}
    assert read(row("a", "", "<final>true</final>"), row("a", "2")) == {}


def test_an_old_name_counts_at_its_place() -> None:
    assert read(row("old", "1"), row("new", "2"), old="new") == {"new": "2"}
    assert read(row("new", "1"), row("old", "2"), old="new") == {"new": "2"}
    assert read(row("old", "1", "<final>true</final>"), row("new", "2"), old="new") == {"new": "1"}


def test_text_ends_at_the_first_element_and_comments_are_skipped() -> None:
    assert read(row("a", "x<!-- c -->y"), row("b", "1&amp;2"), row("c", "<![CDATA[<q>]]>")) == {
        "a": "xy", "b": "1&2", "c": "<q>",
    }  # fmt: skip


def test_only_children_of_a_configuration_are_properties() -> None:
    assert read(f"<w>{row('a', '1')}</w>", f"<configuration>{row('b', '2')}</configuration>") == {"b": "2"}
    assert read("<foo><name>g</name><value>3</value></foo>") == {"g": "3"}
    assert properties(b'<configuration xmlns="u"><property><name>a</name><value>1</value></property></configuration>')


@pytest.mark.parametrize(
    "data",
    [
        b'<!DOCTYPE c [<!ENTITY a "b"><!ENTITY b "&a;&a;">]><configuration/>', b"<configuration>", b"", b"\xff\xfe\0",
        b"<other/>", b"<configuration>" + b"<a>" * 100_000, b"<configuration>" + b"<a/>" * hadoop_xml.MAX_TAGS,
        b"<configuration/>" + b" " * hadoop_xml.MAX_BYTES,
    ],
    ids=["bomb", "open", "empty", "no text", "other root", "deep", "many", "long"],
)  # fmt: skip
def test_other_documents_are_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(BadXml):
        properties(data)


OPEN, CLOSE = b"<configuration>", b"</configuration>"


@pytest.mark.parametrize(
    "data",
    [
        f"<?xml version='1.0' encoding='utf-16'?>{OPEN.decode()}{CLOSE.decode()}".encode("utf-16"),
        b"<configuration xmlns='" + b"u" * 300 + b"'>" + b"".join(b"<a%d/>" % i for i in range(1000)) + CLOSE,
    ],
    ids=["utf-16", "namespace"],
)
def test_documents_that_take_much_memory_are_refused(data: bytes) -> None:
    with pytest.raises(BadXml):
        properties(data)
