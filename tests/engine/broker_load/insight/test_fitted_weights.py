"""The non-negative fit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from engine.broker_load.insight import fitted_weights
from tests.chance import tries


@tries(20)
@given(st.integers(1, 3), st.integers(4, 40), st.integers(0, 2**32 - 1))
def test_non_negative_fit_is_the_best_there_is(columns: int, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    design = rng.random((rows, columns))
    target = design @ rng.normal(0.0, 1.0, columns) + rng.normal(0.0, 0.3, rows)
    assert fitted_weights.non_negative(design, target) == pytest.approx(
        scipy.optimize.nnls(design, target)[0], abs=1e-9
    )
