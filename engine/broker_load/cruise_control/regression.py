"""CPU weights from the broker history: upstream's regression as it is, and one that works (sheet, section 6)."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.broker_load.model.topology import Flags, Floats
from engine.stats.student import t_quantile

BUCKET = 5.0
"""Width of a CPU bucket in percent."""
REQUIRED = 100
"""Observations a bucket needs, and the length of its ring."""
BUCKETS = 5
"""Buckets that must be full before upstream sets its coefficients."""
_NO_OUT = 10_000_000
NAMES = {"a": "LEADER_BYTES_IN", "b": "LEADER_BYTES_OUT", "c": "FOLLOWER_BYTES_IN"}


@dataclass(frozen=True, eq=False)
class Observations:
    """N broker observations in order: CPU in percent and leader bytes in, leader bytes out, follower bytes in (KB/s).

    ``relative`` [N]: cores of the broker over those of the typical one, so that machines of different size obey one law.
    """

    cpu: Floats
    bytes_in: Floats
    bytes_out: Floats
    follower_in: Floats
    relative: Floats

    @property
    def size(self) -> int:
        """N."""
        return len(self.cpu)

    def take(self, which: npt.NDArray[np.int64] | Flags) -> Observations:
        """Some of them."""
        return Observations(
            self.cpu[which], self.bytes_in[which], self.bytes_out[which], self.follower_in[which], self.relative[which]
        )

    def design(self) -> Floats:
        """[N, 3] regressors."""
        return np.stack([self.bytes_in, self.bytes_out, self.follower_in], axis=1)

    def typical_cpu(self) -> Floats:
        """[N] CPU in percent of the typical broker."""
        return self.cpu * self.relative


@dataclass(frozen=True, eq=False)
class Upstream:
    """Upstream's regression: coefficients (None: not given), mean fill of the five fullest buckets, whether enough
    buckets are full, observations per bucket, and which observations are stored [N]."""

    coefficients: tuple[float | None, float | None, float | None]
    completeness: float
    trained: bool
    counts: dict[int, int]
    stored: Flags
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


def _buckets(cpu: Floats) -> npt.NDArray[np.int64]:
    return np.trunc(cpu / BUCKET).astype(np.int64)


def _ratios(found: Observations) -> npt.NDArray[np.int64]:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.trunc(np.clip(10.0 * found.bytes_in / found.bytes_out, -1e15, 1e15))
    return np.where(found.bytes_out == 0, _NO_OUT, np.nan_to_num(ratio)).astype(np.int64)


def as_upstream(found: Observations) -> Upstream:
    """Least squares without intercept over the newest REQUIRED observations of every bucket.

    Leader bytes out leaves the design when more than half of the stored observations share one in/out ratio.
    """
    bucket = _buckets(found.cpu)
    stored = np.zeros(found.size, np.bool_)
    counts: dict[int, int] = {}
    for number in np.unique(bucket).tolist():
        members = np.flatnonzero(bucket == number)
        counts[int(number)] = len(members)
        stored[members[-REQUIRED:]] = True
    fills = sorted((min(count, REQUIRED) / REQUIRED for count in counts.values()), reverse=True)[:BUCKETS]
    completeness = sum(fills) / BUCKETS
    trained = sum(1 for count in counts.values() if count >= REQUIRED) >= BUCKETS
    nothing = (None, None, None)
    kept = found.take(stored)
    if not kept.size:
        return Upstream(nothing, completeness, trained, counts, stored, nothing, nothing)
    _, shared = np.unique(_ratios(kept), return_counts=True)
    columns = [0, 2] if shared.max() > 0.5 * kept.size else [0, 1, 2]
    design = kept.design()[:, columns]
    if kept.size < len(columns) or np.linalg.matrix_rank(design) < len(columns):
        return Upstream(nothing, completeness, trained, counts, stored, nothing, nothing)
    # QR on scaled columns: the normal equations would lose half the digits.
    scale = np.maximum(np.abs(design).max(axis=0), 1e-300)
    fit = np.linalg.lstsq(design / scale, kept.cpu, rcond=None)[0] / scale
    spread = _spread(design, kept.cpu - design @ fit)
    values: list[float | None] = [None, None, None]
    low: list[float | None] = [None, None, None]
    high: list[float | None] = [None, None, None]
    for place, column in enumerate(columns):
        values[column] = float(fit[place])
        if spread is not None:
            low[column], high[column] = float(fit[place] - spread[place]), float(fit[place] + spread[place])
    return Upstream((values[0], values[1], values[2]), completeness, trained, counts, stored, tuple(low), tuple(high))


def _spread(design: Floats, residual: Floats) -> Floats | None:
    """Half width of the 95 % confidence interval of each coefficient; None without degrees of freedom."""
    rows, columns = design.shape
    if rows <= columns:
        return None
    scale = np.maximum(np.abs(design).max(axis=0), 1e-300)
    gram = (design / scale).T @ (design / scale)
    if np.linalg.cond(gram) > 1e15:
        return None
    variance = float(residual @ residual) / (rows - columns)
    errors = np.sqrt(np.maximum(np.diag(np.linalg.inv(gram)) * variance, 0.0)) / scale
    return np.asarray(errors * t_quantile(0.975, rows - columns), np.float64)


def _non_negative(design: Floats, target: Floats) -> Floats:
    """[K] least squares with no weight below 0. With three columns at most, the best of the plain fits to each choice
    of columns that has no negative weight is the solution (the others are 0 there)."""
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
            break  # nothing held at 0 can be better than the plain fit
    return best


@dataclass(frozen=True, eq=False)
class Fit:
    """Non-negative fit on evenly chosen samples. ``coefficients`` None where the data give none; ``low``/``high`` 95 %
    intervals (from below not under 0); ``condition`` of the scaled design; ``held_out`` root mean square error in % on
    samples left out; ``chosen`` [N]; ``verdict`` in plain words; ``usable``: may be used as weights."""

    coefficients: tuple[float | None, float | None, float | None]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    condition: float | None
    held_out: float | None
    chosen: Flags
    verdict: str
    usable: bool


def choose(found: Observations, per_cell: int = 20) -> Flags:
    """[N] samples chosen evenly over CPU buckets and, within each, over in/out ratios (tenths, at most ten classes).

    Both of the seed's remedies against data that all look alike. Deterministic: evenly spaced in order of arrival.
    """
    chosen = np.zeros(found.size, np.bool_)
    if not found.size:
        return chosen
    bucket = _buckets(found.cpu)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nan_to_num(found.bytes_in / (found.bytes_in + found.bytes_out))
    ratio = np.minimum((share * 10).astype(np.int64), 9)
    cell = bucket * 10 + ratio
    for number in np.unique(cell).tolist():
        members = np.flatnonzero(cell == number)
        if len(members) > per_cell:
            members = members[np.linspace(0, len(members) - 1, per_cell).round().astype(np.int64)]
        chosen[members] = True
    return chosen


def fit(found: Observations) -> Fit:
    """Fit a, b, c without intercept and non-negative, and say plainly what the data can tell."""
    nothing = (None, None, None)
    sound = (
        np.isfinite(found.cpu) & (found.cpu >= 0) & np.isfinite(found.design()).all(axis=1)
        & (found.design().min(axis=1, initial=0.0) >= 0)
    )  # fmt: skip
    chosen = np.zeros(found.size, np.bool_)
    index = np.flatnonzero(sound)
    clean = found.take(index)
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
    lengths = np.sqrt((scaled**2).sum(axis=0))
    condition = float(np.linalg.cond(scaled / lengths))
    weights = _non_negative(scaled, used.typical_cpu())
    values: list[float | None] = [None, None, None]
    low: list[float | None] = [None, None, None]
    high: list[float | None] = [None, None, None]
    spread = _spread(scaled, used.typical_cpu() - scaled @ weights)
    for place, column in enumerate(columns.tolist()):
        values[column] = float(weights[place] / scale[column])
        if spread is not None:
            low[column] = float(max(weights[place] - spread[place], 0.0) / scale[column])
            high[column] = float((weights[place] + spread[place]) / scale[column])
    held_out = _held_out(clean, picked, scale, columns, weights)
    problem = _verdict(scaled, columns, weights, spread, condition, used.typical_cpu())
    return Fit(
        (values[0], values[1], values[2]),
        tuple(low),
        tuple(high),
        condition,
        held_out,
        chosen,
        problem or f"the data support all weights: {used.size} samples, condition {condition:.1f}",
        not problem,
    )


def _held_out(
    clean: Observations, picked: Flags, scale: Floats, columns: npt.NDArray[np.int64], weights: Floats
) -> float | None:
    """Error on samples that were not chosen; with few of them, five-fold cross-validation over the chosen ones."""
    rest = clean.take(~picked)
    if rest.size >= 20:
        error = rest.typical_cpu() - (rest.design()[:, columns] / scale[columns]) @ weights
        return float(np.sqrt(np.mean(error**2)))
    used = clean.take(picked)
    design = used.design()[:, columns] / scale[columns]
    cpu = used.typical_cpu()
    errors = []
    for fold in range(5):
        out = np.arange(used.size) % 5 == fold
        if (~out).sum() <= len(columns) or not out.any():
            return None
        learned = _non_negative(design[~out], cpu[~out])
        errors.append((cpu[out] - design[out] @ learned) ** 2)
    return float(np.sqrt(np.mean(np.concatenate(errors))))


_WORDS = {0: "a (leader in)", 1: "b (leader out)", 2: "c (follower in)"}


def _verdict(
    design: Floats,
    columns: npt.NDArray[np.int64],
    weights: Floats,
    spread: Floats | None,
    condition: float,
    cpu: Floats,
) -> str:
    """What the data cannot tell; "" if all is well."""
    absent = [_WORDS[i] for i in range(3) if i not in columns.tolist()]
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
    if spread is None:
        return "too few independent samples for confidence intervals"
    explained = 1.0 - float(np.var(cpu - design @ weights)) / max(float(np.var(cpu)), 1e-300)
    if explained < 0.3:
        return f"traffic explains only {max(explained, 0):.0%} of the CPU: something else drives it"
    vague = [_WORDS[int(column)] for place, column in enumerate(columns) if spread[place] > max(weights[place], 1e-300)]
    if vague:
        return f"{', '.join(vague)} cannot be told from 0 with these data"
    return ""


def prediction(found: Observations, coefficients: tuple[float | None, float | None, float | None]) -> Floats:
    """[N] CPU in percent as the coefficients predict it (a missing one counts 0)."""
    known = np.array([0.0 if value is None or math.isnan(value) else value for value in coefficients])
    return np.asarray(found.design() @ known / found.relative, np.float64)
