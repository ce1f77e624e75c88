"""The texts and numbers of a result: headline, notes on modes and assumptions, findings of ``check``, summary, gauges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from engine.core import units
from engine.core.exports import US, Gauge
from engine.core.view import Finding, Headline, Level
from engine.formats.sql_text import label
from engine.query_profile.estimators.attribution import Attribution
from engine.query_profile.insight.all_methods import UNTESTED
from engine.query_profile.insight.prediction import Predictions
from engine.query_profile.insight.profile import Profile
from engine.query_profile.reading.mysql import CATCH_ALL
from engine.query_profile.workloads.resources import OWN
from engine.query_profile.workloads.workload import Workload

NAMES = {"cpu_us": "CPU", "user_us": "user CPU", "system_us": "system CPU", "iowait_us": "I/O wait"}
"""Names of resources on screen."""


TRUST = {
    "good": "the checks bear the shares out",
    "fair": "take the shares as rough",
    "poor": "do not act on the shares",
    "none": "nothing could be checked",
}
"""Advice per grade of trust."""


NO_CPU = (
    "no CPU series goes with these queries: they are ranked by time only (copy cpu.stat of the server's control group "
    "beside them, at the same moments: loadlens feeds query-profile)"
)


def notes(profile: Profile) -> list[str]:
    """Word the modes and assumptions in force, a sentence each."""
    work, trust = profile.work, profile.trust
    texts = _lost_calls(work)
    if work.calls is not None and np.nansum(work.calls) > 0 and not profile.x_total.any():
        texts.append(
            "all times are 0: the server counts calls, but does not time them (MySQL: setup_instruments.timed)"
        )
    if not work.used.any():
        return [
            *texts,
            "no interval is free of doubt: nothing can be attributed" if np.isfinite(work.y).any() else NO_CPU,
        ]
    if profile.full:
        texts.append(_on_full(profile))
    if profile.method == "wlr":
        texts += _on_wlr(profile)
    if profile.attribution is not None:
        texts += _remedies(profile.attribution)
    times, calls = _tied(profile)
    texts += times
    if trust.reasons and trust.grade != "none":
        texts.append(f"trust {trust.grade}, {TRUST[trust.grade]}: {'; '.join(trust.reasons[:3])}")
    counted = work.metrics.get("cpu_us")
    if counted is not None and work.y_source != OWN and counted[work.used].any():
        own = float(counted[work.used].sum())
        texts.append(
            f"the server itself counted {own / 1e6:.1f} s of CPU by class ({own / profile.measured * 100:.0f}% of the "
            "measured): see measured CPU"
        )
    if work.y_source == OWN:
        texts.append(f"there is no {NAMES.get(work.y_name, work.y_name)} but what the server counts of its statements")
    if len(work.classes) and "calls" not in work.metrics:
        texts.append("no call counts: costs per call cannot be told from costs per time")
    return [*texts, *calls]


def _lost_calls(work: Workload) -> list[str]:
    lost = [j for j, info in enumerate(work.classes) if info.query == CATCH_ALL]
    if not lost or work.calls is None or not work.calls.sum() > 0:
        return []
    share = float(work.calls[:, lost].sum() / work.calls.sum())
    return [f"{share:.1%} of the calls found no room in the server's digest table: the classes stand for the others"]


def _tied(profile: Profile) -> tuple[list[str], list[str]]:
    """Word which classes cannot be told apart, by their times or by their calls."""
    infos = profile.work.classes
    (time_of, times), (calls_of, calls) = (
        (each.sum(), units.named([label(infos[j].query) or infos[j].name for j in np.flatnonzero(each)], 4))
        for each in (profile.tied, profile.called_alike)
    )
    sought = profile.attributable and not profile.counts
    follow, same = "follow from one another in every interval", "the same in every interval"
    only = "what a call costs beside its time cannot be told for each of them, only the sum; their ranges say so"
    return (
        [
            f"the times of {times} {follow}: their shares cannot be told, only the sum"
            if time_of > 1
            else f"the time of {times} is {same}: its CPU cannot be told from what the server always uses"
        ]
        * bool(sought and times),
        [
            f"the calls of {calls} {follow}, or are always as many: {only}"
            if calls_of > 1
            else f"the calls of {calls} are {same}, or follow from its time: what a call costs beside that cannot be told"
        ]
        * bool(sought and calls and profile.method == "default"),
    )


def _on_full(profile: Profile) -> str:
    busy = f"the host is full ({profile.utilisation * 100:.1f}% of its CPUs were busy)"
    wide = "" if profile.counts else ", and ranges are as wide as time and cores allow"
    nothing = "its CPU says nothing about single classes; the server's own would (cpu.stat of its control group, or "
    return f"{busy}: time is mostly waiting{wide}" if profile.attributable else f"{busy}: {nothing}pg_stat_kcache)"


def _on_wlr(profile: Profile) -> list[str]:
    texts = [
        "WLR shares every interval's CPU by time before it fits: its small standard errors describe its own shares, not "
        "the CPU"
    ]
    if profile.lines is not None and not profile.fits.large:
        safe, exact = profile.fits.lines("safe")[0], profile.fits.lines("upstream")[0]
        flat = int(safe.no_spread.sum())
        with np.errstate(invalid="ignore"):
            differ = np.abs(safe.slope - exact.slope) > 1e-6 * np.maximum(np.abs(safe.slope), 1e-12)
            differ |= np.isnan(exact.slope) != np.isnan(safe.slope)
        if flat or differ.any():
            texts.append(
                f"the rules of VividCortex' program and the safe ones differ in {int(differ.sum())} classes; {flat} have no "
                "spread (all their times are equal, so there is no line)"
            )
    return texts


def _remedies(attribution: Attribution) -> list[str]:
    """Word the remedies for an elbow, a change of costs and a lag."""
    texts = []
    elbow, change, lag = attribution.elbow, attribution.change_point, attribution.lag
    if elbow is not None and elbow.curve is not None:
        texts.append(
            f"past the queueing elbow (bend {elbow.bend:.2f}, t {elbow.t:.0f}): waiting is taken out of the times, in which "
            f"the same work takes {elbow.curve.slowdown:.1f} times longer at the highest load than at the lowest; no "
            "background is told from it"
        )
    if attribution.changed:
        texts.append(
            f"costs changed at interval {change.row + 1}: two fits lower the error by {change.gain * 100:.0f}%, so each side "
            "is fitted alone"
        )
    if lag.share:
        who = "CPU lags the times" if lag.share > 0 else "the times lag CPU"
        texts.append(
            f"{who} by {abs(lag.share) * 100:.0f}% of an interval: neighbouring intervals are mixed by as much, which lowers "
            f"the squared error by {lag.gain * 100:.0f}%"
        )
    return texts


def answer(profile: Profile, classes: pl.DataFrame, names: Mapping[str, str]) -> str:
    """Return which of ``classes`` uses most of the resource, else takes most time, as a sentence; ``names``: their labels."""
    used = NAMES.get(profile.work.y_name, profile.work.y_name)
    share, what = ("y_share", used) if profile.attributable else ("x_share", "time")
    for row in classes.filter(pl.col(share) > 0).top_k(1, by=share).iter_rows(named=True):
        return f"{100 * row[share]:.1f}% of the {what} goes to {names.get(row['class']) or row['class']}"
    return ""


def headline(profile: Profile) -> tuple[Headline, ...]:
    """Return the numbers of the tab's header line."""
    work, trust, measured = profile.work, profile.trust, profile.measured
    count, rows = int(profile.used.sum()), len(profile.used)
    left = rows - count
    items: list[Headline] = []
    if profile.measurable and not profile.attributable:
        total, busy = f"{measured / 1e6:,.1f} s", f"{profile.utilisation * 100:.1f}% busy"
        items += [
            Headline("CPU of the host", total, busy, "moderate", short=("CPU", total)),
            Headline("CPU of the classes", f"not known: the host is full, {busy}", level="moderate",
                     short=("classes", "host full")),
        ]  # fmt: skip
    elif profile.attributable:
        share = profile.attributed / measured * 100 if measured > 0 else math.nan
        resource, total = NAMES.get(work.y_name, work.y_name), f"{measured / 1e6:,.1f} s"
        explained = f"{share:.1f}%" if measured > 0 else "-"
        busy = f"{profile.active_cpus:.2f}" + (f" of {work.cores:g}" if math.isfinite(work.cores) else "")
        over = f"{count} interval{'s' * (count != 1)}" + (
            f", {profile.seconds:.0f} s" if math.isfinite(profile.seconds) else ""
        )
        levels: dict[str, Level] = {"good": "ok", "fair": "moderate"}
        level = "" if trust is UNTESTED else levels.get(trust.grade, "severe")
        items += [
            Headline(resource, total, over, short=(resource, total)),
            Headline("attributed", explained, short=("attr.", explained)),
            Headline(
                "trust", f"{trust.grade}: {TRUST[trust.grade]}", "; ".join(trust.reasons[:3]), level,
                short=("trust", trust.grade),
            ),
        ]  # fmt: skip
        if math.isfinite(profile.active_cpus):
            items.insert(1, Headline("active CPUs", busy, "average over the window", short=("CPUs", busy)))
    elif (elapsed := float(profile.x_total.sum())) > 0:
        total = units.text("s", elapsed / 1e6)
        items += [
            Headline("time of all classes", total, short=("time", total)),
            Headline("CPU", "not known: ranked by time", level="low", short=("CPU", "not known")),
        ]
    left_out = f"{left} left out" if left else ""
    used = f"{count} of {rows}"
    method = Headline("method", "counted by the server" if profile.counts else profile.method)
    return (
        *items,
        Headline("intervals", used, left_out, "low" if left else "", short=("intervals", used)),
        *[method] * profile.attributable,
        Headline("source", work.label),
    )


