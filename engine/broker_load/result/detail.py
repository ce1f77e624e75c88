"""What the screen draws beyond the tables."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.insight import fitted_weights
from engine.broker_load.insight.fitted_weights import Fit
from engine.broker_load.model import ticks
from engine.broker_load.model.observations import Observations
from engine.broker_load.parameters import BrokerLoadParameters
from engine.core.inputs import Inputs
from engine.core.view import Context


@dataclass(frozen=True)
class Detail:
    """Observed and predicted CPU [N] in %, whether each was used for the fit, the ends (epoch ms) of all windows that could
    be looked at and of those in the brokers' trend, oldest first."""

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
    """Ends (epoch ms) of all windows that hold samples, also of those after the moment that is looked at."""
    window = parameters.window_ms
    # A round is as old as its newest tick; the first tick of running totals alone gives no round.
    every = ticks.of(inputs, context)
    rated = every.filter(~pl.col("counter") | (pl.col("time_ms") > pl.col("time_ms").min()))
    newest = rated.group_by(pl.col("time_ms") // parameters.interval_ms).agg(pl.col("time_ms").max().alias("newest"))
    times = [newest["newest"], inputs.table("finished_samples")["time_ms"]]
    return tuple(sorted({(moment // window + 1) * window for part in times for moment in part.unique().to_list()}))
