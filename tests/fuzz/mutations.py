"""Ways to damage a file: bytes, numbers, words, lines, nesting, encodings, and the structures of JSON, XML and tables."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

MAX_BYTES = 256 << 10
"""Maximum bytes of an input."""
Mutation = Callable[[random.Random, bytes, Sequence[bytes]], bytes]
"""Damages bytes; the last argument are samples of the same kind."""

NUMBERS = (
    b"0", b"-0", b"-1", b"1e308", b"-1e308", b"1e309", b"1e-320", b"5e-324", b"NaN", b"nan", b"Infinity", b"-inf",
    b"2147483648", b"4294967296", b"9223372036854775807", b"9223372036854775808", b"18446744073709551616",
    b"9" * 40, b"9" * 400, b"1" + b"0" * 5000, b"0.1" + b"0" * 400 + b"1", b"+7", b"007", b"0x10", b"1_000", b"1,5", b"",
    b"null", b"true", b'"1"', b" 1 ", "١٢٣".encode(), "²".encode(), b"1.7976931348623159e308", b"253402300800000",
)  # fmt: skip
"""Replacements for a number."""
TEXTS = (
    b"\x1b[31m\x1b]0;x\x07", b"[bold]x[/]", "\u202e\u2066".encode(), b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\x80",
    b"(a+)+$", b"(?:", b"\\", b"\\u0000", b"\\ud800", b"%s%n", b"${x}", b"=1+1", b"'", b'"', b"`", b"\r", b"\r\n", b"\t",
    b"\x0b", "\u2028\u0085".encode(), b"\xef\xbb\xbf", b"&x;", b"<!--", b"]]>", b"<![CDATA[", b"#", b"---\n", b"*a", b"&a [*a]",
    b"!!python/object:os.system",
)  # fmt: skip
"""Text with a meaning in some syntax."""
SHAPES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1e308, 2**63, 2**64, 10**40, float("nan"), float("inf"), "", "x", "1", "NaN", [], {}, [[]], [None],
    {"": None}, {"a": {"a": []}}, [1, "a", None, {}], "\u0000", "\ud800",
)  # fmt: skip
"""Replacements for a JSON value."""


def mutate(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Damage ``data`` in one to four ways."""
    special = structured(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        chosen = rng.choice(special if special and rng.random() < 0.5 else GENERAL)
        data = chosen(rng, data, others)[:MAX_BYTES]
    return data


def structured(data: bytes) -> tuple[Mutation, ...]:
    """Return the mutations for the structure that ``data`` seems to have."""
    start = data.lstrip(b"\xef\xbb\xbf \r\n\t")[:1]
    first = data.split(b"\n", 1)[0]
    if start in (b"{", b"["):
        return (json_value, json_value, json_value, json_key, json_deep, number, line_order)
    if start == b"<":
        return (tag, tag, entity, number)
    if any(first.count(mark) >= 2 for mark in (b",", b"\t", b";")):
        return (cell, cell, column, quote, line_order, number)
    return (line_order, number, blank)


def _span(rng: random.Random, data: bytes, most: int = 200) -> tuple[int, int]:
    begin = rng.randrange(len(data) + 1)
    return begin, min(len(data), begin + rng.choice((1, 2, 4, 16, most)))


# -- bytes -----------------------------------------------------------------------------------------------------


def flip(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Change some bytes or single bits."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20)) if out else 0):
        at = rng.randrange(len(out))
        out[at] = rng.choice((out[at] ^ (1 << rng.randrange(8)), rng.randrange(256), 0, 255, 10, 32))
    return bytes(out)


def truncate(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Cut the end or the beginning off."""
    at = rng.randrange(len(data) + 1)
    return data[:at] if rng.random() < 0.8 else data[at:]


def delete(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Remove a range."""
    begin, end = _span(rng, data, 2000)
    return data[:begin] + data[end:]


def double(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Repeat a range or everything."""
    if rng.random() < 0.1:
        return data + data
    begin, end = _span(rng, data)
    return data[:end] + data[begin:end] * rng.choice((1, 1, 2, 10, 300)) + data[end:]


def splice(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Continue with another sample of the kind."""
    other = rng.choice(others)
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def insert(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Insert random bytes, hostile text, or a run of one byte."""
    at = rng.randrange(len(data) + 1)
    run = bytes([rng.choice(b" \n,;:[{(\"'\\0-#\x00\xff/.=a")]) * rng.choice((10, 100, 3000, 20_000))
    what = rng.choice((rng.randbytes(rng.randrange(1, 40)), rng.choice(TEXTS), rng.choice(TEXTS), run))
    return data[:at] + what + data[at:]


def length(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Put a large variable-length or fixed-size number where a length may be."""
    at = rng.randrange(len(data) + 1)
    what = rng.choice(
        (
            b"\xff" * 9 + b"\x01",
            b"\xff\xff\xff\xff\x0f",
            b"\xff\xff\xff\x7f",
            b"\x7f" + b"\xff" * 7,
            b"\x80" * 9 + b"\x01",
        )
    )
    return data[:at] + what + data[at + (len(what) if rng.random() < 0.5 else 1) :]


# -- text ------------------------------------------------------------------------------------------------------


def number(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Replace numbers by extremes."""
    found = list(re.finditer(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", data))
    chosen = {match.start(): match for match in (rng.sample(found, min(len(found), rng.choice((1, 1, 3, 30)))))}
    out, at = [], 0
    for begin in sorted(chosen):
        out += [data[at:begin], rng.choice(NUMBERS)]
        at = chosen[begin].end()
    return b"".join([*out, data[at:]])


def word(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Swap a word for another one, for hostile text, or leave it out, everywhere or once."""
    found = re.findall(rb"[A-Za-z_][\w.-]{2,40}", data[:20_000])
    if not found:
        return data
    old = rng.choice(found)
    new = rng.choice((rng.choice(found), rng.choice(TEXTS), b"", old.upper(), old * 50))
    return data.replace(old, new, -1 if rng.random() < 0.3 else 1)


def encoding(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Write the text in another encoding or with other line ends."""
    kind = rng.randrange(6)
    if kind == 0:
        return data.decode("latin-1").encode("utf-16")
    if kind == 1:
        return b"\xef\xbb\xbf" + data
    if kind == 2:
        return data.replace(b"\n", b"\r\n")
    if kind == 3:
        return data.replace(b"\n", b"\r")
    if kind == 4:
        return data.decode("latin-1").encode("utf-8")
    return data.replace(b"\n", rng.choice((b"", b"\x00", b"\x0b", b"\n\n", "\u2028".encode())))


def blank(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Widen blanks, or take them away."""
    return re.sub(rb" +", lambda found: rng.choice((found[0], found[0], b"", b"\t", b" " * 500)), data, count=200)


def line_order(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Swap, repeat, drop, cut, or add foreign lines."""
    lines = data.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(5)
    if kind == 0:
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 1:
        lines[at:at] = [lines[other]] * rng.choice((1, 2, 50))
    elif kind == 2:
        del lines[at]
    elif kind == 3:
        lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]
    else:
        lines[at:at] = [rng.choice((b"", b"garbage", rng.choice(rng.choice(others).split(b"\n"))))]
    return b"\n".join(lines)


# -- structures ------------------------------------------------------------------------------------------------


def json_value(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Replace a value of a JSON document (or of one of its lines) by one of another type."""

    def change(document: Any) -> Any:
        places = list(_places(document))
        for holder, key in rng.sample(places, min(len(places), rng.choice((1, 1, 2, 5)))):
            held = holder[key]
            holder[key] = rng.choice((rng.choice(SHAPES), rng.choice(SHAPES), [held], {"a": held}, str(held)[:200]))
        return document if places and rng.random() < 0.97 else rng.choice(SHAPES)

    return _in_json(rng, data, change)


def json_key(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Rename, drop or repeat a key of a JSON document."""
    keys = list(re.finditer(rb'"([^"\\]{1,60})"\s*:', data))
    if not keys:
        return data
    chosen = rng.choice(keys)
    kind = rng.randrange(4)
    if kind == 0:
        return (
            data[: chosen.start(1)] + rng.choice((b"", b"x", rng.choice(keys)[1], b"\\u0000")) + data[chosen.end(1) :]
        )
    if kind == 1:
        twice = chosen[0] + rng.choice((b"null", b"[]", b"0", b'"x"', b"{}")) + b","
        return data[: chosen.start()] + twice + data[chosen.start() :]
    return _in_json(rng, data, lambda document: _dropped(rng, document))


def json_deep(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Nest deeply: instead of a value, or the whole document."""
    depth = rng.choice((10, 100, 900, 5000, 30_000))
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"[{}," * 1 + b"[", b"]]")))
    inner = opening * depth + b"1" + (closing * depth if rng.random() < 0.7 else b"")
    values = list(re.finditer(rb':\s*("[^"\\]*"|[-\d.eE+]+|null|true|false)', data))
    if not values or rng.random() < 0.1:
        return inner
    chosen = rng.choice(values)
    return data[: chosen.start(1)] + inner + data[chosen.end(1) :]


def _in_json(rng: random.Random, data: bytes, change: Callable[[Any], Any]) -> bytes:
    try:
        return json.dumps(change(json.loads(data))).encode()
    except (ValueError, RecursionError):
        pass
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    try:
        lines[at] = json.dumps(change(json.loads(lines[at]))).encode()
    except (ValueError, RecursionError):
        return data
    return b"\n".join(lines)


def _places(document: Any) -> Any:
    """Yield all places of values: a list or object, and an index or key."""
    stack = [document]
    while stack:
        holder = stack.pop()
        keys: Any = range(len(holder)) if isinstance(holder, list) else list(holder) if isinstance(holder, dict) else ()
        for key in keys:
            yield holder, key
            stack.append(holder[key])


def _dropped(rng: random.Random, document: Any) -> Any:
    places = list(_places(document))
    if places:
        holder, key = rng.choice(places)
        del holder[key]
    return document


def tag(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Drop, repeat, rename, nest or open an XML tag."""
    tags = list(re.finditer(rb"</?[A-Za-z][^<>]{0,200}>", data))
    if not tags:
        return data
    chosen = rng.choice(tags)
    begin, end = chosen.span()
    kind = rng.randrange(6)
    if kind == 0:
        return data[:begin] + data[end:]
    if kind == 1:
        return data[:end] + chosen[0] * rng.choice((1, 5, 3000)) + data[end:]
    if kind == 2:
        return data[:begin] + b"<a>" * 5000 + data[begin:]
    if kind == 3:
        return data[:begin] + chosen[0].replace(b">", rng.choice((b' x="1">', b"/>", b' x=1 x="">', b""))) + data[end:]
    if kind == 4:
        return data[:begin] + rng.choice(tags)[0] + data[end:]
    return data[:end] + rng.choice(TEXTS) + data[end:]


def entity(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Declare entities: a billion laughs, a file of this machine."""
    laughs = b"".join(b'<!ENTITY l%d "%s">' % (n, b"&l%d;" % (n - 1) * 10 if n else b"ha") for n in range(9))
    doctype = b"<!DOCTYPE x [%s]>" % rng.choice((laughs, b'<!ENTITY l8 SYSTEM "file:///etc/hostname">'))
    at = data.find(b"?>") + 2 if b"?>" in data else 0
    return data[:at] + doctype + data[at:].replace(b"<value>", b"<value>&l8;", 1)


def _table(rng: random.Random, data: bytes) -> tuple[bytes, list[list[bytes]]]:
    first = data.split(b"\n", 1)[0]
    mark = max((b",", b"\t", b";"), key=first.count)
    return mark, [line.split(mark) for line in data.split(b"\n")]


def cell(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Put extremes or hostile text into cells of a table, or copy cells."""
    mark, rows = _table(rng, data)
    for _ in range(rng.choice((1, 1, 5))):
        row = rng.choice(rows[:400])
        other = rng.choice(rng.choice(rows[:400]))
        row[rng.randrange(len(row))] = rng.choice((rng.choice(NUMBERS), rng.choice(TEXTS), other, b'"a\nb"', b'"', b""))
    return b"\n".join(mark.join(row) for row in rows)


def column(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Drop, repeat or swap columns of a table, or give it many."""
    mark, rows = _table(rng, data)
    at, other = rng.randrange(len(rows[0])), rng.randrange(len(rows[0]))
    kind = rng.randrange(4)
    for row in rows if kind < 3 else rows[: rng.choice((1, 2, len(rows)))]:
        if max(at, other) >= len(row):
            continue
        if kind == 0:
            del row[at]
        elif kind == 1:
            row.insert(at, row[other])
        elif kind == 2:
            row[at], row[other] = row[other], row[at]
        else:
            row[at:at] = [row[other]] * 40
    return b"\n".join(mark.join(row) for row in rows)


def quote(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Open a quote somewhere, or double one."""
    places = [found.start() for found in re.finditer(rb'["\']', data)] or [rng.randrange(len(data) + 1)]
    at = rng.choice(places)
    return data[:at] + rng.choice((b'"', b'""', b"'", b'"\n', b'\\"')) + data[at + rng.randrange(2) :]


GENERAL: tuple[Mutation, ...] = (
    flip, flip, truncate, delete, double, splice, insert, length, number, word, encoding, line_order, blank,
)  # fmt: skip
