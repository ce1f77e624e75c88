"""Ring members, from the ring page (JSON) and from the memberlist key (JSON, or Snappy-compressed protobuf).

Sources: the ring page of ``grafana/dskit/ring`` (``ring_http.go``), its ``Desc`` and ``InstanceDesc`` (``ring.proto``),
and the memberlist page of ``grafana/dskit/kv/memberlist``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from engine.core.compression import TooBig
from engine.core.reading import Document, Problem, Reading, Source, clean, from_first_character
from engine.core.tables import Rows, Table
from engine.formats import json_text
from engine.formats.protobuf import (
    BYTES,
    VARINT,
    WireError,
    count_packed,
    expect,
    fields,
    packed,
    scalars,
    signed,
    varint,
)
from engine.formats.timestamps import epoch_ns
from engine.formats.unpack import BadBlock, snappy_block, snappy_start
from engine.ring_placement import tables
from engine.ring_placement.pyroscope.ring import KNOWN_STATES, Member
from engine.ring_placement.reading.document import (
    MOST_MEMBERS,
    Found,
    KeyLines,
    columns_of,
    line_of,
    ring_document,
    unreadable,
)

STATE_NAMES = ("ACTIVE", "LEAVING", "PENDING", "JOINING", "LEFT")  # names of the memberlist's state numbers 0 to 4

MAX_TOKENS = 1 << 20  # most tokens of one member; a larger number is damage

MAX_KEY_CHECK_BYTES = 16 << 20  # largest JSON document searched for repeated keys, which takes a second, slower decoder

_MAX_EPOCH_S = (2**63 - 1) // 10**9  # largest epoch seconds whose nanoseconds fit in 64 bits


class ListedRing(Found):
    """Collects a ring of one file (``key``: its name in its store) and its problems."""

    table: ClassVar[Table]
    what: ClassVar[str]

    def __init__(self, path: str, key: str = "", problems: Iterable[Problem] = ()) -> None:
        super().__init__(path, problems)
        self.key = key
        self._rows: dict[Any, Any] = {}
        self._without: list[tuple[str, int | None, int | None]] = []

    def listed(self) -> list[tuple[Any, ...]]:
        """Return the rows of ``table``."""
        raise NotImplementedError

    def add_desc(self, data: bytes) -> None:
        """Add what a descriptor (protobuf) lists. Raises WireError."""
        raise NotImplementedError

    @staticmethod
    def looks_like(data: bytes) -> bool:
        """Whether ``data`` (perhaps cut) begins like such a descriptor."""
        raise NotImplementedError

    def rows(self, kind: str, now_ns: int | None) -> dict[str, Rows]:
        """Return the rows of the input tables; ``now_ns`` is the file's own time (epoch ns), None without one."""
        listed = self.listed()
        ring = [(kind, now_ns, len(listed), self.key, self.what == "partition")]
        return {"rings": columns_of(tables.RINGS, ring), self.table.name: columns_of(self.table, listed)}

    def reading(self, kind: str, now_ns: int | None) -> Reading:
        """Return all rows and problems of the file."""
        if not self._rows:
            self.problem("empty-ring", f"the ring lists no usable {self.what}")
        return Reading(self.rows(kind, now_ns), self.problems)


