"""Partition rings: the partition page and the memberlist key as JSON, and the key's protobuf.

Source: ``grafana/dskit/ring`` (``partition_ring_http.go``, ``partition_ring_desc.proto``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from engine.core.reading import Problem, Reading, Source, clean
from engine.formats.protobuf import BYTES, WireError, expect, fields, scalars, signed, varint
from engine.formats.timestamps import epoch_ns
from engine.ring_placement import tables
from engine.ring_placement.dskit.partition_ring import STATES
from engine.ring_placement.reading.document import MOST_MEMBERS
from engine.ring_placement.reading.ring_files import (
    JsonRing,
    ListedRing,
    StoredRing,
    repeated_keys,
    token_values,
    tokens_of,
    value_of,
)

MAX_PARTITION = 1 << 31
"""Largest plausible ID of a partition."""


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
