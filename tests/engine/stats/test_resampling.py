"""Blocks and resamples: what is drawn, and the interval of what comes out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.stats import significance
from engine.stats.significance import SLOW, block_length, blocks, draw_counts, percentile_interval


def test_lengths_of_blocks() -> None:
    assert (block_length(1000, SLOW), block_length(1000, SLOW + 0.01), block_length(1000)) == (10, 24, 24)
    assert (block_length(64, 0.0), block_length(0)) == (4, 1)


def test_blocks_add_up_to_the_normal_equations(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    a, t = rng.normal(size=(67, 3)), rng.normal(size=67)
    grams, rights = blocks(a, t, 0.0)
    assert (grams.shape, rights.shape) == ((17, 3, 3), (17, 3))
    assert np.allclose(grams[1], a[4:8].T @ a[4:8]) and np.allclose(rights[1], a[4:8].T @ t[4:8])
    assert np.allclose(grams.sum(axis=0), a.T @ a) and np.allclose(rights.sum(axis=0), a.T @ t)
    assert len(blocks(a, t)[0]) == math.ceil(67 / 6)
    monkeypatch.setattr(significance, "MOST_BYTES", 3 * 3 * 8 * 5)  # memory for five matrices
    assert len(blocks(a, t, 0.0)[0]) == 5


def test_every_resample_has_as_many_units() -> None:
    drawn = draw_counts(7, 400, (3,))
    assert drawn.shape == (400, 7) and drawn.dtype == np.float32
    assert (drawn.sum(axis=1) == 7).all() and (drawn >= 0).all()
    assert abs(drawn.mean(axis=0) - 1).max() < 0.3
    assert np.array_equal(drawn, draw_counts(7, 400, (3,)))
    assert not np.array_equal(drawn, draw_counts(7, 400, (4,)))
    assert draw_counts(0, 5, (3,)).shape == (5, 0)


def test_interval_of_resampled_values() -> None:
    values = np.append(np.arange(101.0), np.nan)
    assert percentile_interval(values, 0.9) == pytest.approx((5, 95))
    assert percentile_interval(values, 0.5) == pytest.approx((25, 75))
    assert all(math.isnan(bound) for bound in percentile_interval(values[101:], 0.9))
