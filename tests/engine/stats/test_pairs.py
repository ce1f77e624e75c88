"""Windows of pairwise differences tell the order statistics of all of them."""

from __future__ import annotations

import numpy as np
import pytest

from engine.stats import pairs
from engine.stats.pairs import PairWindows, count_below


@pytest.mark.parametrize("equal", [False, True])
def test_bisection_counts(equal: bool) -> None:
    rng = np.random.default_rng(1)
    rows = np.sort(rng.integers(0, 20, (30, 17)).astype(np.float64), axis=1)
    sizes = rng.integers(0, 18, 30)
    rows[np.arange(17) >= sizes[:, None]] = np.inf
    at = rng.integers(0, 30, 200)
    limits = rng.integers(-1, 22, 200).astype(np.float64)
    found = count_below(rows, at, sizes[at], limits, equal=equal)
    side = "right" if equal else "left"
    assert found.tolist() == [rows[r, : sizes[r]].searchsorted(v, side=side) for r, v in zip(at, limits, strict=True)]


@pytest.mark.parametrize(("kind", "wanted"), [("smooth", 0.9), ("whole", 0.0), ("apart", 0.9), ("still", 0.0)])
def test_ranks_of_samples_that_grow(kind: str, wanted: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "_LATE", 8)
    rng = np.random.default_rng(6)

    def value(side: int) -> float:
        if kind == "whole":
            return float(rng.integers(0, 3))
        if kind == "still":
            return 5.0
        return float(np.exp(rng.normal(3.0 * side, 2.0))) if kind == "apart" else float(rng.normal(side, 1.0))

    samples = [[[value(side) for _ in range(70)] for _ in range(4)] for side in (0, 1)]
    windows = PairWindows(4, 2, 70)
    told = asked = 0
    for number in range(120):
        side = number % 2
        grids = []
        for part in samples:
            grid = np.full((4, max(map(len, part))), np.inf)
            for row, values in enumerate(part):
                grid[row, : len(values)] = np.sort(values)
            grids.append(grid)
        sizes = [np.array([len(values) for values in part]) for part in samples]
        total = int(sizes[0][0] * sizes[1][0])
        first, last = np.array([(total - 1) // 2, total // 9]), np.array([total // 2, total // 9])
        every = np.arange(4)
        ranks = np.tile(first, (4, 1)), np.tile(last, (4, 1))
        scale = np.full(4, max(abs(v) for part in samples for values in part for v in values))
        one, other, sure = windows.find(every, *ranks, scale)
        for row in every.tolist():
            x, y = grids[0][row], grids[1][row]
            plain = np.sort((y[None, :] - x[:, None]).ravel())
            for group in (0, 1):
                asked += number > 0
                if sure[row, group]:
                    told += 1
                    assert one[row, group] == plain[first[group]] and other[row, group] == plain[last[group]]
                else:
                    guess = float(plain[first[group]])
                    windows.make(row, group, x, y, int(first[group]), int(last[group]), guess, 0.001)
        fresh = np.array([value(side) for _ in range(4)])
        windows.add(every, fresh, grids[1 - side], sizes[1 - side], left=side == 0)
        for row, v in enumerate(fresh.tolist()):
            samples[side][row].append(v)
    assert told >= wanted * asked
