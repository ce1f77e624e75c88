"""The weighted linear regression of docs/models/query-profile.md once more, in loops over plain numbers.

It shares no code with the engine: tables are dicts by row, every sum is added in the order of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

TARGET = "user_us"
Row = dict[str, float]


def div(a: float, b: float) -> float:
    """Divide as processors do: by 0 it is infinite, or no number."""
    if b != 0:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def root(a: float) -> float:
    return math.sqrt(a) if a >= 0 else math.nan


@dataclass
class Fit:
    """The six sums of one class, and what follows from them."""

    n: float = 0.0
    sx: float = 0.0
    sz: float = 0.0
    sxx: float = 0.0
    sxz: float = 0.0
    szz: float = 0.0

    def add(self, x: float, z: float) -> None:
        self.n += 1
        self.sx += x
        self.sz += z
        self.sxx += x * x
        self.sxz += x * z
        self.szz += z * z

    @property
    def a(self) -> float:
        return self.n * self.sxx - self.sx * self.sx

    @property
    def b(self) -> float:
        return self.n * self.szz - self.sz * self.sz

    @property
    def c(self) -> float:
        return self.n * self.sxz - self.sx * self.sz

    @property
    def slope(self) -> float:
        if self.n < 2:
            return div(self.sz, self.sx) if self.n else 0.0
        return div(self.c, self.a)

    @property
    def intercept(self) -> float:
        return (self.sz - self.slope * self.sx) / self.n if self.n >= 2 else 0.0

    @property
    def r2(self) -> float:
        return div(div(self.c * self.c, self.a), self.b) if self.n >= 2 else 0.0

    @property
    def scatter(self) -> float:
        return root((self.b - div(self.c * self.c, self.a)) / (self.n - 2))

    @property
    def slope_stderr(self) -> float:
        return div(self.scatter, root(self.a)) if self.n >= 3 else 0.0

    @property
    def intercept_stderr(self) -> float:
        if self.n < 3:
            return 0.0
        mean = self.sx / self.n
        return self.scatter * root(1 / self.n + div(mean * mean, self.a))


@dataclass
class Answer:
    """What the program makes of two tables."""

    fits: dict[str, Fit] = field(default_factory=dict)
    predictions: list[tuple[float, float]] = field(default_factory=list)
    final: Fit = field(default_factory=Fit)
    mape: float = math.nan

    def printed(self) -> list[str]:
        """The lines of classes."""
        lines = []
        for name in sorted(self.fits):
            fit = self.fits[name]
            of_slope = div(fit.slope_stderr, fit.slope)
            of_intercept = abs(div(fit.intercept_stderr, fit.intercept))
            lines.append(
                f"{name:<20} {fit.n:5.0f} {fixed(fit.r2):>4} {general(fit.slope, 3):>9} {general(of_slope, 3):>9} "
                f"{general(fit.intercept, 3):>9} {general(of_intercept, 3):>9}"
            )
        return lines


def general(value: float, digits: int) -> str:
    if math.isnan(value):
        return "NaN"
    return f"{value:.{digits}g}" if math.isfinite(value) else ("+Inf" if value > 0 else "-Inf")


def fixed(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else general(value, 2)


def answer(train: Sequence[Row], predict: Sequence[Row]) -> Answer:
    """Learn from one table and predict the other."""
    out = Answer()
    for row in train:
        y = row.get(TARGET, 0.0)
        times = {name: x for name, x in row.items() if name != TARGET}
        total = 0.0
        for x in times.values():
            total += x
        if y == 0 or total == 0:
            continue
        ratio = y / total
        for name, x in times.items():
            if x > 0:
                out.fits.setdefault(name, Fit()).add(x, ratio * x)
    errors = 0.0
    for row in predict:
        y = row.get(TARGET, 0.0)
        if y == 0:
            continue
        guess = 0.0
        for name, x in row.items():
            fit = out.fits.get(name)
            if name != TARGET and fit is not None and x > 0 and fit.slope > 0:
                guess += max(fit.intercept, 0.0) + fit.slope * x
        out.predictions.append((y, guess))
        out.final.add(y, guess)
        errors += abs((y - guess) / y)
    if out.predictions:
        out.mape = errors / len(out.predictions)
    return out
