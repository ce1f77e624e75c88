"""The elbow: found and taken out whatever the queue behind it is, and not seen where there is none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.query_profile.estimators import estimate, remedies
from engine.query_profile.estimators.attribution import attribute
from engine.query_profile.estimators.design import FitOptions
from tests.bench._query_scenarios import Draw, error, workload

UNKNOWN = np.full(720, np.nan)


QUEUES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "one server": lambda load: 1 / (1 - load),
    "four servers": lambda load: 1 / (1 - load**4),
    "half of it waits": lambda load: 1 + 0.5 * load / (1 - load),
    "times out": lambda load: 1 / (1 - np.minimum(1.15 * load, 0.93)),
}


def queued(queue: Callable[[np.ndarray], np.ndarray], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times with waiting (720, 40), CPU (720,), true CPU per class (40,)."""
    rng = np.random.default_rng(seed)
    x, cost = workload(Draw(), rng)
    y = (x * cost).sum(axis=1)
    seen = x * queue(0.93 * y / y.max())[:, None]
    return seen, y * (1 + 0.05 * rng.normal(size=720)), (x * cost).sum(axis=0)


@pytest.mark.parametrize("queue", QUEUES)
def test_waiting_is_taken_out_whatever_the_queue(queue: str) -> None:
    x, y, truth = queued(QUEUES[queue], 40)
    found = attribute(x, None, y, UNKNOWN, FitOptions(draws=24))
    assert found.elbow is not None
    assert found.elbow.curve is not None
    straight = estimate.fit_times(x, y, UNKNOWN, FitOptions(sample=False))
    assert error(found.total, truth) < 0.2
    assert error(found.total, truth) < 0.6 * error(straight.time * x.sum(axis=0), truth)
    assert found.background == 0
    assert found.predicted == pytest.approx(y, rel=0.25)
    major = truth > 0.01 * truth.sum()
    assert ((found.cpu_low_us <= truth) & (truth <= found.cpu_high_us))[major].mean() >= 0.75
    assert found.elbow.curve.slowdown == pytest.approx(max(QUEUES[queue](np.array([0.93]))), rel=0.5)


def test_a_background_is_no_elbow() -> None:
    rng = np.random.default_rng(41)
    x, cost = workload(Draw(), rng)
    work = x @ cost
    y = (work + 0.5 * work.mean()) * (1 + 0.05 * rng.normal(size=720))
    assert not remedies.find_elbow(x, y, UNKNOWN, FitOptions()).found


def test_few_intervals_and_empty_ones_are_no_elbow() -> None:
    assert not remedies.find_elbow(np.ones((19, 2)), np.ones(19), np.full(19, np.nan), FitOptions()).found
    assert not remedies.find_elbow(np.zeros((50, 2)), np.arange(50.0), np.full(50, np.nan), FitOptions()).found
    assert remedies.bend(np.zeros(50), np.arange(50.0)) == (0.0, 0.0)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=8),
    st.lists(st.floats(0.01, 2), min_size=8, max_size=8),
    st.lists(st.floats(1e-3, 1e9), min_size=2, max_size=20),
)
def test_the_curve_never_falls_and_never_outruns_the_work(
    slopes: list[float], steps: list[float], work: list[float]
) -> None:
    knots = np.cumsum([0.0, *steps[: len(slopes)]])
    curve = remedies.Curve(knots, np.array(slopes), 0.0)
    z = np.sort(np.array(work))
    cpu = curve.cpu(z)
    assert (np.diff(cpu) >= -1e-12 * cpu[1:]).all()
    assert (np.diff(cpu / z) <= 1e-12 * (cpu / z)[1:]).all()
    assert np.isin(curve.slope(z), slopes).all()
    assert curve.slowdown >= 1
