"""Every reader takes time linear in the length of its input, whatever the input is.

Processor time is compared between an input and a longer one of the same shape, and only where the short one is not cheap at
once: other work on the machine, or a machine that stands still, changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from engine.core.reading import HEAD, FileKind, Reading, Source
from tests.contract.hostile import LINES, PATTERNS, files, small_file
from tests.contract.samples import FED, view

KINDS = [(name, kind) for name in FED for kind in view(name).kinds]
every_kind = pytest.mark.parametrize(("view_name", "kind"), KINDS, ids=[f"{name}-{kind.id}" for name, kind in KINDS])

SIZE, CHEAP_S = 1 << 12, 0.02
"""Length of the repeated part, and seconds of processor time that suffice for no quadratic pass over it."""

LONG, CHEAP_LONG_S = 1 << 16, 0.12
"""The same for lines, of which each may cost a copy of all before it."""

TIMES, MOST = 4, 10.0
"""How many times longer the longer input is, and how many times the time it may take (a square: 16)."""


def processor_time(work: Callable[[], object], cheap: float) -> float:
    """Least processor seconds of three tries, of one that is ``cheap``."""
    least = float("inf")
    for _ in range(3):
        begin = time.process_time()
        work()
        least = min(least, time.process_time() - begin)
        if least < cheap:
            break
    return least


def reading(kind: FileKind, name: str, data: bytes) -> Callable[[], object]:
    """Read a whole file, as a report does."""
    return lambda: kind.read(Source(f"/in/{name}", name, 0, len(data)), data, None, True)


def growths(
    kind: FileKind,
    file: tuple[str, bytes],
    patterns: tuple[bytes, ...],
    size: int,
    cheap: float,
    *,
    behind: bool = False,
) -> list[tuple[bytes, int, float]]:
    """Pattern, place and growth of what is not linear; ``behind``: only behind the ``file``, else each
    pattern at one of the two places, at the other one for the file of another kind."""
    name, seed = file
    found = []
    for number, pattern in enumerate(patterns, len(seed)):
        for place, data in enumerate(files(seed, pattern, size)):
            if not data.startswith(seed) if behind else (number + place) % 2:
                continue
            short = processor_time(reading(kind, name, data), cheap)
            if short < cheap:
                continue
            longer = list(files(seed, pattern, TIMES * size))[place]
            growth = processor_time(reading(kind, name, longer), MOST * short) / short
            if growth > MOST:
                found.append((pattern, place, round(growth, 1)))
    return found


@every_kind
def test_reading_is_linear_in_any_repetition(view_name: str, kind: FileKind) -> None:
    assert not growths(kind, small_file(view_name, kind), PATTERNS, SIZE, CHEAP_S)


@every_kind
def test_reading_is_linear_in_the_number_of_lines(view_name: str, kind: FileKind) -> None:
    assert not growths(kind, small_file(view_name, kind), LINES, LONG, CHEAP_LONG_S, behind=True)


@every_kind
def test_any_head_is_recognised_or_not_at_once(view_name: str, kind: FileKind) -> None:
    """A folder may hold many files that are of no kind: each costs what its head costs, in every view."""
    name, seed = small_file(view_name, kind)
    for pattern in PATTERNS:
        for data in files(seed, pattern, HEAD):
            taken = processor_time(lambda head=data[:HEAD]: kind.recognise(name, head), CHEAP_S)  # type: ignore[misc]
            assert taken < CHEAP_S, pattern


class Careless:
    """A reader that looks at all before each ``a`` again."""

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        return Reading(consumed=sum(max(data[:place]) for place, byte in enumerate(data, 1) if byte == ord("a")))


def test_a_careless_reader_is_found() -> None:
    kind: Any = Careless()
    found = growths(kind, ("x", b""), (b"a", b"b"), 512, 0.0005, behind=True)
    assert {pattern for pattern, _, _ in found} == {b"a"}
