"""Evidence that grows by runs is the evidence of all runs at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.run_comparison.insight import ordered
from engine.run_comparison.insight import ranked as module
from engine.run_comparison.insight.evidence import Evidence, gather
from engine.run_comparison.insight.ranked import Tracker
from engine.run_comparison.runs.samples import Samples
from tests.engine.run_comparison.sides import added, pooled, random_runs


def _same(one: Evidence, other: Evidence) -> None:
    for name in Evidence.__slots__:
        mine, theirs = getattr(one, name), getattr(other, name)
        if name in ("shift", "low", "high"):  # where differences are equal but for rounding, their order is not told
            np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12, err_msg=name)
        else:
            assert np.array_equal(mine, theirs, equal_nan=mine.dtype != bool), name


@pytest.mark.parametrize(("ragged", "ties"), [(0.0, False), (0.0, True), (0.2, False), (0.2, True)])
@pytest.mark.parametrize("n", [12, 60])
def test_runs_that_arrive_one_by_one(n: int, ragged: float, ties: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered, "WORTH", 150)
    asked: list[int] = []

    def counted(*args: Any, **more: Any) -> Evidence:
        only = more["only"] if more else args[3]
        asked.append(-1 if only is None else int(np.count_nonzero(only)))
        return gather(*args, **more)

    monkeypatch.setattr(module, "gather", counted)
    rng = np.random.default_rng(n)
    metrics = 24
    runs = [
        random_runs(rng, n, metrics, ragged=ragged, ties=ties),
        random_runs(rng, n + 3, metrics, level=4.1, ragged=ragged, ties=ties),
    ]
    sides = [pooled(part, metrics) for part in runs]
    tracker = Tracker()
    with np.errstate(all="ignore"):
        for number in range(26):
            samples = Samples(sides[0], sides[1])
            _same(tracker.evidence(samples, 0.05), gather(Samples(*(pooled(p, metrics) for p in runs)), 0.05))
            if number != 5:  # an arrival before all is ready is no worse than before
                while tracker.ahead():
                    pass
            for at in ((0,), (1,), (0, 1), (1, 1))[number % 4]:
                run = random_runs(rng, 1, metrics, level=(4.0, 4.1)[at], ragged=ragged, ties=ties)[0]
                if number == 20:
                    run = [(metric, value if metric != 7 else -1.0) for metric, value in run]
                runs[at].append(run)
                sides[at] = sides[at].grown(added(run))
    assert asked.count(-1) < 6, "once all is ready, no arrival looks at all values"


def test_only_some_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered, "WORTH", 100)
    rng = np.random.default_rng(1)
    runs = [random_runs(rng, 30, 6), random_runs(rng, 30, 6)]
    sides = [pooled(part, 6) for part in runs]
    tracker = Tracker()
    some = np.array([True, False, True, True, False, False])
    for number in range(8):
        only = some if number < 5 else ~some
        samples = Samples(sides[0], sides[1])
        found = tracker.evidence(samples, 0.1, lambda: None, only)
        rows = np.flatnonzero(only)
        _same(found.take(rows), gather(samples, 0.1).take(rows))
        assert not found.compared[~only].any()
        while tracker.ahead():
            pass
        sides[0] = sides[0].grown(added(random_runs(rng, 1, 6)[0]))


def test_other_values_in_an_older_run_are_seen() -> None:
    rng = np.random.default_rng(2)
    left, right = random_runs(rng, 60, 5), random_runs(rng, 60, 5)
    tracker = Tracker()
    for _ in range(3):
        samples = Samples(pooled(left, 5), pooled(right, 5))
        _same(tracker.evidence(samples, 0.05), gather(samples, 0.05))
        while tracker.ahead():
            pass
        left[10] = random_runs(rng, 1, 5)[0]
        del right[4]


@pytest.mark.parametrize(("ragged", "ties"), [(0.0, False), (0.0, True), (0.2, True)])
def test_distances_of_runs_that_arrive(ragged: float, ties: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered, "WORTH", 100)
    rng = np.random.default_rng(5)
    runs = [random_runs(rng, 15, 20, ragged=ragged, ties=ties), random_runs(rng, 12, 20, ragged=ragged, ties=ties)]
    sides = [pooled(part, 20) for part in runs]
    distances = ordered.Distances()
    followed = 0
    for number in range(12):
        samples = Samples(sides[0], sides[1])
        found = distances.of(samples)
        plain = ordered.Distances().of(Samples(*(pooled(part, 20) for part in runs)))
        assert np.array_equal(found, plain, equal_nan=True), number
        assert distances.of(samples) is found
        followed += distances._ordered is not None
        while distances.ahead():
            pass
        at = number % 2
        runs[at] += random_runs(rng, 1, 20, ragged=ragged, ties=ties)
        sides[at] = sides[at].grown(added(runs[at][-1]))
    assert followed == 11