def findings(limit: float, profile: Profile) -> tuple[Finding, ...]:
    """Return the classes whose lower bound exceeds the share ``limit`` of everything measured, the largest first."""
    work, measured, total, (cpu_low_us, cpu_high_us) = profile.work, profile.measured, profile.total, profile.interval
    if not profile.attributable:
        why = "the host is full, so its CPU says nothing about classes" if profile.full else "nothing can be attributed"
        return unanswered(limit, f"{why} in {work.label}")
    if not limit or measured <= 0:
        return ()
    large = []
    for j in np.argsort(-np.nan_to_num(total), kind="stable"):
        bounded = math.isfinite(cpu_low_us[j])
        if (cpu_low_us[j] if bounded else total[j]) / measured > limit:
            interval = (
                f" ({cpu_low_us[j] / measured * 100:.1f} to {cpu_high_us[j] / measured * 100:.1f}%)" if bounded else ""
            )
            query = label(work.classes[j].query)
            text = (
                f"{f'{query}: ' if query else ''}takes {total[j] / measured * 100:.1f}%{interval} of "
                f"{measured / 1e6:.1f} s {work.y_name}, more than {limit * 100:g}%, by method {profile.method}"
            )
            name = work.classes[j].name
            large.append(Finding("severe", name, text, ("classes", (name,))))
    return tuple(large)


