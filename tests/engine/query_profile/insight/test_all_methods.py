"""Methods on one workload."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.view import Context
from engine.query_profile.estimators.design import FitOptions
from engine.query_profile.insight.all_methods import Fits
from engine.query_profile.workloads.workload import ClassInfo, Workload


def test_more_classes_than_intervals_can_tell_apart_share_their_costs() -> None:
    """Of 120 classes with calls in 60 intervals the large ones are fitted alone, the rest together: by time and by calls."""
    rng = np.random.default_rng(11)
    rows, classes = 60, 120
    calls = np.ceil(rng.gamma(3, 30, (rows, classes)) / np.arange(1, classes + 1)) + 1
    x = calls * 50.0 * rng.gamma(4, 0.25, (rows, classes))
    calls[:, -1] += 40  # little time each, but many calls
    y = (0.5 * x + 100 * calls).sum(axis=1) * rng.normal(1, 0.01, rows)
    unknown = np.full(rows, -1, np.int64)
    work = Workload(
        "made", "made", tuple(ClassInfo(f"c{j}") for j in range(classes)), {"time_us": x, "calls": calls}, y, unknown,
        unknown, ("",) * rows,
    )  # fmt: skip
    fits = Fits(work, np.ones(rows, bool), "safe", FitOptions(draws=24), 0.9, Context(now_ms=0))
    found = fits.attribution
    truth = (0.5 * x + 100 * calls).sum(axis=0)
    assert len(found.total) == classes
    assert found.total.sum() + found.background == pytest.approx(y.sum(), rel=0.02)
    assert (found.cpu_low_us <= found.total).all()
    assert (found.total <= found.cpu_high_us).all()
    assert found.total[-1] == pytest.approx(truth[-1], rel=0.5)
    small = np.argsort(x.sum(axis=0) / x.sum() + calls.sum(axis=0) / calls.sum())[:60]
    assert np.corrcoef(found.total[small], truth[small])[0, 1] > 0.9
    assert fits.predict("default", x, calls, work.seconds) == pytest.approx(y, rel=0.1)
