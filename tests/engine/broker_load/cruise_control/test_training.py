"""The training of CPU weights where a rule is exactly on its limit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from msgspec.structs import replace

from engine.broker_load.cruise_control.regression import bucket_of, half_widths, train
from engine.broker_load.model.measured import Observations


def _observed(cpu: np.ndarray, seed: int = 1) -> Observations:
    rng = np.random.default_rng(seed)
    into, out, fetched = rng.uniform(10, 100, (3, cpu.size))
    return Observations(cpu, into, out, fetched, np.ones(cpu.size))


def test_buckets_are_five_percent_wide() -> None:
    cpu = np.array([0.0, 4.999, 5.0, 9.99, 100.0, -4.0, -5.0, 1e300])
    assert bucket_of(cpu).tolist() == [0, 0, 1, 1, 20, 0, -1, 10**15]


def test_five_full_buckets_are_a_training() -> None:
    full = np.repeat([2.0, 7.0, 12.0, 17.0, 22.0], 100)
    made = train(_observed(full))
    assert made.trained and made.completeness == 1.0 and made.counts == dict.fromkeys(range(5), 100)
    short = train(_observed(full[1:]))
    assert not short.trained and short.completeness == pytest.approx(499 / 500)
    many = train(_observed(np.append(full[:400], [27.0] * 50 + [32.0] * 20)))
    assert not many.trained and many.completeness == pytest.approx(4.5 / 5)
    nothing = train(_observed(np.zeros(0)))
    assert (nothing.coefficients, nothing.low, nothing.high) == ((None,) * 3,) * 3
    assert (nothing.completeness, nothing.trained, nothing.stored.size) == (0, False, 0)


def test_the_newest_hundred_of_a_bucket_are_fitted() -> None:
    old, new = _observed(np.full(30, 1.0), 2), _observed(np.full(100, 3.0), 3)
    both = Observations(*(np.concatenate(pair) for pair in zip(_columns(old), _columns(new), strict=True)))
    made = train(both)
    assert made.stored.tolist() == [False] * 30 + [True] * 100 and made.counts == {0: 130}
    wanted = np.linalg.lstsq(new.design(), new.cpu, rcond=None)[0]
    assert made.coefficients == pytest.approx(tuple(wanted), rel=1e-9)
    half = _half(new.design(), new.cpu)
    assert made.low == pytest.approx(tuple(wanted - half), rel=1e-6)
    assert made.high == pytest.approx(tuple(wanted + half), rel=1e-6)


def _columns(observations: Observations) -> list[np.ndarray]:
    return [getattr(observations, name) for name in ("cpu", "bytes_in", "bytes_out", "follower_in", "relative")]


def _half(design: np.ndarray, cpu: np.ndarray) -> np.ndarray:
    """The half widths from the inverse of the normal equations as they stand in a textbook."""
    rest = cpu - design @ np.linalg.lstsq(design, cpu, rcond=None)[0]
    freedom = len(cpu) - design.shape[1]
    spread = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * (rest @ rest) / freedom)
    return spread * scipy.special.stdtrit(freedom, 0.975)


@pytest.mark.parametrize(("shared", "left_out"), [(10, False), (11, True)])
@pytest.mark.parametrize("out", [None, 0.0])
def test_bytes_out_leave_the_fit_if_more_than_half_share_a_ratio(
    shared: int, left_out: bool, out: float | None
) -> None:
    cpu = np.linspace(20.0, 24.0, 20)
    made = _observed(cpu)
    made.bytes_out[:] = made.bytes_in * np.linspace(2.05, 0.5, 20)
    # ratios of 10 * in / out are compared without their fraction
    made.bytes_out[:shared] = made.bytes_in[:shared] / (3.05 + 0.004 * np.arange(shared)) if out is None else out
    made.bytes_out[shared:] = made.bytes_in[shared:] / np.linspace(1.05, 2.85, 20)[shared:]
    a, b, c = train(made).coefficients
    columns = [0, 2] if left_out else [0, 1, 2]
    wanted = np.linalg.lstsq(made.design()[:, columns], cpu, rcond=None)[0]
    assert [a, b, c][1] is None if left_out else b is not None
    assert [value for value in (a, b, c) if value is not None] == pytest.approx(wanted.tolist(), rel=1e-9)


def test_too_few_or_dependent_observations_give_no_coefficients() -> None:
    made = _observed(np.array([11.0, 12.0, 13.0]))
    exact = train(made)
    assert None not in exact.coefficients and exact.low == exact.high == (None, None, None)
    assert train(made.take(np.array([0, 1]))).coefficients == (None, None, None)
    dependent = replace(_observed(np.linspace(1, 9, 30)), follower_in=_observed(np.linspace(1, 9, 30)).bytes_in)
    assert train(dependent).coefficients == (None, None, None)
    assert half_widths(np.ones((2, 2)), np.ones(2)) is None
    assert half_widths(np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0 + 1e-12]]), np.ones(3)) is None


def test_units_of_what_is_observed_change_no_interval_but_their_own() -> None:
    """Columns are scaled first: bytes in much larger units give coefficients as much larger."""
    made = _observed(np.linspace(20.0, 24.0, 20))
    design, rest = made.design(), np.sin(np.arange(20.0))
    units = np.array([1.0, 1e-12, 1e9])
    plain, scaled = half_widths(design, rest), half_widths(design * units, rest)
    assert plain is not None and scaled is not None
    assert (scaled * units).tolist() == pytest.approx(plain.tolist(), rel=1e-6)
