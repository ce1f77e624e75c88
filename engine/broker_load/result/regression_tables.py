"""Result tables of the regression: coefficients of both fits, and how far the history covers CPU buckets."""

from __future__ import annotations

from typing import Any

import polars as pl

from engine.broker_load.cruise_control import regression
from engine.broker_load.cruise_control.regression import Training
from engine.broker_load.insight.fitted_weights import Fit
from engine.broker_load.model.observations import Observations
from engine.broker_load.result.result_builder import ResultBuilder
from engine.broker_load.tables import verdicts


def add(observations: Observations, training: Training, fit: Fit, mode: str, builder: ResultBuilder) -> None:
    """Add tables ``regression`` and ``regression_coverage`` and their summary values."""
    builder.frames["regression"] = _coefficients(observations, training, fit, mode)
    builder.frames["regression_coverage"] = _coverage(observations, training, fit)
    builder.summary |= {
        "regression_trained": training.trained,
        "regression_completeness": training.completeness,
        "regression_verdict": fit.verdict,
        "observations": observations.size,
    }


def _coefficients(observations: Observations, training: Training, fit: Fit, mode: str) -> pl.DataFrame:
    shown: Training | Fit = training if mode == "upstream" else fit
    verdict = fit.verdict
    if mode == "upstream" and observations.size and not training.trained:
        verdict = f"{verdict}; Cruise Control's training stands at {training.completeness:.0%}"
    rows: dict[str, list[Any]] = {
        "symbol": ["a", "b", "c"],
        "coefficient": list(shown.coefficients),
        "low": list(shown.low),
        "high": list(shown.high),
        "completeness": [training.completeness] * 3,
        "trained": [training.trained] * 3,
        "verdict": [verdict] * 3,
        "name": [regression.NAMES[symbol] for symbol in "abc"],
        "upstream": list(training.coefficients),
        "fitted": list(fit.coefficients),
        "condition": [fit.condition] * 3,
        "held_out_error": [fit.held_out] * 3,
    }
    return verdicts.REGRESSION.frame(rows)


def _coverage(observations: Observations, training: Training, fit: Fit) -> pl.DataFrame:
    buckets = regression.bucket_of(observations.cpu)
    numbers = sorted(training.counts)
    return verdicts.COVERAGE.frame(
        {
            "bucket_low": [number * regression.BUCKET for number in numbers],
            "observed": [training.counts[number] for number in numbers],
            "used": [int((fit.chosen & (buckets == number)).sum()) for number in numbers],
            "fill": [min(training.counts[number], regression.REQUIRED) / regression.REQUIRED for number in numbers],
        }
    )
