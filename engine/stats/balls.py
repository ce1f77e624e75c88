"""A bootstrap that grows: resamples of n units become resamples of n + 1 units by changing about one unit in each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

SMALL = 64
"""Below so many units all resamples are drawn anew when another comes."""


def base_size(n: int) -> int:
    """The largest power of two up to ``n``; ``n`` itself below ``SMALL``."""
    return n if n < SMALL else 1 << (n.bit_length() - 1)


@dataclass(frozen=True, slots=True)
class Step:
    """What one more unit changed. ``fresh``: how often it was drawn in each resample; ``swaps``: units that were drawn
    once more (+1) or once less (-1), as rows (each at most once), units and sign."""

    fresh: Ints
    swaps: tuple[tuple[Ints, Ints, int], ...]


class Balls:
    """``draws`` resamples of units numbered from 0, with replacement, each of as many as there are units.

    The counts of n + 1 units in a multinomial resample are those of the newest, binomial with chance 1 / (n + 1), and for
    the others a multinomial resample of what remains. So a resample of n units lacks one draw where the newest is not
    drawn (one unit is drawn once more), and has some too many where it is drawn more than once (draws chosen at random
    go): the classic bootstrap, exactly. Resamples depend on the number of units, the seed and nothing else: they begin
    anew at each power of two from ``SMALL`` on, and each step has random numbers of its own.
    """

    def __init__(self, n: int, draws: int, seed: tuple[int, ...]) -> None:
        """Resamples of ``n`` units."""
        base = base_size(n)
        self.n, self.draws, self._seed = base, draws, seed
        self._held = np.empty((draws, max(2 * base, 1)), dtype=np.int32)
        self._held[:, :base] = self._random(base, 0).integers(0, max(base, 1), size=(draws, base))
        while self.n < n:
            for _ in self._grow():
                pass

    def _random(self, *place: int) -> np.random.Generator:
        return np.random.default_rng([*self._seed, *place])

    def grow(self) -> Step | None:
        """One unit more. None where that needs new resamples of all."""
        if self.n + 1 < SMALL or base_size(self.n + 1) == self.n + 1:
            return None
        swaps: list[tuple[Ints, Ints, int]] = []
        fresh = np.zeros(0, dtype=np.int64)
        for rows, units, sign in self._grow():
            if sign:
                swaps.append((rows, units, sign))
            else:
                fresh = units
        return Step(fresh, tuple(swaps))

    def _grow(self) -> Iterator[tuple[Ints, Ints, int]]:
        n, held = self.n, self._held
        random = self._random(n, 1)
        fresh = np.searchsorted(_chances(n), random.random(self.draws), side="right").astype(np.int64)
        yield np.arange(self.draws), fresh, 0
        held[:, n] = n
        lacking = np.flatnonzero(fresh == 0)
        units = random.integers(0, n, lacking.size)
        held[lacking, n] = units
        yield lacking, units, 1
        for layer in range(int(fresh.max(initial=0)) - 1):
            rows = np.flatnonzero(fresh > layer + 1)
            last = n - 1 - layer
            at = random.integers(0, last + 1, rows.size)
            gone = held[rows, at].astype(np.int64)
            held[rows, at] = held[rows, last]
            held[rows, last] = n
            yield rows, gone, -1
        self.n = n + 1

    def counts(self) -> NDArray[np.float32]:
        """How often each unit is drawn in each resample: [draws, n]; rows sum to n."""
        flat = self._held[:, : self.n] + (np.arange(self.draws, dtype=np.int64) * self.n)[:, None]
        found = np.bincount(flat.ravel(), minlength=self.draws * self.n)
        return found.reshape(self.draws, self.n).astype(np.float32)


@lru_cache(maxsize=1024)
def _chances(n: int) -> NDArray[np.float64]:
    """P(X <= k) for k = 0, 1, ... of the binomial number X of draws of one among n + 1 units in n + 1 draws."""
    chance = (n / (n + 1.0)) ** (n + 1)
    found = []
    for k in range(min(n + 1, 18)):
        found.append(chance)
        chance *= (n + 1 - k) / ((k + 1.0) * n)
    return np.asarray(np.minimum(np.cumsum(found), 1.0))