class RingRows(ListedRing):
    """Collects the members of a ring."""

    table = tables.MEMBERS
    what = "member"

    def entries(self, body: dict[str, Any], key: str, form: type, data: bytes) -> tuple[Any, KeyLines]:
        """Return what ``body`` lists under ``key`` in the right ``form`` (empty, with a problem, in another), and the lines."""
        found, lines = body.get(key), KeyLines(data)
        if found is not None and not isinstance(found, form):
            self.problem("bad-ring", f"{key} is not {'a list' if form is list else 'an object'}", line_of(data, key))
        lines.of(key)
        return found if isinstance(found, form) else form(), lines

    def with_tokens(self, member: Member, tokens: Any, line: int | None = None) -> Member:
        """Return ``member`` with the ``tokens`` of a JSON entry; anything but a list is a problem and counts as no tokens."""
        if tokens is not None and not isinstance(tokens, list):
            self.problem("bad-tokens", f"{clean(str(member.id), 80)}: tokens is not a list", line)
        listed = tokens if isinstance(tokens, list) else []
        values = token_values(listed)
        if values is None:
            self.problem("bad-tokens", f"{clean(str(member.id), 80)}: a token is not a 32-bit number", line)
        return dataclasses.replace(member, tokens=len(listed), values=values)

    def add(self, member: Member, line: int | None = None, byte: int | None = None) -> None:
        """Add ``member`` with its texts as read (``id`` may be anything); report anything odd."""
        if not isinstance(member.id, str) or not member.id:
            self.problem("bad-member", "a member without an ID is left out", line, byte)
            return
        name, state = clean(member.id), member.state
        if name != member.id:
            self.problem("odd-id", f"the ID {member.id!r} is shown and sorted as {name}", line, byte)
        if name in self._rows:
            self.problem("duplicate-id", f"member {name} is listed more than once; the first one is used", line, byte)
            return
        if state not in KNOWN_STATES:
            state = clean(state, 40)
            self.problem("unknown-state", f"member {name} has the unknown state {state!r}: not placed", line, byte)
            state = state or "UNKNOWN"
        elif state == "LEFT":
            self.problem("left-member", f"member {name} is a LEFT tombstone: shown, never placed", line, byte)
        elif member.tokens == 0 and state in ("ACTIVE", "LEAVING"):
            self._without.append((f"member {name} is {state} but has no tokens: it owns no key", line, byte))
        texts: dict[str, Any] = {"zone": member.zone, "address": member.address}
        for what, value in texts.items():
            if value is not None and not isinstance(value, str):
                self.problem("bad-member", f"{name}: {what} is not a string", line, byte)
                texts[what] = ""
        self._rows[name] = dataclasses.replace(
            member, id=name, state=state, zone=clean(texts["zone"] or "", 256),
            address=clean(texts["address"] or "", 256), read_only=member.read_only is True,
        )  # fmt: skip

    def listed(self) -> list[tuple[Any, ...]]:
        """Return the members."""
        # Rings of live-stores have no tokens at all.
        for told in self._without if any(m.tokens for m in self._rows.values()) else ():
            self.problem("no-tokens", *told)
        return [
            (m.id, m.state, m.zone, m.tokens, m.address, m.heartbeat_s, m.registered_s, m.read_only, self.key,
             m.read_only_s, None if m.values is None else m.values.tolist(), m.owned)
            for m in self._rows.values()
        ]  # fmt: skip

    def add_desc(self, data: bytes) -> None:
        """Add the members of a ring descriptor; one that cannot be read is a problem. Raises WireError."""
        entries = [(kind, start, end) for number, kind, start, end in fields(data) if number == 1]
        if len(entries) > MOST_MEMBERS:
            raise WireError(f"more than {MOST_MEMBERS:,} members are not read", entries[MOST_MEMBERS][1])
        for kind, start, end in entries:
            try:
                expect(kind, BYTES, 1, start)
                # The map key is the ID; the newer field of that name repeats it.
                name = scalars(data, start, end, texts=(1,))[1]
                first, last = value_of(data, start, end)
                stored = scalars(data, first, last, numbers=(2, 3, 8, 10, 11), texts=(1, 7, 9))
                heartbeat, registered, read_only_s = signed(stored[2]), signed(stored[8]), signed(stored[10])
                tokens = tokens_of(data, first, last, 6)
                member = Member(
                    name,
                    _state_name(signed(stored[3])),
                    stored[7],
                    len(tokens),
                    stored[1],
                    heartbeat if abs(heartbeat) <= _MAX_EPOCH_S else None,
                    registered if 0 < abs(registered) <= _MAX_EPOCH_S else None,
                    bool(stored[11]),
                    read_only_s if 0 < read_only_s <= _MAX_EPOCH_S else 0,
                    values=token_values(tokens),
                )
            except WireError as error:
                self.problem(
                    "bad-member",
                    f"a member that cannot be read is left out: {error}",
                    byte=getattr(error, "byte", None),
                )
                continue
            if member.heartbeat_s is None:
                self.problem("bad-time", f"{clean(member.id, 80)}: timestamp is not epoch seconds", byte=start)
            self.add(member, byte=start)

    @staticmethod
    def looks_like(data: bytes) -> bool:
        """Whether ``data`` (perhaps cut) begins like a ring descriptor: a map entry of a printable ID and a member."""
        try:
            if not data.startswith(b"\x0a"):
                return False
            _, at = varint(data, 1, len(data))
            if data[at : at + 1] != b"\x0a":
                return False
            length, at = varint(data, at + 1, len(data))
            name = data[at : at + length]
            return (
                0 < len(name) <= 512
                and name.decode().isprintable()
                and (data[at + length : at + length + 1] in (b"\x12", b""))
            )
        except (WireError, UnicodeDecodeError):
            return False


