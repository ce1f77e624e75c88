"""Partition rings, and rings as other tools save them: the HTML pages, and exports of Consul and etcd.

Sources: ``grafana/dskit/ring`` (``partition_ring_http.go``, ``partition_ring_desc.proto``, the templates ``ring_status.gohtml``
and ``partition_ring_status.gohtml``), Consul's API of its key-value store, ``etcdctl -w json``.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from html import unescape
from typing import Any

import polars as pl

from engine.core.reading import Document, Problem, Reading, Source, clean, decode, from_first_character
from engine.core.units import duration_ns
from engine.formats.protobuf import BYTES, WireError, expect, fields, scalars, signed, varint
from engine.formats.timestamps import epoch_ns
from engine.formats.unpack import snappy_block
from engine.ring_placement import tables
from engine.ring_placement.dskit.replicas import STATES
from engine.ring_placement.pyroscope.ring import Member
from engine.ring_placement.reading.document import MOST_MEMBERS, ring_document, unreadable
from engine.ring_placement.reading.ring_files import (
    JsonRing,
    ListedRing,
    RingRows,
    StoredRing,
    repeated_keys,
    token_values,
    tokens_of,
    value_of,
)

MAX_PARTITION = 1 << 31  # largest plausible ID of a partition


class PartitionRows(ListedRing):
    """Collects the partitions of a ring."""

    table = tables.PARTITION_RINGS
    what = "partition"

    def __init__(self, path: str, key: str = "", problems: Iterable[Problem] = ()) -> None:
        super().__init__(path, key, problems)
        self._owners: dict[int, list[str]] = {}

    def add(self, number: Any, state: Any, changed_s: int, locked: Any, tokens: Any) -> None:
        """Add one partition as read; ``tokens`` None if the file gives only their number."""
        if type(number) is not int or not 0 <= number < MAX_PARTITION:
            self.problem("bad-partition", f"partition {clean(str(number), 40)!r} has no ID and is left out")
        elif type(state) is not int or not 0 <= state < len(STATES):
            self.problem("unknown-state", f"partition {number} has the unknown state {clean(str(state), 40)!r}")
        elif number in self._rows:
            self.problem("duplicate-id", f"partition {number} is listed more than once; the first one is used")
        elif STATES[state] == "Deleted":
            self.problem("left-member", f"partition {number} is a Deleted tombstone and is left out")
        else:
            values = token_values(tokens) if isinstance(tokens, list) else None
            if tokens is not None and values is None:
                self.problem("bad-tokens", f"partition {number}: a token is not a 32-bit number")
            self._rows[number] = state, changed_s, bool(locked), None if values is None else values.tolist()

    def own(self, owner: Any, number: Any) -> None:
        """Add ``owner`` (an instance ID, perhaps followed by a slash and its partition) to partition ``number``."""
        if isinstance(owner, str) and owner and type(number) is int:
            self._owners.setdefault(number, []).append(clean(owner, 512).removesuffix(f"/{number}"))
        else:
            self.problem("bad-member", "an owner without an ID or partition is left out")

    def listed(self) -> list[tuple[Any, ...]]:
        """Return the partitions with their owners."""
        return [
            (number, state, changed, locked, sorted(set(self._owners.get(number, ()))), self.key, tokens)
            for number, (state, changed, locked, tokens) in sorted(self._rows.items())
        ]

    def add_desc(self, data: bytes) -> None:
        """Add the partitions and owners of a descriptor. Raises WireError."""
        entries = [field for field in fields(data) if field[0] in (1, 2)]
        if len(entries) > 2 * MOST_MEMBERS:
            raise WireError(f"more than {MOST_MEMBERS:,} partitions and owners are not read", entries[MOST_MEMBERS][2])
        for number, kind, start, end in entries:
            expect(kind, BYTES, number, start)
            key = scalars(data, start, end, numbers=(1,) if number == 1 else (), texts=(1,) if number == 2 else ())[1]
            first, last = value_of(data, start, end)
            if number == 1:
                stored = scalars(data, first, last, numbers=(2, 3, 5))
                self.add(key, stored[2], _seconds(stored[3]), stored[5], tokens_of(data, first, last, 1))
            else:
                stored = scalars(data, first, last, numbers=(1, 2))
                if stored[2] == 1:
                    self.own(key, signed(stored[1]))

    @staticmethod
    def looks_like(data: bytes) -> bool:
        """Whether ``data`` (perhaps cut) begins like a partition ring: a map entry of a small number and a message with packed
        tokens or a state."""
        try:
            if not data.startswith(b"\x0a"):
                return False
            _, at = varint(data, 1, len(data))
            if data[at : at + 1] == b"\x08":
                _, at = varint(data, at + 1, len(data))
            if data[at : at + 1] != b"\x12":
                return False
            _, at = varint(data, at + 1, len(data))
            return data[at : at + 1] in (b"\x0a", b"\x10")
        except WireError:
            return False


class PartitionPage(JsonRing):
    """A partition ring as JSON: the page's own form (a list) or that of the memberlist key (an object, and owners)."""

    id = "partition-ring"
    title = "partition ring JSON (…/ingester/partition-ring, …/memberlist?viewKey=ingester-partitions&format=json)"
    tables = (tables.RINGS, tables.PARTITION_RINGS)
    head = re.compile(rb'"partitions"\s*:\s*(?:\[\s*(?:\]|\{)|\{|null)')
    words = (b'"owner_ids"', b'"owners"', b'"tokens"', b'"stateTimestamp"')
    ring = PartitionRows

    def listed(self, source: Source, ring: PartitionRows, body: Any, data: bytes) -> Reading:
        """Return partitions and owners."""
        entries = body.get("partitions") if isinstance(body, dict) else None
        if isinstance(entries, list):
            for entry in entries:
                self._read_listed(ring, entry)
            return ring.reading("page", None)
        for name in repeated_keys(data):
            ring.problem("duplicate-id", f"{clean(name, 80)} is listed more than once; the last one is used")
        for name, entry in (entries if isinstance(entries, dict) else {}).items():
            fields_ = entry if isinstance(entry, dict) else {}
            number = int(name) if name.isascii() and name.isdecimal() and len(name) < 12 else name
            changed = fields_.get("stateTimestamp", 0)
            ring.add(number, fields_.get("state", 0), _seconds(changed), fields_.get("stateChangeLocked"),
                     fields_.get("tokens", []))  # fmt: skip
        owners = body.get("owners") if isinstance(body, dict) else None
        for name, entry in (owners if isinstance(owners, dict) else {}).items():
            if not isinstance(entry, dict) or entry.get("state", 0) == 1:
                ring.own(name, entry.get("ownedPartition", 0) if isinstance(entry, dict) else None)
        return ring.reading("memberlist", None)

    @staticmethod
    def _read_listed(ring: PartitionRows, entry: Any) -> None:
        if not isinstance(entry, dict):
            ring.problem("bad-partition", "an entry of partitions is not an object")
            return
        try:
            changed = epoch_ns(str(entry.get("state_timestamp", "0001-01-01T00:00:00Z"))) // 10**9
        except ValueError as error:
            ring.problem("bad-time", f"partition {clean(str(entry.get('id')), 40)}: state_timestamp: {error}")
            changed = 0
        number = entry.get("id")
        ring.add(number, entry.get("state", 0), max(changed, 0), entry.get("state_change_locked"), entry.get("tokens"))
        owners = entry.get("owner_ids")
        for owner in owners if isinstance(owners, list) else ():
            ring.own(owner, number)


