"""CPU weights fitted to the broker history: non-negative, on evenly chosen samples, with a verdict on the data."""

from __future__ import annotations

import itertools
import math

import msgspec
import numpy as np
import numpy.typing as npt

from engine.broker_load.cruise_control.regression import Weights, bucket_of, half_widths, of_columns
from engine.broker_load.model.measured import Observations
from engine.broker_load.model.topology import Flags, Floats


def non_negative(design: Floats, target: Floats) -> Floats:
    """Return the non-negative least-squares weights [K].

    With at most three columns, the solution is the best plain fit to a subset of columns without a negative weight; the other
    weights are 0.
    """
    columns = design.shape[1]
    best, least = np.zeros(columns), float(target @ target)
    for count in range(columns, 0, -1):
        for chosen in itertools.combinations(range(columns), count):
            part = design[:, chosen]
            weights = np.linalg.lstsq(part, target, rcond=None)[0]
            if weights.min() < 0:
                continue
            rest = target - part @ weights
            if (error := float(rest @ rest)) < least:
                best, least = np.zeros(columns), error
                best[list(chosen)] = weights
        if count == columns and best.any():
            break  # no fit with a weight held at 0 can beat the plain fit
    return best


class Fit(msgspec.Struct, frozen=True, eq=False):
    """Non-negative fit on evenly chosen samples. ``coefficients`` None where the data give none; ``low``/``high`` 95 %
    intervals (from below not under 0); ``condition`` of the scaled design; ``held_out`` root mean square error in % on
    samples left out; ``chosen`` [N]; ``verdict`` in plain words; ``usable``: may be used as weights."""

    coefficients: Weights
    low: Weights
    high: Weights
    condition: float | None
    held_out: float | None
    chosen: Flags
    verdict: str
    usable: bool

    @property
    def weights(self) -> tuple[float, float, float]:
        """a, b and c in % CPU per KB/s, 0 where the data give none."""
        a, b, c = (value or 0.0 for value in self.coefficients)
        return a, b, c


def choose(observations: Observations, per_cell: int = 20) -> Flags:
    """Return flags [N] of samples chosen evenly over CPU buckets and, within each, over in/out ratios (tenths, ten classes).

    Balanced classes keep one common load from dominating the fit. Deterministic: evenly spaced in order of arrival.
    """
    chosen = np.zeros(observations.size, np.bool_)
    if not observations.size:
        return chosen
    bucket = bucket_of(observations.cpu)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nan_to_num(observations.bytes_in / (observations.bytes_in + observations.bytes_out))
    cell = bucket * 10 + np.minimum((share * 10).astype(np.int64), 9)
    for number in np.unique(cell).tolist():
        members = np.flatnonzero(cell == number)
        if len(members) > per_cell:
            members = members[np.linspace(0, len(members) - 1, per_cell).round().astype(np.int64)]
        chosen[members] = True
    return chosen


def fit(observations: Observations) -> Fit:
    """Fit a, b, c without intercept and non-negative, and state what the data can tell."""
    nothing = (None, None, None)
    sound = (
        np.isfinite(observations.cpu) & (observations.cpu >= 0) & np.isfinite(observations.design()).all(axis=1)
        & (observations.design().min(axis=1, initial=0.0) >= 0)
    )  # fmt: skip
    chosen = np.zeros(observations.size, np.bool_)
    index = np.flatnonzero(sound)
    clean = observations.take(index)
    picked = choose(clean)
    chosen[index[picked]] = True
    used = clean.take(picked)
    if used.size < 8:
        verdict = f"too few observations: {used.size}, at least 8 are needed"
        return Fit(nothing, nothing, nothing, None, None, chosen, verdict, False)
    design = used.design()
    scale = np.abs(design).max(axis=0)
    present = scale > 0
    if not present.any():
        return Fit(nothing, nothing, nothing, None, None, chosen, "no traffic in any observation", False)
    columns = np.flatnonzero(present)
    scaled = design[:, columns] / scale[columns]
    condition = float(np.linalg.cond(scaled / np.sqrt((scaled**2).sum(axis=0))))
    weights = non_negative(scaled, used.typical_cpu())
    half = half_widths(scaled, used.typical_cpu() - scaled @ weights)
    low, high = (nothing, nothing) if half is None else (
        of_columns(columns.tolist(), np.maximum(weights - half, 0.0) / scale[columns]),
        of_columns(columns.tolist(), (weights + half) / scale[columns]),
    )  # fmt: skip
    held_out = _held_out(clean, picked, scale, columns, weights)
    problem = _verdict(scaled, columns, weights, half, condition, used.typical_cpu())
    return Fit(
        of_columns(columns.tolist(), weights / scale[columns]),
        low,
        high,
        condition,
        held_out,
        chosen,
        problem or f"the data support all weights: {used.size} samples, condition {condition:.1f}",
        not problem,
    )