def token_values(tokens: list[Any]) -> np.ndarray | None:
    """Return tokens as sorted distinct numbers (int64), or None if one is not a 32-bit number."""
    if not all(type(token) is int and 0 <= token < 1 << 32 for token in tokens):
        return None
    return np.unique(np.array(tokens, dtype=np.int64))


class JsonRing(Document):
    """A ring as one JSON document: an object with the key that ``head`` finds, and one of ``words``."""

    keeps_versions = True
    head: ClassVar[re.Pattern[bytes]]
    words: ClassVar[tuple[bytes, ...]] = (b"",)
    ring: ClassVar[type[ListedRing]]

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether it is JSON with members or partitions of a ring."""
        start = from_first_character(head)
        return start.startswith(b"{") and bool(self.head.search(start)) and any(word in start for word in self.words)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read what the ring lists."""
        document = ring_document(source, data)
        if isinstance(document, Reading):
            return document
        return self.listed(source, self.ring(source.path, problems=document.problems), document.value, data)

    def listed(self, source: Source, ring: Any, body: Any, data: bytes) -> Reading:
        """Return the rows of ``body`` (of any type), which ``ring`` collects."""
        raise NotImplementedError


class RingPage(JsonRing):
    """The ring page as JSON (``/ring-segment-writer``)."""

    id = "ring-page"
    title = "ring page JSON (curl -H 'Accept: application/json' …/ring-segment-writer)"
    marks = ('"shards"|"ingesters"|"instances"', '"state"', '"zone"')
    tables = (tables.RINGS, tables.MEMBERS)
    head = re.compile(rb'"shards"\s*:\s*(?:\[\s*(?:\]|\{)|null)')
    words = (b'"state"', b'"tokens"', b'"now"')
    ring = RingRows

    def listed(self, source: Source, ring: RingRows, body: Any, data: bytes) -> Reading:
        """Return the members and the page's own time."""
        page, now_ns = body if isinstance(body, dict) else {}, None
        if page.get("now") is not None:
            try:
                now_ns = epoch_ns(_shown(page["now"]))
            except ValueError as error:
                ring.problem("bad-time", f"now: {error}; the file's own time is used", line_of(data, "now"))
        entries, lines = ring.entries(page, "shards", list, data)
        for entry in entries:
            if isinstance(entry, dict):
                line = lines.of(entry.get("id"))
                ring.add(self._member(ring, entry, line), line)
            else:
                ring.problem("bad-member", "an entry of shards is not an object", lines.line)
        return ring.reading("page", now_ns)

    @staticmethod
    def _member(ring: RingRows, entry: dict[str, Any], line: int) -> Member:
        name: Any = entry.get("id")

        def seconds(key: str) -> int | None:
            """Return the time ``key`` in epoch seconds; a value that is not RFC 3339 is a problem."""
            value = entry.get(key)
            try:
                return None if value is None else epoch_ns(_shown(value)) // 10**9
            except ValueError as error:
                ring.problem("bad-time", f"{clean(str(name), 80)}: {key}: {error}", line)
                return None

        member = Member(
            name, _shown(entry.get("state", "")), entry.get("zone", ""), 0, entry.get("address", ""),
            seconds("timestamp"), seconds("registered_timestamp"), entry.get("read_only", False),
            max(seconds("read_only_updated_timestamp") or 0, 0),
        )  # fmt: skip
        return ring.with_tokens(member, entry.get("tokens"), line)


