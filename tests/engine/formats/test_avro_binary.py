"""Schemas and data that announce more than there is."""

from __future__ import annotations

from typing import Any

import pytest

from engine.formats.avro_binary import BadRecord, BadSchema, Compiler


def record(kind: Any, name: str = "r") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "a", "type": kind}]}


def skip(schema: dict[str, Any], data: bytes) -> int:
    return Compiler(schema).skipper(schema)(data, 0)


SIXTY_MILLION = b"\x80\xae\x9c\x39"
"""60,000,000 as a zigzag number."""


def test_items_of_no_bytes_cost_no_time() -> None:
    assert skip(record({"type": "array", "items": "null"}), SIXTY_MILLION + b"\0") == 5
    inner = {"type": "array", "items": {"type": "record", "name": "n", "fields": []}}
    many = b"\x80\x80\x02" + (SIXTY_MILLION + b"\0") * 16_384 + b"\0"
    assert skip(record({"type": "array", "items": inner}), many) == len(many)


@pytest.mark.parametrize("kind", ["double", "string", "long", {"type": "fixed", "name": "f", "size": 3}])
def test_an_array_beyond_the_data_waits_for_more(kind: Any) -> None:
    with pytest.raises(IndexError):
        skip(record({"type": "array", "items": kind}), SIXTY_MILLION + b"\0")


def test_records_inside_themselves() -> None:
    itself = record(["null", "r"])
    assert skip(itself, b"\x02" * 50 + b"\0") == 51
    with pytest.raises(BadRecord, match="deep"):
        skip(itself, b"\x02" * 100_000)
    with pytest.raises(BadRecord, match="deep"):
        skip(record("r"), b"")


@pytest.mark.parametrize(
    "kind",
    [
        ["int"] * 5000, {"type": "fixed", "name": "f", "size": -3}, {"type": "fixed", "name": "f", "size": "3"},
        {"type": "fixed", "name": "f"}, {"type": "enum", "name": "e"}, {"type": "enum", "name": "e", "symbols": 5},
        {"type": "record", "name": "s"}, {"type": "record", "name": "s", "fields": [1]}, 5, "unknown",
    ],
)  # fmt: skip
def test_schemas_that_are_none(kind: Any) -> None:
    with pytest.raises(BadSchema):
        skip(record(kind), b"\0" * 50)