def _seconds(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 40 else 0


class PartitionBinary(StoredRing):
    """The partition ring as stored or downloaded."""

    id = "partition-ring-binary"
    title = "partition ring as stored (…/memberlist?downloadKey=ingester-partitions, etcd)"
    tables = (tables.RINGS, tables.PARTITION_RINGS)
    ring = PartitionRows


_DAY_NS = 86_400 * 10**9
_CLOCK = re.compile(r"\(([01]\d|2[0-3]):([0-5]\d):([0-5]\d)\)", re.ASCII)
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,9})?)%")
_NOW = "Current time: "

_CELLS = ("td", "th", "h1", "h2", "p")  # elements whose text is read


_LONG = 4_000  # characters from which on a text is not unescaped


class _Cells:
    """The tables' headers and rows of a page, and its headings and paragraphs as (tag, text). Words are separated by single
    blanks; markup inside cells is dropped, and a ``<`` that no ``>`` closes before the next one begins no tag.

    The parser of the standard library is not used: up to Python 3.13 it takes quadratic time on unclosed tags.
    """

    def __init__(self, page: str) -> None:
        self.headers: list[str] = []
        self.rows: list[list[str]] = []
        self.texts: list[tuple[str, str]] = []
        first, *pieces = page.split("<")
        opened, parts = "", [first]
        for piece in pieces:
            tag, end, text = piece.partition(">")
            closing, name = tag.startswith("/"), "".join(tag[:20].lower().removeprefix("/").split()[:1])
            if not end or not name[:1].isalpha():
                parts.append(f"<{piece}")
                continue
            if name == "tr" and not closing:
                self.rows.append([])
            elif name in _CELLS and not closing:
                opened, parts = name, []
            elif name == opened and closing:
                inside = " ".join(parts)
                # Only a long text can hold a reference to a number with too many digits.
                inside = " ".join((unescape(inside) if len(inside) < _LONG else inside).split())
                if name == "th":
                    self.headers.append(inside)
                elif name == "td" and self.rows:
                    self.rows[-1].append(inside)
                elif name != "td":
                    self.texts.append((name, inside))
                opened, parts = "", []
            parts.append(text)


