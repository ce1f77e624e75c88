"""Resource series of the host laid onto the intervals of a workload: microseconds used between two instants."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

PREFERENCE = ("process", "pidstat", "node_exporter", "procstat", "mpstat", "sadf", "vmstat")
"""Best first: the database process before its host, counters before percent, fine before rounded percent."""

CPU = "cpu_us"
"""Name of the default resource: user and system time together."""

NEAR = 0.02
"""A sample within this share of the interval counts as taken at the same instant."""

APART = 1.5
"""Samples may lie this many interval lengths apart: beyond, nothing is known of what happened in between."""


@dataclass(frozen=True)
class Series:
    """One resource of one source: ``used`` (N,) microseconds since the first sample at ``at_ms`` (N,), growing.
    ``fell``: (N,) the counter was smaller than before (restart) in the step that ends here. ``cores`` NaN: not known;
    ``guessed``: percentages were taken as those of one core for want of their number."""

    source: str
    host: str
    label: str
    name: str
    at_ms: np.ndarray
    used: np.ndarray
    fell: np.ndarray
    cores: float
    guessed: bool = False


def collect(frame: pl.DataFrame) -> list[Series]:
    """All series of the ``host`` table, user and system time also as their sum. Sorted by preference and label.

    Percentages of a source that does not say how many cores there are (vmstat, sadf -d) take the number from any other
    source, if all that know it agree.
    """
    found: list[Series] = []
    if not frame.height:
        return found
    known = frame["cores"].drop_nulls().unique().to_list()
    common = float(known[0]) if len(known) == 1 else float("nan")
    for (source, host, label), part in frame.sort("at_ms", maintain_order=True).group_by(
        "source", "host", "series", maintain_order=True
    ):
        cores = part["cores"].drop_nulls()
        count = float(cores.median()) if len(cores) else float("nan")  # type: ignore[arg-type]
        percent = bool(part["seconds"].is_not_null().any())
        if percent and np.isnan(count):
            count = common
        guessed = percent and bool(np.isnan(count))
        named: dict[str, Series] = {}
        for (name,), rows in part.group_by("name", maintain_order=True):
            rows = rows.unique("at_ms", keep="last", maintain_order=True)
            at = rows["at_ms"].to_numpy()
            value = rows["value"].to_numpy().astype(float)
            seconds = rows["seconds"].to_numpy().astype(float)
            fell = np.zeros(len(at), bool)
            if np.isnan(seconds).all():
                step = np.diff(value, prepend=value[:1])
                fell = step < 0
                used = np.cumsum(np.maximum(step, 0))
            else:
                # percent of all CPUs in the stretch that ends here; a first instant begins the first stretch
                width = np.nan_to_num(seconds)
                amount = value / 100 * (1 if np.isnan(count) else count) * width * 1e6
                at = np.r_[at[0] - round(width[0] * 1000), at]
                gap = np.diff(at) / 1000 > width * 1.5 + 0.001
                used = np.r_[0.0, np.cumsum(amount)]
                fell = np.r_[False, gap]
            named[str(name)] = Series(str(source), str(host), str(label), str(name), at, used, fell, count, guessed)
        if "user_us" in named and "system_us" in named:
            user, system = named["user_us"], named["system_us"]
            if np.array_equal(user.at_ms, system.at_ms):
                named[CPU] = Series(
                    user.source, user.host, user.label, CPU, user.at_ms, user.used + system.used,
                    user.fell | system.fell, count, guessed,
                )  # fmt: skip
        elif "user_us" in named:
            user = named["user_us"]
            named[CPU] = replace(user, name=CPU)
        found.extend(named.values())
    order = {name: i for i, name in enumerate(PREFERENCE)}
    return sorted(found, key=lambda s: (order.get(s.source, 99), s.label, s.host, s.name))


def between(series: Series, start_ms: np.ndarray, end_ms: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Use in each interval: (T,) microseconds, NaN with a reason where the series does not say.

    Samples at (nearly) the instants of the interval are taken as they are; otherwise the counter is interpolated
    between the samples around the instant, if they lie close enough together.
    """
    count = len(start_ms)
    y = np.full(count, np.nan)
    reasons = [""] * count
    at, used = series.at_ms, series.used
    if len(at) < 2:
        return y, ["no CPU samples"] * count
    falls = np.cumsum(series.fell)
    for t in range(count):
        start, end = int(start_ms[t]), int(end_ms[t])
        if start < 0 or end <= start:
            reasons[t] = "no time, so no CPU" if start < 0 else ""
            continue
        length = end - start
        values = []
        places = []
        for instant in (start, end):
            right = int(np.searchsorted(at, instant))
            near = min((i for i in (right - 1, right) if 0 <= i < len(at)), key=lambda i: abs(int(at[i]) - instant))
            if abs(int(at[near]) - instant) <= max(NEAR * length, 20):
                values.append(float(used[near]))
                places.append(near)
            elif right == 0 or right == len(at) or at[right] - at[right - 1] > APART * length:
                break
            else:
                share = (instant - at[right - 1]) / (at[right] - at[right - 1])
                values.append(float(used[right - 1] + share * (used[right] - used[right - 1])))
                places.append(right)
        if len(values) < 2:
            reasons[t] = "no CPU sample at its ends"
            continue
        if falls[places[1]] != falls[max(places[0], 0)]:
            reasons[t] = "the CPU counter fell or has a gap"
            continue
        y[t] = values[1] - values[0]
    return y, reasons
