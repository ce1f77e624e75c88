"""Each rule of both comparisons at its limits, on samples made in memory."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from engine.core.incremental import Memo
from engine.run_comparison import perf_tests
from engine.run_comparison.perf_tests import BenchmarkKey
from engine.run_comparison.reading.series import Series
from engine.run_comparison.runs.measurements import Chunk, MetricKey
from engine.run_comparison.runs.runs import Run
from engine.run_comparison.runs.samples import Pool, Samples, Side
from tests.engine.run_comparison.random_sides import pooled

API = Series("APIResponsiveness", "APIResponsiveness_load", "GET", "pods", "", "cluster", "", "Perc90", "ms")
PODS = API._replace(kind="PodStartupLatency", metric="pod_startup", bucket="Perc50")
NAN = math.nan


def _side(*samples: list[float]) -> Side:
    """A side of one run with these values of each metric."""
    return pooled([[(metric, value) for metric, values in enumerate(samples) for value in values]], len(samples))


def _samples(left: list[list[float]], right: list[list[float]]) -> Samples:
    return Samples(_side(*left), _side(*right))


def test_p_is_kolmogorovs_limit() -> None:
    for z in (0.3, 0.7, 1.17, 1.18, 1.19, 1.6, 2.1, 2.5):
        found = perf_tests.go_ks_p(np.array([z / math.sqrt(6 * 3 / 9)]), 6, 3)[0]
        assert found == pytest.approx(special.kolmogorov(z), rel=1e-11, abs=0)
    assert np.isnan(perf_tests.go_ks_p(np.array([0.5, 0.0]), 0, 3)).all()


def test_distances_and_moments_of_sides_that_lack_metrics() -> None:
    samples = _samples([[1, 3], [2], [], [-1, -5]], [[2, 4, 6], [], [1], [7, 7]])
    assert perf_tests.ks_distances(samples).tolist() == pytest.approx([2 / 3, NAN, NAN, 1], nan_ok=True)
    left, right = perf_tests.moments(samples)
    assert left.n.tolist() == [2, 1, 0, 2]
    assert left.mean.tolist() == pytest.approx([2, 2, NAN, -3], nan_ok=True)
    assert left.deviation.tolist() == pytest.approx([1, 0, NAN, 2], nan_ok=True)
    assert (left.maximum.tolist(), right.maximum.tolist()) == (
        pytest.approx([3, 2, NAN, 0], nan_ok=True),
        pytest.approx([6, NAN, 1, 7], nan_ok=True),
    )


def _compare(left: list[list[float]], right: list[list[float]], scheme: str, threshold: float, average: float):
    keys = tuple(BenchmarkKey("load", "GET", str(i), "", "", "Perc90") for i in range(len(left)))
    both = Pool(keys, _samples(left, right), (frozenset(),) * len(left), np.arange(len(left)))
    return perf_tests.compare(both, scheme, threshold, average, Memo())[0]


def test_means_match_within_the_threshold_and_its_inverse() -> None:
    left, right = [[5.0], [4.9], [20.0], [20.1], [], [10.0]], [[10.0], [10.0], [10.0], [10.0], [3.0], []]
    answer = _compare(left, right, "avg", 0.5, 0.0)
    assert answer.matched.tolist() == [True, False, True, False, True, True]
    assert answer.ratio.tolist() == pytest.approx([0.5, 0.49, 2, 2.01, NAN, NAN], nan_ok=True)
    assert np.isnan(answer.p_value).all()
    # small means are excused if both are below the least one
    assert _compare([[9.1]], [[1.0]], "avg", 0.5, 9.1).matched.tolist() == [False]
    assert _compare([[1.0], [1.0], [2.0]], [[9.0], [9.1], [0.1]], "avg", 0.5, 9.1).matched.tolist() == [
        True,
        False,
        True,
    ]


def test_distributions_match_from_the_threshold_on() -> None:
    left, right = [[1.0, 2], [1.0, 2], []], [[1.0, 2], [8.0, 9], [1.0]]
    p = float(perf_tests.go_ks_p(np.array([1.0]), 2, 2)[0])
    for threshold, matched in ((p, True), (math.nextafter(p, 1), False)):
        answer = _compare(left, right, "ks", threshold, 0.0)
        assert answer.matched.tolist() == [True, matched, True]
        assert answer.p_value.tolist() == pytest.approx([1, p, NAN], nan_ok=True)
        assert np.isnan(answer.ratio).all()


def test_similarities() -> None:
    left, right = (
        np.array([[1.0, 3], [-1, -3], [0, 0], [2, 2], [0, 0]]),
        np.array([[2.0, 6], [-2, -6], [0, 0], [-1, -1], [4, 4]]),
    )
    assert perf_tests.ratio_of_means(left.mean(axis=1), right.mean(axis=1)).tolist() == [0.5, 0.5, 1, 0, 0]
    assert perf_tests.similarity_of("distribution", left, right).tolist() == [0.5, 0.5, 1, 0, 0]
    assert perf_tests.similarity_of("overlap", left, right).tolist() == [0.5, 0.5, 1, 0, 0]


KEYS = [MetricKey(*series) for series in (API, API._replace(bucket="Perc50"), API._replace(kind="odd"), PODS)]


def test_which_metrics_are_part_of_the_set() -> None:
    assert perf_tests.metric_set(KEYS, ["90", "99"], ()).tolist() == [True, False, False, False]
    assert perf_tests.metric_set(KEYS, ["90", "50"], ()).tolist() == [True, True, False, True]
    assert perf_tests.metric_set(KEYS, ["90"], ("odd",)).tolist() == [False, False, True, False]


@pytest.mark.parametrize("similarity", ["distribution", "overlap", "ratio"])
def test_published_answers(similarity: str) -> None:
    keys = [*KEYS, KEYS[0]._replace(unit="s"), KEYS[0], KEYS[0], KEYS[0]]
    left = [[10.0, 70], [100.0], [10.0], [100.0, 400], [10.0], [], [60.0], [80.0]]
    right = [[40.0, 100, 100], [200.0], [40.0], [900.0, 7000], [40.0], [80.0], [], [60.0]]
    part = np.array([True, True, True, True, True, True, True, False])
    answer = perf_tests.compare_published(keys, _samples(left, right), part, similarity, 0.5, 1.5)
    assert answer.compared.tolist() == [True] * 5 + [False] * 3
    assert answer.mean_left[:5].tolist() == [
        60,
        100,
        10,
        1000,
        10,
    ]  # at least 50, 1000 for pods, unchanged without a cutoff
    assert answer.mean_right[:5].tolist() == pytest.approx([250 / 3, 200, 40, 4000, 40])
    assert answer.ratio.tolist() == pytest.approx([0.72, 0.5, 0.25, 0.25, 0.25, NAN, NAN, NAN], nan_ok=True)
    assert answer.matched.tolist() == [True, True] + [False] * 6
    wanted = {
        "ratio": [0.72, 0.5, 0.25, 0.25, 0.25],
        "distribution": [1 / 3, 0, 0, 0.5, 0],
        "overlap": [0.5, 0, 0, 0.5, 0],
    }[similarity]
    assert answer.similarity.tolist() == pytest.approx([*wanted, NAN, NAN, NAN], nan_ok=True)


def test_verdicts() -> None:
    assert perf_tests.passes(None, 0.8) == ("undecided", None)
    assert (perf_tests.passes(0.8, 0.8), perf_tests.passes(0.79, 0.8)) == (("PASS", True), ("FAIL", False))


def _chunk(
    codes: list[int], values: list[float], counts: list[int], run: str | None = None, refused: bool = False
) -> Chunk:
    return Chunk(0, run, None, np.array(codes), np.array(values), np.array(counts), refused)


def test_files_keys_and_values_of_a_run() -> None:
    table = perf_tests.KeyTable()
    series = [API, PODS, API._replace(bucket="Perc99"), API._replace(metric="pod_startup, x"), API]
    run = Run(("ci", "a-job"), "a-job", "7", chunks=(
        ("artifacts/PodStartupLatency_x_load_T.json", _chunk([1, 3], [8, 9], [5, 5])),
        ("artifacts/APIResponsiveness_load_T2.json", _chunk([0], [4], [6])),
        ("artifacts/APIResponsiveness_load_T1.json", _chunk([2, 0], [NAN, 3], [5, 4])),
        ("artifacts/APIResponsiveness_load_T0.json", _chunk([2], [1], [9], refused=True)),
        ("artifacts/APIResponsiveness_load_T4.json", _chunk([2], [1], [9], run="8")),
        ("artifacts/APIResponsiveness.json", _chunk([2], [1], [9])),
        ("artifacts/Other_load_T.json", _chunk([2], [1], [9])),
    ))  # fmt: skip
    values = perf_tests._values_of_run(run, table, series, 5)
    assert values.values.tolist() == [0, 4, 8, 9]  # null is 0, too few requests leave 3 out; pods come last
    assert [[*table.keys][number].bucket for number in values.metrics] == ["Perc99", "Perc90", "Perc50", "Perc90"]
    assert [[*table.keys][number].verb for number in values.metrics] == ["GET", "GET", "Pod-Startup", "Pod-Startup"]
    assert {key.test for key in table.keys} == {"load"} and len(table.keys) == 4
    assert (
        table.numbers("load", np.array([4, 0]), series).tolist()
        == [table.keys[perf_tests.BenchmarkKey("load", *API[2:6], API.bucket)]] * 2
    )
    empty = perf_tests._values_of_run(Run(("a",), "a", "1"), table, series, 5)
    assert empty.values.size == empty.metrics.size == empty.links.size == 0


def test_reports_that_are_read() -> None:
    path = "artifacts/APIResponsiveness_load_T.json"
    assert perf_tests.has_readable_report(Run(("a",), "a", "1", chunks=((path, _chunk([], [], [])),)))
    for name, chunk in (
        (path, _chunk([], [], [], refused=True)),
        (path, _chunk([], [], [], "2")),
        ("x_y_z", _chunk([], [], [])),
    ):
        assert not perf_tests.has_readable_report(Run(("a",), "a", "1", chunks=((name, chunk),)))
    assert [perf_tests.file_rank(name) for name in (path, "artifacts/PodStartupLatency_", "x/" + path)] == [
        0,
        1,
        None,
    ]
    assert perf_tests._test_of(Run((), "", "1"), path) == "load"
    assert perf_tests._test_of(Run(("x_y", "j"), "", "1"), "artifacts/APIResponsiveness_load.json") is None


def test_printed_tables() -> None:
    def row(resource: str, ratio: float, matched: bool = False, bucket: str = "Perc90") -> perf_tests.Row:
        return perf_tests.Row(
            BenchmarkKey("load", "GET", resource, "", "cluster", bucket), matched, ratio, 0.25, 1.5, 2, 3, 4
        )

    text = perf_tests.printed([row("b", NAN), row("a", 0.5), row("c", 2), row("d", 2), row("e", 1, True)], "avg")
    lines = text.split("Perc90 mismatched: 4\n\n")[1].splitlines()
    assert [line.split()[2] for line in lines[1:5]] == ["c", "d", "a", "b"]
    assert lines[1] == (
        "load      GET   c                      cluster  Perc90      AvgL/R=2.00  AvgL(ms)=1.50  AvgR(ms)=2.00  N1=3  N2=4"
    )
    heads = [line for line in text.splitlines() if ": " in line]
    assert heads == [f"Perc{p} {word}: {n}" for p, word, n in (
        (99, "mismatched", 0), (99, "matched", 0), (90, "mismatched", 4), (90, "matched", 1), (50, "mismatched", 0),
        (50, "matched", 0),
    )]  # fmt: skip
    assert "Perc90      Pvalue=0.2500    N1=3  N2=4\n" in perf_tests.printed([row("a", NAN)], "ks")
