"""Damaging one record must not change the rows of the others."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from engine.core.reading import HEAD, FileKind
from tests.fuzz.attempt import Attempts, Broken, Failure, Input, read, without
from tests.fuzz.mutations import SHAPES
from tests.fuzz.samples import Sample

GARBAGE = (b"!!! damaged !!!", b"\xff\xfe\x00\x01", b"%%%", b"damaged")
"""Lines without meaning in any format."""
PLACES = frozenset({"line", "number", "row", "order", "place", "part", "seq", "start_seq", "index", "position"})
"""Columns with the position of a record."""
OF_ALL = frozenset({"refused", "members"})
"""Columns about the whole file, such as the number of its records."""
NOT_BY_LINE = {
    "block": "one checksum covers all",
    "memberlist-binary": "protobuf, which has no lines",
    "partition-ring-binary": "protobuf, which has no lines",
    "placement-rules": "protobuf, which has no lines",
    "placement-stats": "protobuf, which has no lines",
    "build-log": "its blocks are JSON over many lines",
    "job-conf": "XML",
    "overrides": "YAML",
    "slow-log": "a statement may have any number of lines",
}
"""Kinds in which a line is not a record, and why."""
OVER_ALL = "all-nodes"
"""What rows that sum up all records are called: as in perfdash, an empty record counts in a mean."""
_VALUES = tuple(shape for shape in SHAPES if json.dumps(shape) not in ("NaN", "Infinity", '"\\ud800"'))


def damaged(kind: FileKind, samples: Sequence[Sample], rng: random.Random, index: int) -> Failure | None:
    """Damage one record of a good sample; all rows that exist without it must still be there."""
    name, data = rng.choice(samples)
    pair = _json_pair(rng, data) or (_line_pair(rng, data) if kind.id not in NOT_BY_LINE else None)
    if pair is None:
        return None
    without, with_damage = pair
    if not kind.recognise(name, with_damage[:HEAD]):
        return None  # the file is listed among those that no view reads
    wanted, got = (_rows(kind, Input(name, each)) for each in (without, with_damage))
    if wanted is None or got is None or wanted <= got:
        return None
    table = next(iter(wanted - got))[0]
    return Failure("spread", f"rows of others are lost or differ, in {table}", index, name, with_damage, without)


def _rows(kind: FileKind, given: Input) -> Counter[tuple[Any, ...]] | None:
    """Return the rows as a bag, without their places; None if the reader is broken (which is another failure)."""
    attempts = Attempts(kind, (), "")
    bag: Counter[tuple[Any, ...]] = Counter()
    try:
        found = [rows for rows, _ in read(kind, given)]
        for table in kind.tables:
            frame = attempts.frame(table.name, found)
            frame = without(frame, PLACES | OF_ALL)
            rows = ((table.name, *(repr(value) for value in row)) for row in frame.iter_rows())
            bag.update(row for row in rows if not any(OVER_ALL in text for text in row))
    except Broken:
        return None
    return bag


def _line_pair(rng: random.Random, data: bytes) -> tuple[bytes, bytes] | None:
    """Return a text without one of its lines, and with garbage in its place. None for a document in JSON or XML."""
    lines = data.split(b"\n")
    at = rng.randrange(1, max(2, len(lines) - 1))
    if len(lines) < 4 or (data.lstrip()[:1] in (b"{", b"[", b"<") and not _is_json(lines[at])):
        return None
    return b"\n".join(lines[:at] + lines[at + 1 :]), b"\n".join([*lines[:at], rng.choice(GARBAGE), *lines[at + 1 :]])


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _json_pair(rng: random.Random, data: bytes) -> tuple[bytes, bytes] | None:
    """Return a JSON document without one element of one of its lists, and with that element damaged."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    lists = []
    stack = [document]
    while stack:
        value = stack.pop()
        inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        stack += inner
        if isinstance(value, list) and len(value) > 1 and all(isinstance(each, dict) for each in value):
            lists.append(value)
    if not lists:
        return None
    chosen = rng.choice(lists)
    at = rng.randrange(len(chosen))
    element = chosen[at]
    bad: Any = rng.choice(_VALUES)
    if element and rng.random() < 0.6:
        key = rng.choice(list(element))
        bad = {**element, key: rng.choice(_VALUES)}
        if any(str(other.get(key)) == str(bad[key]) for other in chosen if other is not element):
            return None  # of equal ids one record may replace the other
    chosen[at] = bad
    with_damage = json.dumps(document).encode()
    del chosen[at]
    return json.dumps(document).encode(), with_damage
