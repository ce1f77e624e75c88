"""Job histories in Avro-Binary, the default of Hadoop 3: a schema, then records back to back, without containers or blocks.

fastavro decodes the records. It obeys whatever a schema says (it overflows the stack on nested types, and would count items
that take no bytes for ever), so it is given a schema of our own making: the file's, if it holds nothing but what Hadoop's
schemas hold. Source: Avro 1.11 specification, "Binary Encoding".
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any

import msgspec

from engine.formats import json_text
from engine.job_heuristics.mapreduce.reading.event_collector import HANDLERS, Collector
from engine.job_heuristics.mapreduce.reading.records import (
    ARRAYS,
    IGNORED,
    NAMESPACE,
    RECORDS,
    Record,
    missing_fields,
)

MOST_SCHEMA = 2**18  # bytes of the longest schema that is used; Hadoop's have 8 kB
_MOST_PARTS = 64
"""Most branches of a union, fields of a record or symbols of an enum: their number takes one byte. Hadoop has 30."""
_DEEPEST = 8  # levels of types within types; Hadoop's counters have six
_PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


class BadSchema(ValueError):
    """Raised for an invalid schema, or one that holds what no schema of a job history does."""


class _Sound:
    """Copies one event's type, name by name, so that only known kinds of types reach the decoder."""

    def __init__(self, named: dict[str, Any]) -> None:
        """``named``: types that other events define, by name."""
        self.named = named
        self._used: set[str] = set()

    def copy(self, schema: Any, depth: int = 0) -> Any:
        """Return ``schema`` in our own words. Raises BadSchema."""
        if depth > _DEEPEST:
            raise BadSchema("types nested too deeply")
        if isinstance(schema, str):
            return schema if schema in _PRIMITIVE else self._reference(schema.removeprefix(NAMESPACE), depth)
        if isinstance(schema, list):
            return [self.copy(branch, depth + 1) for branch in _parts(schema, "a union")]
        if not isinstance(schema, dict):
            raise BadSchema("a type that is neither a name, a list nor an object")
        match schema.get("type"):
            case "record":
                return self._record(schema, depth)
            case "array":
                items = self.copy(schema.get("items"), depth + 1)
                if items == "null" or (isinstance(items, dict) and not _takes_bytes(items)):
                    raise BadSchema("an array of items without bytes")
                return {"type": "array", "items": items}
            case "map":
                return {"type": "map", "values": self.copy(schema.get("values"), depth + 1)}
            case inner:
                return self.copy(inner, depth + 1)

    def _record(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        name = self._new(schema)
        fields = []
        for field in _parts(schema.get("fields"), f"record {name}"):
            if not isinstance(field, dict) or "type" not in field:
                raise BadSchema(f"a field of {name} without a type")
            fields.append({"name": str(field.get("name")), "type": self.copy(field["type"], depth + 1)})
        self.named.setdefault(name, schema)
        return {"type": "record", "name": name, "fields": fields}

    def _new(self, schema: dict[str, Any]) -> str:
        name = str(schema.get("name", "")).removeprefix(NAMESPACE)
        if name in self._used or not name.isidentifier():
            raise BadSchema("a type without a name of its own")
        self._used.add(name)
        return name

    def _reference(self, name: str, depth: int) -> Any:
        """Return the type called ``name``: its definition where it is used first."""
        if name not in self.named:
            raise BadSchema("an unknown type")
        return name if name in self._used else self.copy(self.named[name], depth)


def _parts(parts: Any, what: str) -> list[Any]:
    if not isinstance(parts, list) or not 0 < len(parts) <= _MOST_PARTS:
        raise BadSchema(f"{what} without a list of its parts, or with too many")
    return parts


def _takes_bytes(schema: dict[str, Any]) -> bool:
    """Whether each value of a type takes at least a byte, as far as is plain to see."""
    return schema["type"] != "record" or any(field["type"] in _PRIMITIVE - {"null"} for field in schema["fields"])


class Decoder:
    """Reads records of one writer's schema (the second line of a file). Raises BadSchema."""

    def __init__(self, schema_line: bytes) -> None:
        from fastavro import parse_schema, schemaless_reader  # takes 30 ms, and most folders hold no binary history
        from fastavro.schema import SchemaParseException

        self._decode = schemaless_reader
        if len(schema_line) > MOST_SCHEMA:
            raise BadSchema(f"more than {MOST_SCHEMA} bytes")
        try:
            schema = msgspec.json.decode(schema_line)
        except json_text.ERRORS as error:
            raise BadSchema(json_text.reason(error)) from error
        try:
            (_, kinds), (_, branches) = ((field["name"], field["type"]) for field in schema["fields"])
            names = [field["name"] for field in schema["fields"]]
            if schema["type"] != "record" or names != ["type", "event"] or kinds["type"] != "enum":
                raise BadSchema("an event is not an enum and a union")
        except (TypeError, KeyError, ValueError, IndexError):
            raise BadSchema("an event is not an enum and a union") from None
        self.errors = missing_fields(schema)
        self.symbols = [str(symbol) for symbol in _parts(kinds.get("symbols"), "an enum")]
        self.readers: list[tuple[str, Any, type[Record] | None]] = []
        """By branch: name of the record, its schema, and the shape that it is taken for."""
        named: dict[str, Any] = {}
        shapes = dict(RECORDS.values())
        for branch in _parts(branches, "a union"):
            record = _Sound(named).copy(branch)
            if not isinstance(record, dict) or record["type"] != "record":
                raise BadSchema("an event that is no record")
            shape = shapes.get(record["name"])
            has = {field["name"] for field in record["fields"]}
            if shape is not None and any(f.encode_name not in has for f in msgspec.structs.fields(shape) if f.required):
                shape = None
            try:
                self.readers.append((record["name"], parse_schema(record), shape))
            except (SchemaParseException, ValueError) as error:
                raise BadSchema(str(error)) from error

    def read(self, data: bytes, at: int, base: int, errors: dict[str, str], to: Collector) -> tuple[int, str | None]:
        """Read records from ``at`` on into ``to``; ``base`` is the byte of the file at which ``data`` begins.

        ``errors``: what Hadoop 2 would throw at the first event of a record; an entry is removed once it is noted. Returns
        the position behind the last whole record and, if the rest cannot be read, why (None: it ends there).
        """
        end = len(data)
        stream = io.BytesIO(data + b"\0")  # a record that is cut reads this byte, too
        while at + 1 < end:
            begin, which, branch = at, data[at], data[at + 1]
            if (which | branch) & 1 or which >= 2 * len(self.symbols) or branch >= 2 * len(self.readers):
                return begin, f"event type {which / 2:g} with record {branch / 2:g}"
            record, schema, shape = self.readers[branch // 2]
            stream.seek(at + 2)
            try:
                found: Any = self._decode(stream, schema, None, handle_unicode_errors="replace")
            except (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
                return begin, None if stream.tell() > end else str(error)
            at = stream.tell()
            if at > end:
                return begin, None
            kind = self.symbols[which // 2]
            if shape is None or kind not in RECORDS:
                if kind not in IGNORED and kind not in RECORDS:
                    to.problem("unknown-event", f"unknown event type {kind}", byte=base + begin)
                continue
            for name in ARRAYS:
                if name in found:
                    found[name] = msgspec.Raw(msgspec.json.encode(found[name]))
            try:
                event = msgspec.convert(found, shape)
            except msgspec.ValidationError as error:
                to.problem("bad-record", f"{kind}: {error}", byte=base + begin)
                continue
            HANDLERS[shape](to, base + begin, kind, event)
            if record in errors:
                to.parser_error(base + begin, errors.pop(record))
        return at, None


@lru_cache(maxsize=16)
def decoder(schema_line: bytes) -> Decoder:
    """Make the decoder of a schema, once. Raises BadSchema."""
    return Decoder(schema_line)