class Memberlist(JsonRing):
    """The memberlist key as JSON (``/memberlist?viewKey=…&format=json``)."""

    id = "memberlist-json"
    title = "memberlist key as JSON (…/memberlist?viewKey=collectors/segment-writer-ring&format=json)"
    tables = (tables.RINGS, tables.MEMBERS)
    head = re.compile(rb'"ingesters"\s*:\s*(?:\{|null)')
    ring = RingRows

    def listed(self, source: Source, ring: RingRows, body: Any, data: bytes) -> Reading:
        """Return the members with their true state; the file's time is its modification time."""
        if not isinstance(body, dict):
            return unreadable(source, "bad-json", "is JSON of another shape")
        for name in repeated_keys(data):
            ring.problem("duplicate-id", f"member {clean(name, 80)} is listed more than once; the last one is used")
        entries, lines = ring.entries(body, "ingesters", dict, data)
        for name in entries:
            line = lines.of(name)
            if isinstance(entries[name], dict):
                ring.add(self._member(ring, name, entries[name], line), line)
            else:
                ring.problem("bad-member", f"{clean(name, 80)} is not an object", line)
        return ring.reading("memberlist", None)

    @staticmethod
    def _member(ring: RingRows, name: str, entry: dict[str, Any], line: int) -> Member:
        def seconds(key: str, default: int | None) -> int | None:
            """Return the time ``key`` in epoch seconds; anything else is a problem."""
            value: Any = entry.get(key, default)
            if value is None or (isinstance(value, int) and value not in (True, False) and abs(value) <= _MAX_EPOCH_S):
                return value
            ring.problem("bad-time", f"{clean(name, 80)}: {key} is not epoch seconds", line)
            return None

        heartbeat, registered = seconds("timestamp", 0), seconds("registered_timestamp", None)
        member = Member(
            name, _state_name(entry.get("state", 0)), entry.get("zone", ""), 0, entry.get("addr", ""), heartbeat,
            registered, entry.get("read_only", False), max(seconds("read_only_updated_timestamp", None) or 0, 0),
        )  # fmt: skip
        return ring.with_tokens(member, entry.get("tokens"), line)


def repeated_keys(data: bytes) -> list[str]:
    """Return the keys of nested objects that occur more than once (decoders silently use the last one)."""
    if len(data) > MAX_KEY_CHECK_BYTES:
        return []
    import json

    repeated: list[str] = []

    def collect(items: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(items)
        if len(entries) < len(items) and isinstance(items[0][1], dict):
            seen: set[str] = set()
            repeated.extend(dict.fromkeys(k for k, _ in items if k in seen or seen.add(k)))  # type: ignore[func-returns-value]
        return entries

    try:
        json.loads(data, object_pairs_hook=collect)
    except json_text.ERRORS:
        return []
    return repeated


def value_of(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Find the value of a map entry: a message, which is empty (all defaults) where the key has none. Raises WireError."""
    found = (start, start)
    for number, kind, at, stop in fields(data, start, end):
        if number == 2:
            expect(kind, BYTES, number, at)
            found = (at, stop)
    return found


def tokens_of(data: bytes, start: int, end: int, wanted: int) -> list[int]:
    """Read the tokens in field ``wanted`` of a message: packed, or one by one from an old writer. Raises WireError."""
    tokens: list[int] = []
    count = 0
    for number, kind, at, stop in fields(data, start, end):
        if number == wanted:
            count += 1 if kind == VARINT else count_packed(data, at, stop)
            if count > MAX_TOKENS:
                raise WireError(f"a member has more than {MAX_TOKENS} tokens", at)
            tokens.extend([at] if kind == VARINT else packed(data, at, stop))
    return tokens


def _shown(value: Any) -> str:
    """Return a JSON string or number as text, any other value as the name of its kind."""
    if isinstance(value, (str, bool, int, float)):
        return str(value)
    return "null" if value is None else "a list" if isinstance(value, list) else "an object"


def _state_name(number: Any) -> str:
    """Name a state number of the memberlist; an unknown value stays as written."""
    named = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < len(STATE_NAMES)
    return STATE_NAMES[number] if named else _shown(number)


class StoredRing(Document):
    """A ring as stored or downloaded: a Snappy block of protobuf."""

    keeps_versions = True
    ring: ClassVar[type[ListedRing]]

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether it is a Snappy block that begins with such a ring."""
        return self.ring.looks_like(snappy_start(head))

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the members or partitions. A name ``<version>-<key>``, as downloads have, carries the ring's key."""
        match = re.fullmatch(r"\d+-(.+)", source.name, re.DOTALL)
        ring = self.ring(source.path, clean(match[1], 256) if match else "")
        try:
            ring.add_desc(snappy_block(data, source.budget()))
        except (BadBlock, WireError, TooBig) as error:
            return unreadable(source, "bad-protobuf", str(error), getattr(error, "byte", None))
        return ring.reading("memberlist-binary", None)


class MemberlistBinary(StoredRing):
    """The memberlist key as downloaded (``?downloadKey=…``)."""

    id = "memberlist-binary"
    title = "memberlist key as downloaded (…/memberlist?downloadKey=collectors/segment-writer-ring)"
    tables = (tables.RINGS, tables.MEMBERS)
    ring = RingRows
