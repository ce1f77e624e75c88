"""The regression that Cruise Control trains for CPU weights (class ``LinearRegressionModelParameters``).

See "Regression of CPU weights" in docs/models/broker-load.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from engine.broker_load.model.measured import Observations
from engine.broker_load.model.topology import Flags, Floats
from engine.stats.significance import t_quantile

BUCKET = 5.0  # width of a CPU bucket in percent
REQUIRED = 100  # observations a bucket needs, and the length of its ring
BUCKETS = 5  # buckets that must be full before Cruise Control sets its coefficients
_NO_OUT = 10_000_000  # ratio class of observations without bytes out
NAMES = {"a": "LEADER_BYTES_IN", "b": "LEADER_BYTES_OUT", "c": "FOLLOWER_BYTES_IN"}
"""Cruise Control's names of the coefficients."""
Weights = tuple[float | None, float | None, float | None]  # values of a, b and c, None where the data give none


class Training(msgspec.Struct, frozen=True, eq=False):
    """State of the training: coefficients in % CPU per KB/s (None: undetermined) with 95 % intervals, mean fill of the five
    fullest buckets, whether enough buckets are full, observations per bucket, and which observations [N] are stored."""

    coefficients: Weights
    completeness: float
    trained: bool
    counts: dict[int, int]
    stored: Flags
    low: Weights
    high: Weights


def bucket_of(cpu: Floats) -> npt.NDArray[np.int64]:
    """Return the CPU bucket [N] of each observation; ``cpu`` in percent."""
    return np.trunc(np.clip(cpu / BUCKET, -1e15, 1e15)).astype(np.int64)


def train(observations: Observations) -> Training:
    """Fit by least squares without intercept over the newest REQUIRED observations of every bucket.

    Leader bytes out leaves the design when more than half of the stored observations share one in/out ratio.
    """
    bucket = bucket_of(observations.cpu)
    stored = np.zeros(observations.size, np.bool_)
    numbers, sizes = np.unique(bucket, return_counts=True)
    counts = dict(zip(numbers.tolist(), sizes.tolist(), strict=True))
    for number in counts:
        stored[np.flatnonzero(bucket == number)[-REQUIRED:]] = True
    fills = sorted((min(count, REQUIRED) / REQUIRED for count in counts.values()), reverse=True)[:BUCKETS]
    completeness = sum(fills) / BUCKETS
    trained = sum(1 for count in counts.values() if count >= REQUIRED) >= BUCKETS
    nothing = (None, None, None)
    latest = observations.take(stored)
    if not latest.size:
        return Training(nothing, completeness, trained, counts, stored, nothing, nothing)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.trunc(np.clip(10.0 * latest.bytes_in / latest.bytes_out, -1e15, 1e15))
    ratio = np.where(latest.bytes_out == 0, _NO_OUT, np.nan_to_num(ratio))
    _, shared = np.unique(ratio, return_counts=True)
    columns = [0, 2] if shared.max() > 0.5 * latest.size else [0, 1, 2]
    design = latest.design()[:, columns]
    if latest.size < len(columns) or np.linalg.matrix_rank(design) < len(columns):
        return Training(nothing, completeness, trained, counts, stored, nothing, nothing)
    # QR on scaled columns: the normal equations would lose half the digits.
    scale = np.maximum(np.abs(design).max(axis=0), 1e-300)
    fit = np.linalg.lstsq(design / scale, latest.cpu, rcond=None)[0] / scale
    half = half_widths(design, latest.cpu - design @ fit)
    low, high = (
        (nothing, nothing) if half is None else (of_columns(columns, fit - half), of_columns(columns, fit + half))
    )
    return Training(of_columns(columns, fit), completeness, trained, counts, stored, low, high)


def of_columns(columns: Sequence[int], values: Floats) -> Weights:
    """Return the ``values`` of ``columns`` of the design; None for the others."""
    found = dict(zip(columns, values.tolist(), strict=True))
    return found.get(0), found.get(1), found.get(2)


def half_widths(design: Floats, residual: Floats) -> Floats | None:
    """Return the half width of the 95 % confidence interval of each coefficient; None without degrees of freedom."""
    rows, columns = design.shape
    if rows <= columns:
        return None
    scale = np.maximum(np.abs(design).max(axis=0), 1e-300)
    gram = (design / scale).T @ (design / scale)
    if np.linalg.cond(gram) > 1e15:
        return None
    errors = (
        np.sqrt(np.maximum(np.diag(np.linalg.inv(gram)) * (float(residual @ residual) / (rows - columns)), 0.0)) / scale
    )
    return np.asarray(errors * t_quantile(0.975, rows - columns), np.float64)
