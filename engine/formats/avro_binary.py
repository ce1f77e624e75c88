"""Avro's plain binary encoding, read by functions compiled from the writer's schema.

A schema becomes Python source with the variable-length numbers inlined: several times faster than walking the schema,
and unwanted fields are stepped over without being built. Source: Avro 1.11 specification, "Binary Encoding" (no
containers, no blocks: records back to back, as Hadoop's job histories hold them).
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Schema = Any
"""A decoded Avro schema: a name, a list (union) or an object."""

LONGEST = 64 * 2**20
"""Longest string (bytes), array or map (items) that is accepted."""
DEPTH = 64
"""Deepest nesting of a schema."""
MOST_PARTS = 1000
"""Most branches of a union, fields of a record or symbols of an enum: each becomes code."""


class BadRecord(ValueError):
    """Raised where the bytes cannot be a record of the schema: the place of the next one is unknown."""


class BadSchema(ValueError):
    """Raised for a schema that is none, or uses types this reader does not know."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Read one zigzag number at ``at``: its value and the position behind it. Raises BadRecord beyond 64 bit."""
    shift = value = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise BadRecord("a number of more than ten bytes")
    if value >> 64:
        raise BadRecord("a number beyond 64 bit")
    return (value >> 1) ^ -(value & 1), at


def length(data: bytes, at: int) -> tuple[int, int]:
    """Read a length: as ``varint``, but it must be 0 to ``LONGEST``."""
    value, at = varint(data, at)
    if not 0 <= value <= LONGEST:
        raise BadRecord(f"a length of {value}")
    return value, at


