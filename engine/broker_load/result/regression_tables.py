"""Result tables of the regression, and what the screen draws beyond tables: its fit, and the ends of the windows."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from engine.broker_load.cruise_control import regression
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.cruise_control.regression import Training
from engine.broker_load.insight import fitted_weights
from engine.broker_load.insight.fitted_weights import Fit
from engine.broker_load.model import ticks
from engine.broker_load.model.measured import Observations
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.result.result_builder import ResultBuilder
from engine.broker_load.tables import verdicts
from engine.core.view import Context, Inputs


def add(observations: Observations, training: Training, fit: Fit, mode: str, builder: ResultBuilder) -> None:
    """Add tables ``regression`` and ``regression_coverage`` and their summary values."""
    shown: Training | Fit = training if mode == "upstream" else fit
    verdict = fit.verdict
    if mode == "upstream" and observations.size and not training.trained:
        verdict = f"{verdict}; Cruise Control's training stands at {training.completeness:.0%}"
    builder.frames["regression"] = verdicts.REGRESSION.frame(
        {
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
    )
    buckets, numbers = regression.bucket_of(observations.cpu), sorted(training.counts)
    builder.frames["regression_coverage"] = verdicts.COVERAGE.frame(
        {
            "bucket_low": [number * regression.BUCKET for number in numbers],
            "observed": [training.counts[number] for number in numbers],
            "used": [int((fit.chosen & (buckets == number)).sum()) for number in numbers],
            "fill": [min(training.counts[number], regression.REQUIRED) / regression.REQUIRED for number in numbers],
        }
    )
    builder.summary |= {
        "regression_trained": training.trained,
        "regression_completeness": training.completeness,
        "regression_verdict": fit.verdict,
        "observations": observations.size,
    }


@dataclass(frozen=True)
class Detail:
    """Observed and predicted CPU [N] in %, which observations the fit used, and the ends (epoch ms), oldest first, of all
    windows with samples and of those in the brokers' trend."""

    observed: tuple[float, ...]
    predicted: tuple[float, ...]
    used: tuple[bool, ...]
    window_ends: tuple[int, ...]
    trend_ends: tuple[int, ...]


def detail_of(
    inputs: Inputs,
    context: Context,
    model: Model | None,
    observations: Observations,
    fit: Fit,
    parameters: BrokerLoadParameters,
) -> Detail:
    """Return the detail of a result; ``model`` is None without topology and samples."""
    return Detail(
        tuple(observations.cpu.tolist()),
        tuple(fitted_weights.predict(observations, fit.coefficients).tolist()),
        tuple(bool(used) for used in fit.chosen.tolist()),
        _window_ends(inputs, context, parameters) if model is not None else (),
        tuple(window.index * model.aggregate.window_ms for window in reversed(model.aggregate.windows))
        if model
        else (),
    )


def _window_ends(inputs: Inputs, context: Context, parameters: BrokerLoadParameters) -> tuple[int, ...]:
    """Return the ends (epoch ms) of all windows with samples, also after the moment looked at."""
    window = parameters.window_ms
    # A round is as old as its newest tick; the first tick of running totals alone gives no round.
    every = ticks.of(inputs, context)
    rated = every.filter(~pl.col("counter") | (pl.col("time_ms") > pl.col("time_ms").min()))
    newest = rated.group_by(pl.col("time_ms") // parameters.interval_ms).agg(pl.col("time_ms").max().alias("newest"))
    times = [newest["newest"], inputs.table("finished_samples")["time_ms"]]
    return tuple(sorted({(moment // window + 1) * window for part in times for moment in part.unique().to_list()}))
