"""Go's ``math/rand`` v1 generator and the frozen permutation of shards that Pyroscope draws from it.

Source: Go's generator is an additive lagged Fibonacci register (Mitchell and Reeds, lags 607 and 273) whose start is
mixed with 607 constants. Those constants are the same register after 7.8e12 steps; they are computed here by jumping
ahead (``z^T mod (z^607 - z^334 - 1)`` over the integers modulo 2^64) instead of being listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

LENGTH = 607
LAG = 273  # lags of the register: x_t = x_(t-607) + x_(t-273)
WARM_UP = 7_800_000_000_000  # steps after which the register of seed 1 holds Go's table

SHARD_SEED = -3035313949336265834
"""Seed of Pyroscope's table of permutation steps since February 2025 (pull request 3924)."""

_MERSENNE = 2**31 - 1


@lru_cache(maxsize=1)
def _powers() -> np.ndarray:
    """Return 48271^n mod 2^31-1 for n = 0 … 20 + 3·607 (uint64): a Lehmer generator jumps ahead by multiplication."""
    out = [1]
    for _ in range(20 + 3 * LENGTH):
        out.append(out[-1] * 48271 % _MERSENNE)
    return np.array(out, dtype=np.uint64)


def seed_words(seeds: Sequence[int], cells: np.ndarray, high: int, low: int) -> np.ndarray:
    """Make the words (uint64, shape (seeds, cells)) of three Lehmer outputs each, the first two shifted by ``high`` and ``low``
    bits, with which each seed fills ``cells`` of the register."""
    start = np.array([seed % _MERSENNE or 89482311 for seed in seeds], dtype=np.uint64)[:, None]
    words = [start * _powers()[20 + 3 * cells + step] % np.uint64(_MERSENNE) for step in (1, 2, 3)]
    return (words[0] << np.uint64(high)) ^ (words[1] << np.uint64(low)) ^ words[2]


def _extend(history: np.ndarray, count: int) -> np.ndarray:
    """Append to ``history`` (607 terms, oldest first) the next ``count`` terms of x_t = x_(t-607) + x_(t-273), uint64."""
    terms = np.empty(LENGTH + count, dtype=np.uint64)
    terms[:LENGTH] = history
    done = LENGTH
    while done < len(terms):
        stop = min(done + LAG, len(terms))
        terms[done:stop] = terms[done - LENGTH : stop - LENGTH] + terms[done - LAG : stop - LAG]
        done = stop
    return terms


_CELL_OF_TERM = np.array([(334 - t) % LENGTH for t in range(-LENGTH + 1, 1)])
"""Cell of the register in which the term x_t lies, for t = -606..0 (oldest first)."""


def _reduce(product: np.ndarray) -> np.ndarray:
    """Reduce a polynomial (coefficients by power, uint64) modulo z^607 - z^334 - 1."""
    rest = product.copy()
    while len(rest) > LENGTH:
        # Only as many high powers at a time as fall below the ones still to be folded.
        start = max(LENGTH, len(rest) - LAG)
        high = rest[start:].copy()
        rest = rest[:start]
        at = start - LENGTH
        rest[at : at + len(high)] += high
        rest[at + 334 : at + 334 + len(high)] += high
    return rest


@lru_cache(maxsize=1)
def cooked() -> np.ndarray:
    """Compute Go's 607 mixing constants, in cell order (uint64, read-only)."""
    power = np.zeros(LENGTH, dtype=np.uint64)
    power[int(bin(WARM_UP)[2:11], 2)] = 1  # the first nine bits make a power that needs no folding
    for bit in bin(WARM_UP)[11:]:
        power = _reduce(np.convolve(power, power))
        if bit == "1":
            power = _reduce(np.concatenate((np.zeros(1, dtype=np.uint64), power)))
    last = np.correlate(_extend(seed_words([1], _CELL_OF_TERM, 20, 10)[0], LENGTH - 1), power, mode="valid")
    cells = np.empty(LENGTH, dtype=np.uint64)
    # After T steps the newest 607 terms lie in cells (334 - t) mod 607 for t = T-606..T.
    cells[[(334 - t) % LENGTH for t in range(WARM_UP - LENGTH + 1, WARM_UP + 1)]] = last
    cells.flags.writeable = False
    return cells


class GoRand:
    """The generator behind Go's ``rand.New(rand.NewSource(seed))``; draws are made in blocks."""

    def __init__(self, seed: int) -> None:
        self._history = seed_words([seed], _CELL_OF_TERM, 40, 20)[0] ^ cooked()[_CELL_OF_TERM]
        self._ready = np.empty(0, dtype=np.uint64)
        self._next = 0

    def uint64s(self, count: int) -> np.ndarray:
        """Draw the next ``count`` values of Uint64 (uint64)."""
        left = len(self._ready) - self._next
        if left < count:
            terms = _extend(self._history, max(count - left, LENGTH))
            self._ready = np.concatenate((self._ready[self._next :], terms[LENGTH:]))
            self._history = terms[-LENGTH:]
            self._next = 0
        drawn = self._ready[self._next : self._next + count]
        self._next += count
        return drawn

    def intn_each(self, bounds: np.ndarray) -> np.ndarray:
        """Draw Intn of each bound in turn (int64 array of values 1 .. 2^31-1); rejected draws are drawn again, as Go does."""
        out = np.empty(len(bounds), dtype=np.int64)
        limits = np.where(bounds & (bounds - 1) == 0, _MERSENNE, 2**31 - 1 - 2**31 % bounds)
        done = 0
        while done < len(bounds):
            drawn = ((self.uint64s(len(bounds) - done) & np.uint64(2**63 - 1)) >> np.uint64(32)).astype(np.int64)
            rejected = np.flatnonzero(drawn > limits[done:])
            good = int(rejected[0]) if len(rejected) else len(drawn)
            out[done : done + good] = drawn[:good] % bounds[done : done + good]
            # Draws behind a rejected one are drawn again: they belong to the bound that rejected it.
            self._next -= len(drawn) - good - 1 if len(rejected) else 0
            done += good
        return out


_steps = np.empty(0, dtype=np.int64)


def steps(count: int) -> np.ndarray:
    """Return the first ``count`` entries (int64) of the frozen step table: step[i] = Intn(i + 1), drawn in order."""
    global _steps
    if len(_steps) < count:
        # A longer table has the shorter one as its prefix, so it is safe to keep the longest.
        _steps = GoRand(SHARD_SEED).intn_each(np.arange(1, max(count, 4096) + 1, dtype=np.int64))
        _steps.flags.writeable = False
    return _steps[:count]


@lru_cache(maxsize=16)
def permutation(n: int) -> np.ndarray:
    """Return Pyroscope's permutation of 0..n-1 (int64, read-only): inside-out Fisher-Yates over the frozen steps."""
    values = [0] * n
    for i, step in enumerate(steps(n).tolist()):
        values[i] = values[step]
        values[step] = i
    out = np.array(values, dtype=np.int64)
    out.flags.writeable = False
    return out