def varints(data: bytes) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Decode all zigzag numbers in ``data``, which holds nothing else, as int64 (vectorised). Numbers of more than ten bytes
    wrap: match them with a bounded pattern first."""
    raw = np.frombuffer(data, dtype=np.uint8)
    if not len(raw):
        return np.empty(0, dtype=np.int64)
    last = np.flatnonzero(raw < 128)
    start = np.concatenate(([0], last[:-1] + 1))
    place = np.arange(len(raw)) - np.repeat(start, last - start + 1)
    parts = (raw & 127).astype(np.uint64) << (7 * place).astype(np.uint64)
    value = np.add.reduceat(parts, start)
    return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)


def skip_blocks(data: bytes, at: int, item: Callable[[bytes, int], int]) -> int:
    """Step over an array or map whose items ``item`` steps over."""
    while True:
        count, at = varint(data, at)
        if count == 0:
            return at
        if count < 0:
            size, at = length(data, at)
            at += size
            if at > len(data):
                raise IndexError
            continue
        if count > LONGEST:
            raise BadRecord(f"an array of {count} items")
        for _ in range(count):
            begin, at = at, item(data, at)
            if at == begin:
                break  # items without bytes: however many they are, there is nothing to step over
            if at > len(data):
                raise IndexError


def _parts(parts: Any, what: str) -> list[Any]:
    """Return the parts of ``what`` (a list). Raises BadSchema where it has none, or too many."""
    if not isinstance(parts, list):
        raise BadSchema(f"{what} without a list of its parts")
    if len(parts) > MOST_PARTS:
        raise BadSchema(f"{what} with {len(parts)} parts")
    return parts


def _is_size(size: Any) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= LONGEST


_NUMBERS = {"int", "long"}
_FIXED = {"float": 4, "double": 8}


class Compiler:
    """Compiles functions that read or step over values of one writer's schema.

    ``hooks``: by full record name, a function ``(data, at) -> (value, at)`` used instead of reading the record.
    ``skips``: by full record name, ``(data, at) -> at``.
    """

    def __init__(
        self,
        schema: Schema,
        hooks: Mapping[str, Callable[[bytes, int], tuple[Any, int]]] | None = None,
        skips: Mapping[str, Callable[[bytes, int], int]] | None = None,
    ) -> None:
        self.schema = schema
        self.named: dict[str, Schema] = {}
        self.space: dict[int, str] = {}
        self.hooks = dict(hooks or {})
        self.skips = dict(skips or {})
        self._globals: dict[str, Any] = {
            "varint": varint, "length": length, "skip_blocks": skip_blocks, "BadRecord": BadRecord,
        }  # fmt: skip
        self._made: dict[str, str] = {}
        self._register(schema, "", 0)

    def _register(self, schema: Schema, namespace: str, depth: int) -> None:
        """Note the full name of every named type in ``schema``. Raises BadSchema."""
        if depth > DEPTH:
            raise BadSchema("nested too deeply")
        if isinstance(schema, list):
            for branch in _parts(schema, "a union"):
                self._register(branch, namespace, depth + 1)
        elif isinstance(schema, dict):
            kind = schema.get("type")
            if kind in ("record", "enum", "fixed", "error"):
                self._register_named(schema, namespace, depth)
            else:
                inner = {"array": "items", "map": "values"}.get(kind, "type") if isinstance(kind, str) else "type"
                self._register(schema.get(inner), namespace, depth + 1)
        elif not isinstance(schema, str):
            raise BadSchema("a type that is neither a name, a list nor an object")

    def _register_named(self, schema: dict[str, Any], namespace: str, depth: int) -> None:
        name = str(schema.get("name", ""))
        namespace = str(schema.get("namespace", namespace))
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        self.named[full] = schema
        self.named.setdefault(name, schema)
        self.space[id(schema)] = full
        if schema["type"] == "fixed" and not _is_size(schema.get("size")):
            raise BadSchema(f"{name} without a size")
        if schema["type"] == "enum":
            _parts(schema.get("symbols"), f"enum {name}")
        if schema["type"] not in ("record", "error"):
            return
        for field in _parts(schema.get("fields"), f"record {name}"):
            if not isinstance(field, dict) or "type" not in field:
                raise BadSchema(f"a field of {name} without a type")
            self._register(field["type"], full.rpartition(".")[0], depth + 1)

    def resolve(self, schema: Schema) -> Schema:
        """Follow names and wrappings to a primitive name, a list, or an object of kind record, enum, array ..."""
        for _ in range(DEPTH):
            if isinstance(schema, str):
                if schema in self.named:
                    return self.named[schema]
                return schema
            if isinstance(schema, dict) and schema.get("type") not in (
                "record", "error", "enum", "fixed", "array", "map",
            ):  # fmt: skip
                schema = schema.get("type")
                continue
            return schema
        raise BadSchema("a type that only names itself")

    def full_name(self, schema: Schema) -> str:
        """Full name of a named type, or the kind of an unnamed one."""
        found = self.resolve(schema)
        if isinstance(found, dict):
            return self.space.get(id(found), str(found.get("type")))
        return "union" if isinstance(found, list) else str(found)

    # -- code --

    def _code(self, schema: Schema, into: str | None, depth: int = 0) -> list[str]:
        """Lines that read one value at ``p`` of ``b`` into the variable ``into`` (None: step over it)."""
        if depth > DEPTH:
            raise BadSchema("nested too deeply")
        found = self.resolve(schema)
        if isinstance(found, str):
            return self._primitive(found, into)
        if isinstance(found, list):
            lines = ["u, p = varint(b, p)"]
            for index, branch in enumerate(found):
                lines.append(f"{'if' if index == 0 else 'elif'} u == {index}:")
                lines += ["    " + line for line in self._code(branch, into, depth + 1)]
            lines += ["else:", "    raise BadRecord(f'branch {u} of a union that has none such')"]
            return lines
        kind = found["type"]
        if kind in ("record", "error"):
            return [f"{into}, p = {self._hook(found)}(b, p)" if into else f"p = {self._step(found)}(b, p)"]
        if kind == "enum":
            if into is None:
                return self._primitive("int", None)
            table = self._global(dict(enumerate(map(str, found["symbols"]))))
            return ["u, p = varint(b, p)", f"{into} = {table}.get(u)"]
        if kind == "fixed":
            size = found["size"]
            take = [f"{into} = b[p:p + {size}]"] if into else []
            return [*take, f"p += {size}"]
        if into is not None:
            raise BadSchema(f"a field of kind {kind} where one value is expected")
        body = self._primitive("string", None) if kind == "map" else []
        body += self._code(found.get("items" if kind == "array" else "values"), None, 1)
        return [f"p = skip_blocks(b, p, {self._global(self._compiled([*body, 'return p']))})"]

    @staticmethod
    def _primitive(kind: str, into: str | None) -> list[str]:
        if kind == "null":
            return [f"{into} = None"] if into else ["pass"]
        if kind == "boolean":
            return [*([f"{into} = b[p] == 1"] if into else []), "p += 1"]
        if kind in _FIXED:
            return [*([f"{into} = None"] if into else []), f"p += {_FIXED[kind]}"]
        if kind in _NUMBERS:
            if into is None:
                return ["while b[p] > 127:", "    p += 1", "p += 1"]
            return [
                "u = b[p]",
                "if u < 128:",
                f"    {into} = (u >> 1) ^ -(u & 1)",
                "    p += 1",
                "else:",
                "    n = u & 127",
                "    s = 7",
                "    p += 1",
                "    while True:",
                "        u = b[p]",
                "        p += 1",
                "        n |= (u & 127) << s",
                "        if u < 128:",
                "            break",
                "        s += 7",
                "        if s > 63:",
                "            raise BadRecord('a number of more than ten bytes')",
                "    if n >> 64:",
                "        raise BadRecord('a number beyond 64 bit')",
                f"    {into} = (n >> 1) ^ -(n & 1)",
            ]
        if kind in ("string", "bytes"):
            lines = [
                "u = b[p]",
                "if u < 128:",
                "    if u & 1:",
                "        raise BadRecord('a negative length')",
                "    u >>= 1",
                "    p += 1",
                "elif b[p + 1] < 128 and not u & 1:",
                "    u = (u & 127 | b[p + 1] << 7) >> 1",
                "    p += 2",
                "else:",
                "    u, p = length(b, p)",
            ]
            if into:
                take = "b[p:p + u]" if kind == "bytes" else "str(b[p:p + u], 'utf-8', 'replace')"
                lines.append(f"{into} = {take}")
            return [*lines, "p += u"]
        raise BadSchema(f"unknown type {kind!r}")

    def _hook(self, record: Schema) -> str:
        """Name of the function that reads ``record``. Raises BadSchema for one without a hook."""
        full = self.space[id(record)]
        if full not in self.hooks:
            raise BadSchema(f"record {full} where one value is expected")
        return self._global(self.hooks[full])

    def _step(self, record: Schema) -> str:
        """Name of the function that steps over ``record``."""
        full = self.space[id(record)]
        if full not in self._made:
            # A record may hold itself: its name is known before its function is made.
            name = self._made[full] = self._global(self.skips.get(full))
            if full not in self.skips:
                body = [line for field in record["fields"] for line in self._code(field["type"], None, 1)]
                self._globals[name] = self._compiled([*body, "return p"])
        return self._made[full]

    def _global(self, value: Any) -> str:
        """Give ``value`` a name that compiled code can use."""
        name = f"global{len(self._globals)}"
        self._globals[name] = value
        return name

    def _compiled(self, body: list[str]) -> Callable[..., Any]:
        """Compile a function of the bytes ``b`` and the position ``p``. Raises BadSchema."""
        # A record may hold itself: data nested beyond Python's recursion are no record.
        lines = ["def made(b, p):", "    try:", *("        " + line for line in body)]
        source = "\n".join(
            [*lines, "    except RecursionError:", "        raise BadRecord('nested too deeply') from None"]
        )
        scope: dict[str, Any] = {}
        try:
            exec(compile(source, "<avro>", "exec"), self._globals, scope)
        except (SyntaxError, RecursionError, MemoryError, OverflowError) as error:
            raise BadSchema(f"too large to be compiled ({type(error).__name__})") from None
        made: Callable[..., Any] = scope["made"]
        return made

    # -- what callers want --

    def skipper(self, schema: Schema) -> Callable[[bytes, int], int]:
        """A function that steps over one value."""
        return self._compiled([*self._code(schema, None), "return p"])

    def picker(
        self,
        record: Schema,
        build: Callable[..., Any],
        wanted: Mapping[str, str],
        together: tuple[str, ...],
        step: Callable[[bytes, int], int],
    ) -> Callable[[bytes, int], tuple[Any, int]]:
        """A function that reads only some fields of ``record`` and returns ``build(**fields)`` and the position.

        ``wanted``: field of the file → argument of ``build``; fields the schema lacks are not passed. ``together``:
        names of neighbouring fields whose raw bytes are passed as argument ``together``; ``step`` steps over all of
        them at once or returns -1 if it cannot.
        """
        body: list[str] = []
        arguments: list[str] = []
        fields = record["fields"]
        names = [str(field.get("name")) for field in fields]
        index = 0
        while index < len(fields):
            name, after = names[index], index + len(together)
            if together and tuple(names[index:after]) == together:
                body += ["q = p", f"p = {self._global(step)}(b, q)", "if p < 0:", "    p = q"]
                for field in fields[index:after]:
                    body += ["    " + line for line in self._code(field["type"], None, 1)]
                body.append("raw = b[q:p]")
                arguments.append("together=raw")
                index = after
                continue
            into = wanted.get(name)
            if into is not None and (not into.isidentifier() or keyword.iskeyword(into)):
                raise BadSchema(f"{into!r} is no argument name")
            body += self._code(fields[index]["type"], f"f{index}" if into else None, 1)
            if into:
                arguments.append(f"{into}=f{index}")
            index += 1
        return self._compiled([*body, f"return {self._global(build)}({', '.join(arguments)}), p"])
