"""The safe form of the regression: a textbook's line, and numbers exactly on its limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.query_profile.wlr.regression import HUGE, NO_SPREAD, TINY, Moments, Sums, plausible, without_tiny


def _textbook(x: np.ndarray, z: np.ndarray) -> list[float]:
    """Slope, intercept, R², standard errors of both."""
    n, design = len(x), np.column_stack([x, np.ones(len(x))])
    slope, intercept = np.linalg.lstsq(design, z, rcond=None)[0]
    rest = z - slope * x - intercept
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * (rest @ rest) / (n - 2))
    return [slope, intercept, 1 - rest @ rest / ((z - z.mean()) ** 2).sum(), *errors]


def test_lines_are_a_textbooks() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(1, 9, (40, 2)) * (rng.random((40, 2)) < 0.8)
    y = 3 * x[:, 0] + 5 * x[:, 1] + rng.uniform(1, 2, 40)
    shares = x * (y / np.maximum(x.sum(axis=1), 1e-9))[:, None]
    halves = Moments.zero(2).add(x[:15], y[:15]).merge(Moments.zero(2).add(x[15:], y[15:]))
    for made in (Moments.zero(2).add(x, y).lines(), halves.lines()):
        for number in range(2):
            present = x[:, number] > 0
            wanted = _textbook(x[present, number], shares[present, number])
            columns = (made.slope, made.intercept, made.r2, made.slope_stderr, made.intercept_stderr_correct)
            assert [column[number] for column in columns] == pytest.approx(wanted, rel=1e-9)
        assert made.sx == pytest.approx(x.sum(axis=0)) and not made.no_spread.any()
    program = Sums.zero(2).add(x, y).lines()
    assert program.intercept_stderr_correct == pytest.approx(made.intercept_stderr_correct, rel=1e-9)
    assert not program.no_spread.any()
    small = Sums.zero(2).add(x, y * 2.0**-40).lines()
    assert small.intercept_stderr_correct == pytest.approx(program.intercept_stderr_correct * 2.0**-40, rel=1e-9, abs=0)


def test_few_rows_and_equal_times() -> None:
    x, y = np.array([[2.0, 0, 4, 0], [0, 3, 4, 0], [0, 5, 4, 0]]), np.array([6.0, 7.0, 9.0])
    made = Moments.zero(4).add(x, y).lines()
    assert made.n.tolist() == [1, 2, 3, 0] and made.no_spread.tolist() == [False, False, True, False]
    assert made.slope[:1] == pytest.approx(1.0) and made.slope[3] == made.intercept[3] == 0
    assert made.intercept[[0, 2]].tolist() == made.r2[[0, 2]].tolist() == [0, 0] and made.r2[3] == 0
    assert made.slope[2] == pytest.approx((4 + 4 + 4) / 12)
    assert made.slope_stderr.tolist() == made.intercept_stderr_correct.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("level", [1e-9, 1e-3, 1.0, 1e9])
def test_spread_is_relative(level: float) -> None:
    for spread, flat in ((0.5 * NO_SPREAD, True), (4 * NO_SPREAD, False), (1e-5, False)):
        x = level * (1 + spread * np.linspace(0, 1, 9))[:, None]
        assert Moments.zero(1).add(x, np.arange(1.0, 10.0)).lines().no_spread.tolist() == [flat], (level, spread)


@pytest.mark.parametrize("odd", [HUGE, -HUGE, 1e31, -1e31, math.inf, -math.inf, math.nan])
def test_rows_beyond_what_is_possible_are_left_out(odd: float) -> None:
    x, y = np.array([[1.0, 2], [2, 1], [3, 5], [4, 4]]), np.array([5.0, 6, 7, 9])
    wanted = Moments.zero(2).add(x, y)
    for place in (0, 1, 2):
        row, target = [1.0, 1.0], 3.0
        if place < 2:
            row[place] = odd
        else:
            target = odd
        found = Moments.zero(2).add(np.vstack([x, [row]]), np.append(y, target))
        assert found.rows == 4
        assert found.mxz == pytest.approx(wanted.mxz) and found.n.tolist() == [4, 4]


def test_tiny_and_huge_numbers() -> None:
    above = math.nextafter(TINY, 1)
    assert without_tiny(np.array([TINY, -TINY, TINY / 2, -TINY / 2, 0.0, above])).tolist() == [
        TINY,
        -TINY,
        0,
        0,
        0,
        above,
    ]
    assert plausible(np.array([TINY, TINY / 2, -1.0, HUGE, math.nextafter(HUGE, 0), math.nan])).tolist() == [
        TINY, 0, 0, 0, math.nextafter(HUGE, 0), 0,
    ]  # fmt: skip