def unanswered(limit: float, reason: str) -> tuple[Finding, ...]:
    """Return a failing finding if a check against ``limit`` cannot be answered; empty without a limit."""
    return (Finding("severe", "max-share", f"cannot be checked: {reason}"),) if limit else ()


FIRST = (
    "rows_trained", "rows_predicted", "slope", "intercept", "r2", "mape", "background", "unattributed",
)  # fmt: skip
"""Keys of every summary, even without a workload."""


def summary(profile: Profile, predictions: Predictions, compared: tuple[str, str] | None) -> dict[str, Any]:
    """Summarise a profile and its predictions; non-finite numbers become None for JSON. ``compared``: both windows in words."""
    work, trust, fitted = profile.work, profile.trust, profile.attribution
    attributable, measured, attributed = profile.attributable, profile.measured, profile.attributed
    values = {
        "rows_trained": profile.rows_trained,
        **scores(predictions),
        "background": profile.background,
        "unattributed": profile.unattributed(profile.method) if attributable else math.nan,
        "y_measured": measured,
        "attributed": attributed,
        "unattributed_share": profile.unattributed_share,
        "method": profile.method,
        "rules": profile.fits.rules,
        "target": work.y_name,
        "source": work.label,
        "y_source": work.y_source,
        "classes": len(work.classes),
        "intervals": len(work.y),
        "intervals_used": int(profile.used.sum()),
        "seconds": profile.seconds,
        "cores": work.cores,
        "utilisation": profile.utilisation,
        "active_cpus": profile.active_cpus,
        "window_now": compared[0] if compared else None,
        "window_before": compared[1] if compared else None,
        "trust": trust.score if attributable and trust is not UNTESTED else math.nan,
        "trust_grade": trust.grade,
        "counted_share": profile.counted.of_measured if profile.counted else math.nan,
        "model_error": profile.counted.error if profile.counted else math.nan,
        **{name: getattr(trust, name) for name in ("blocked_mape", "correlation", "disagreement")},
        "elbow": bool(fitted and fitted.elbow and fitted.elbow.found),
        "break_row": fitted.change_point.row + 1 if fitted and fitted.changed else None,
    }
    return {name: _plain(value) for name, value in values.items()}


def scores(predictions: Predictions) -> dict[str, Any]:
    """Summarise predictions: their number and the final line of VividCortex' program."""
    line = {name: _plain(getattr(predictions.quality, name)) for name in ("slope", "intercept", "r2", "mape")}
    return {"rows_predicted": predictions.frame.height, **line}


def _plain(value: Any) -> Any:
    return units.finite(value) if isinstance(value, float | np.floating) else value


_CLASS = {"queryid": "class", "database": "database"}

GAUGES = (
    Gauge("query_cpu_seconds", "classes", "y_total", "CPU (or the chosen resource) of the class in the window.", _CLASS, US,
          adds=True),
    Gauge("query_cpu_measured_seconds", "classes", "cpu_measured_us", "CPU of the class as the server measured it.", _CLASS, US,
          adds=True),
    Gauge("query_time_seconds", "classes", "x_total", "Elapsed time of the class in the window.", _CLASS, US, adds=True),
    Gauge("query_calls", "classes", "calls", "Executions in the window.", _CLASS, adds=True),
)  # fmt: skip