class RingHtml(Document):
    """The HTML page of a ring, with or without tokens."""

    id = "ring-html"
    keeps_versions = True
    title = "ring page as saved from a browser (HTML; tokens with ?tokens=true)"
    marks = ("<table", "instance id", "<th>state")
    tables = (tables.RINGS, tables.MEMBERS, tables.PARTITION_RINGS)

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether it is a page with the table of a ring."""
        return b"<th>Instance ID</th>" in head or b"<th>Partition ID</th>" in head

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read members or partitions; a page without its end is not used."""
        if b"</html>" not in data[-200:]:
            return unreadable(source, "cut-file", "the page is cut off: its end (</html>) is missing")
        if data.count(b"<") > 30 * MOST_MEMBERS:
            return unreadable(source, "too-large", f"more than {MOST_MEMBERS:,} rows are not read")
        page = _Cells(decode(data))
        rows = [dict(zip(page.headers, row, strict=False)) for row in page.rows if row]
        now_ns = _instant(next((text for _, text in page.texts if text.startswith(_NOW)), "").removeprefix(_NOW))
        if "Partition ID" in page.headers:
            return _partitions(source, rows, page).reading("html", now_ns)
        ring = RingRows(source.path)
        tokens = _listed_tokens(page, "Instance: ")
        for row in rows:
            ring.add(_member(ring, row, now_ns, tokens))
        return ring.reading("html", now_ns)


def _instant(text: str) -> int | None:
    try:
        return epoch_ns(text.strip())
    except ValueError:
        return None


def _member(ring: RingRows, row: dict[str, str], now_ns: int | None, tokens: dict[str, list[Any]]) -> Member:
    name = row.get("Instance ID", "")
    registered = _instant(row.get("Registered At", ""))
    count = row.get("Tokens", "")
    member = Member(
        name, row.get("State", ""), row.get("Availability Zone", ""),
        int(count) if count.isascii() and count.isdecimal() and len(count) < 8 else 0, row.get("Address", ""),
        _clock_s(row.get("Last Heartbeat", ""), now_ns), None if registered is None else registered // 10**9,
        row.get("Read-Only", "") == "true", _clock_s(row.get("Read-Only Updated", ""), now_ns) or 0,
        owned=_share(row.get("Ownership", "")),
    )  # fmt: skip
    return ring.with_tokens(member, tokens[name]) if name in tokens else member


def _share(text: str) -> float | None:
    """Return the share that a page prints as ``37.4%``, or None."""
    match = _PERCENT.fullmatch(text)
    return min(float(match[1]) / 100, 1.0) if match else None


