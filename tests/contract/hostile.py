"""Small files of every kind, and bytes that make careless readers slow when they are repeated."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from engine.core.reading import HEAD, FileKind
from tests.contract.file_samples import SAMPLES
from tests.contract.samples import play

SHORT = 2048
"""Bytes of a file that the repetitions are put into, about."""


@cache
def _played(view_name: str) -> list[tuple[str, bytes]]:
    """Names and bytes of a view's sample data."""
    with tempfile.TemporaryDirectory() as folder:
        paths = play(view_name, Path(folder), changes=2).rglob("*")
        return [(path.name, path.read_bytes()) for path in sorted(paths) if path.is_file()]


@cache
def small_file(view_name: str, kind: FileKind) -> tuple[str, bytes]:
    """Name and bytes of a file of a kind; of a long one some of its first lines."""
    sample = SAMPLES.get(view_name, {}).get(kind.id)
    files = (
        [file for file in _played(view_name) if kind.recognise(file[0], file[1][:HEAD])] if sample is None else [sample]
    )
    name, data = min(files, key=lambda file: len(file[1]))
    return name, data if len(data) <= SHORT else data[: data.find(b"\n", SHORT) + 1] or data[:SHORT]


PATTERNS = (
    b" ", b"\t", b"\n", b"\r", b"\x00", b"\xff", b"\x1b[", b'"', b'","', b"'", b"`", b"\\", b'\\"', b"a\\",
    b"0", b"1 ", b"1.", b"1,", b"00:", b"20-", b"0x", b"1e", b"_1", b"-",
    b"a", b"a ", b"a_", b"a.", b"a,", b"a;", b"a|", b"a: ", b"a=", b"a=b,", b"A\n", b":", b",", b";", b"=", b"@", b"#", b"# a: ",
    b"/*", b"?,", b"(?),", b"(", b"()", b"[", b"[],", b"{", b"{},", b"}", b'{"a":', b'"a":1,', b"<", b"<a>", b"&amp;", b"<!--",
    b"- ", b"a:\n", b"&a ", b"\x0a\x01", b"\x0a\xff\xff", b"\x80",
    b", Version: ", b"started with:", b"Query_time: ", b"SET timestamp=", b"2026-01-01 00:00:00 ", b"q.a,",
)  # fmt: skip
"""What is repeated: blanks, quotes, brackets, digits, separators, and words that readers look for."""

LINES = (b"\n", b"1,2,3\n")
"""Short lines, of which a file has many: an empty one, and one that is no record of anything."""


def files(seed: bytes, pattern: bytes, size: int) -> Iterator[bytes]:
    """Yield ``seed`` with about ``size`` bytes of ``pattern`` in its first line (a part of it, if it has one only), and behind
    it."""
    run = pattern * (size // len(pattern))
    first = seed.find(b"\n")
    for place in (first if 0 <= first < len(seed) - 1 else len(seed) * 2 // 3, len(seed)):
        yield seed[:place] + run + seed[place:]
