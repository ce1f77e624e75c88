"""Token generators: spread-minimizing tokens, which are computed, and random ones.

Source: ``grafana/dskit/ring`` (``spread_minimizing_token_generator.go``, ``token_generator.go``). See
``docs/models/dskit-rings.md``, "Tokens".
"""

from __future__ import annotations

import heapq
from functools import lru_cache

import numpy as np

from engine.ring_placement.dskit.token_ring import SPACE
from engine.ring_placement.pyroscope.prng import GoRand

PER_INSTANCE = 512
"""Tokens that the generator makes for each instance; with fewer configured the first ones in order are used."""
MAX_ZONES = 8
"""Zones that spread-minimizing tokens know: all tokens of zone z are z modulo 8."""
MAX_INSTANCE = 4096
"""Largest instance number that tokens are computed for: each needs all smaller ones."""


class _Zone:
    """Tokens of zone 0, instance by instance. Ranges of each instance lie in a heap, the largest first."""

    def __init__(self) -> None:
        width = SPACE // PER_INSTANCE
        first = [i * width for i in range(PER_INSTANCE)]
        self.tokens = [first]
        ranges = [(-width, -token) for token in first]
        heapq.heapify(ranges)
        self._ranges = [ranges]
        self._owned = [SPACE]

    def add(self) -> None:
        """Compute the tokens of the next instance: each splits the largest range of the instance that owns most."""
        number = len(self.tokens)
        optimal = SPACE / (number + 1)
        owners = [(-owned, -k) for k, owned in enumerate(self._owned)]
        heapq.heapify(owners)
        own = 0
        ranges: list[tuple[int, int]] = []
        tokens: list[int] = []
        while len(tokens) < PER_INSTANCE:
            want = int(optimal - own) // (PER_INSTANCE - len(tokens))
            want -= want % MAX_ZONES
            owned, k = heapq.heappop(owners)
            size, token = -self._ranges[-k][0][0], -self._ranges[-k][0][1]
            if size <= want:
                continue  # aside until the next instance
            heapq.heappop(self._ranges[-k])
            new, taken = _split(token, size, want)
            heapq.heappush(self._ranges[-k], (taken - size, -token))
            heapq.heappush(owners, (owned + taken, k))
            self._owned[-k] -= taken
            heapq.heappush(ranges, (-taken, -new))
            tokens.append(new)
            own += taken
        self._ranges.append(ranges)
        self._owned.append(own)
        self.tokens.append(sorted(tokens))


def _split(token: int, size: int, want: int) -> tuple[int, int]:
    """Return the token that takes the first ``want`` keys of the range of ``size`` that ends in ``token``, and the number of
    keys that it takes: 8 more where it wraps."""
    previous = (token - size) % SPACE
    room = SPACE - MAX_ZONES - previous
    new = previous + want if room >= want else want - room
    return new, (new - previous) % SPACE


@lru_cache(maxsize=1)
def _zone() -> _Zone:
    return _Zone()


def spread_minimizing_tokens(zone: int, instance: int, count: int = PER_INSTANCE) -> np.ndarray:
    """Compute the first ``count`` tokens (int64, sorted) of instance number ``instance`` in zone number ``zone`` (0 to 7)."""
    known = _zone()
    while len(known.tokens) <= instance:
        known.add()
    return np.array(known.tokens[instance][:count], dtype=np.int64) + zone


def random_tokens(seed: int, count: int) -> np.ndarray:
    """Draw ``count`` distinct random tokens (int64, sorted)."""
    out: set[int] = set()
    generator = GoRand(seed)
    while len(out) < count:
        for value in ((generator.uint64s(count) & np.uint64(2**63 - 1)) >> np.uint64(31)).tolist():
            if len(out) < count:
                out.add(value)
    return np.array(sorted(out), dtype=np.int64)