def _clock_s(text: str, now_ns: int | None) -> int | None:
    """Return the epoch seconds of ``1h56m40s ago (21:35:15)``: the clock gives the second, the age gives the day."""
    match, instant = _CLOCK.search(text), _instant(text)
    if instant is not None and instant > 0:  # of older versions
        return instant // 10**9
    if match is None or now_ns is None:
        return None
    try:
        guess_ns = now_ns - duration_ns(text.partition(" ago")[0].removeprefix("-"))
    except ValueError:
        return None
    clock = (int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3])) * 10**9
    return (round((guess_ns - clock) / _DAY_NS) * _DAY_NS + clock) // 10**9


def _listed_tokens(page: _Cells, heading: str) -> dict[str, list[Any]]:
    """Return the tokens below each heading that begins with ``heading``, by the rest of it; empty if the page has none."""
    found: dict[str, list[Any]] = {}
    name = ""
    for tag, text in page.texts:
        if tag in ("h1", "h2"):
            name = text.removeprefix(heading) if text.startswith(heading) else ""
        elif name and text.startswith("Tokens:"):
            words = text.removeprefix("Tokens:").split()
            found[name] = [int(w) if w.isascii() and w.isdecimal() and len(w) < 12 else w for w in words]
    return found


def _partitions(source: Source, rows: list[dict[str, str]], page: _Cells) -> PartitionRows:
    ring = PartitionRows(source.path)
    tokens = _listed_tokens(page, "Partition: ")
    for row in rows:
        name, state = row.get("Partition ID", ""), (row.get("State", "").split() or [""])[0]
        number = int(name) if name.isascii() and name.isdecimal() and len(name) < 12 else name
        changed = _instant(row.get("State updated at", ""))
        ring.add(number, STATES.index(state) if state in STATES else state, max(changed or 0, 0) // 10**9, False,
                 tokens.get(name))  # fmt: skip
        for owner in row.get("Owners", "").split():
            ring.own(owner, number)
    return ring


class StoreExport(Document):
    """Rings in an export of Consul's key-value store, or in the JSON of etcdctl."""

    id = "ring-store"
    keeps_versions = True
    title = "export of Consul (/v1/kv/…?recurse, consul kv export) or etcd (etcdctl get -w json) with rings"
    tables = (tables.RINGS, tables.MEMBERS, tables.PARTITION_RINGS)

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether it is Consul's list of entries with key and value, or etcd's object with ``kvs``; other tools' documents also
        have keys and values."""
        start = from_first_character(head)
        if start.startswith(b"{"):
            return b'"kvs"' in start and re.search(rb'"key"\s*:\s*"', start) is not None
        return (
            re.match(rb'\[\s*\{[^][{}]*"[Kk]ey"\s*:\s*"', start) is not None
            and re.search(rb'"[Vv]alue"', start) is not None
        )

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read every ring among the entries; others are skipped."""
        document = ring_document(source, data)
        if isinstance(document, Reading):
            return document
        body = document.value
        encoded = isinstance(body, dict)
        entries = body.get("kvs") if isinstance(body, dict) else body
        frames: dict[str, list[pl.DataFrame]] = {}
        problems: list[Problem] = [*document.problems]
        budget = source.budget()
        declared = {table.name: table for table in self.tables}
        for entry in entries if isinstance(entries, list) else ():
            fields_ = {str(k).lower(): v for k, v in entry.items()} if isinstance(entry, dict) else {}
            key, value = fields_.get("key"), fields_.get("value")
            if not isinstance(key, str) or not isinstance(value, str):
                continue
            try:
                name = clean(decode(base64.b64decode(key)) if encoded else key, 256)
                stored = snappy_block(base64.b64decode(value), budget)
                kind = next((each for each in (RingRows, PartitionRows) if each.looks_like(stored)), None)
                if kind is None:
                    continue
                ring: ListedRing = kind(source.path, name)
                ring.add_desc(stored)
            except ValueError as error:
                if "ring" in key or "partition" in key:
                    problems.append(Problem.at(source.path, "bad-value", f"{clean(key, 80)}: {error}"))
                continue
            for table, rows in ring.rows("store", None).items():
                frames.setdefault(table, []).append(declared[table].frame(rows))
            problems += ring.problems
        if not frames and not problems:
            problems.append(Problem.at(source.path, "no-ring", "the export holds no ring"))
        return Reading({table: pl.concat(parts) for table, parts in frames.items()}, problems)