def _held_out(
    clean: Observations, picked: Flags, scale: Floats, columns: npt.NDArray[np.int64], weights: Floats
) -> float | None:
    """Return the error on samples that were not chosen; with few of them, five-fold cross-validation over the chosen ones."""
    design, cpu = clean.design()[:, columns] / scale[columns], clean.typical_cpu()
    if (~picked).sum() >= 20:
        return float(np.sqrt(np.mean((cpu[~picked] - design[~picked] @ weights) ** 2)))
    design, cpu = design[picked], cpu[picked]
    folds = [np.arange(len(cpu)) % 5 == fold for fold in range(5)]
    if any((~out).sum() <= len(columns) or not out.any() for out in folds):
        return None
    errors = [(cpu[out] - design[out] @ non_negative(design[~out], cpu[~out])) ** 2 for out in folds]
    return float(np.sqrt(np.mean(np.concatenate(errors))))


_NAMES = {0: "a (leader in)", 1: "b (leader out)", 2: "c (follower in)"}


def _verdict(
    design: Floats, columns: npt.NDArray[np.int64], weights: Floats, half: Floats | None, condition: float, cpu: Floats
) -> str:
    """Return what the data cannot tell; "" if all is well."""
    absent = [_NAMES[i] for i in range(3) if i not in columns.tolist()]
    if absent:
        return f"no traffic for {', '.join(absent)}: the data say nothing about it"
    lengths = np.sqrt((design**2).sum(axis=0))
    cosine = (design.T @ design) / np.outer(lengths, lengths)
    close = [(i, j) for i in range(3) for j in range(i + 1, 3) if cosine[i, j] > 0.995]
    if close or condition > 30:
        i, j = close[0] if close else max(
            ((i, j) for i in range(3) for j in range(i + 1, 3)), key=lambda pair: cosine[pair])  # fmt: skip
        letter = "abc"
        return (
            f"the data cannot tell {letter[i]} from {letter[j]}: their traffic moves together "
            f"(cosine {cosine[i, j]:.4f}, condition {condition:.0f})"
        )
    if half is None:
        return "too few independent samples for confidence intervals"
    explained = 1.0 - float(np.var(cpu - design @ weights)) / max(float(np.var(cpu)), 1e-300)
    if explained < 0.3:
        return f"traffic explains only {max(explained, 0):.0%} of the CPU: something else drives it"
    vague = [_NAMES[int(column)] for place, column in enumerate(columns) if half[place] > max(weights[place], 1e-300)]
    return f"{', '.join(vague)} cannot be told from 0 with these data" if vague else ""


def predict(observations: Observations, coefficients: Weights) -> Floats:
    """Return the CPU [N] in percent that the coefficients predict (a missing one counts 0)."""
    weights = np.array([0.0 if value is None or math.isnan(value) else value for value in coefficients])
    return np.asarray(observations.design() @ weights / observations.relative, np.float64)
