"""Non-negative least squares from normal equations."""

from __future__ import annotations

import numpy as np
import scipy
from hypothesis import given
from hypothesis import strategies as st

from engine.stats import nonnegative
from tests.chance import tries


@tries(12)
@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 40))
def test_solver_agrees_with_scipy(seed: int, columns: int, extra: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.random((columns + extra, columns)) * np.exp(rng.normal(0, 3, columns))
    y = a @ np.maximum(rng.normal(0, 1, columns), 0) + rng.normal(0, 0.3, len(a))
    mine = nonnegative.solve(a.T @ a, a.T @ y)
    _, best = scipy.optimize.nnls(a, y)
    assert (mine >= 0).all()
    assert np.linalg.norm(a @ mine - y) <= best * (1 + 1e-6) + 1e-9
