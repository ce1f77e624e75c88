"""What is said about a result: headline numbers, notes on modes and assumptions, findings of ``check``."""

from __future__ import annotations

import math

import numpy as np

from engine.query_profile.estimators.attribution import Attribution
from engine.query_profile.insight.fits import Fits
from engine.query_profile.insight.trust import UNTESTED, Trust
from engine.query_profile.reading.fingerprint import label
from engine.query_profile.reading.mysql_digest import CATCH_ALL
from engine.query_profile.wlr.regression import Lines
from engine.query_profile.workloads.resources import OWN
from engine.query_profile.workloads.workload import Workload
from engine.result import Finding, Headline, Level

NAMES = {"cpu_us": "CPU", "user_us": "user CPU", "system_us": "system CPU", "iowait_us": "I/O wait"}
"""Resources as people call them."""


def notes_on(
    fits: Fits,
    work: Workload,
    method: str,
    gauge: Trust,
    attribution: Attribution | None,
    measured: float,
    lines: Lines | None,
) -> list[str]:
    """Modes and assumptions in force, as sentences."""
    notes: list[str] = []
    lost = [j for j, info in enumerate(work.classes) if info.query == CATCH_ALL]
    if lost and work.calls is not None and work.calls.sum() > 0:
        share = float(work.calls[:, lost].sum() / work.calls.sum())
        notes.append(
            f"{share * 100:.1f} % of the calls found no room in the server's digest table: the classes stand for the others"
        )
    if not work.used.any():
        if np.isfinite(work.y).any():
            notes.append("no interval is free of doubt: nothing can be attributed")
        else:
            notes.append("no CPU series goes with these queries: they are ranked by time only")
        return notes
    if method == "wlr":
        notes.append(
            "WLR shares every interval's CPU by time before it fits: its small standard errors describe its own "
            "shares, not the CPU"
        )
        if lines is not None and not fits.large:
            safe, exact = fits.lines("safe")[0], fits.lines("upstream")[0]
            flat = int(safe.no_spread.sum())
            with np.errstate(invalid="ignore"):
                differ = np.abs(safe.slope - exact.slope) > 1e-6 * np.maximum(np.abs(safe.slope), 1e-12)
                differ |= np.isnan(exact.slope) != np.isnan(safe.slope)
            if flat or differ.any():
                notes.append(
                    f"upstream's and safe rules differ in {int(differ.sum())} classes; {flat} have no spread "
                    "(all their times are equal, so there is no line)"
                )
    if attribution is not None and attribution.elbow is not None and attribution.elbow.curve is not None:
        notes.append(
            f"past the queueing elbow (bend {attribution.elbow.bend:.2f}, t {attribution.elbow.t:.0f}): waiting is taken out "
            f"of the times, in which the same work takes {attribution.elbow.curve.slowdown:.1f} times longer at the highest "
            "load than at the lowest; no background is told from it"
        )
    if attribution is not None and attribution.broken is not None and attribution.broken.row > 0:
        notes.append(
            f"costs changed at interval {attribution.broken.row + 1}: two fits lower the error by "
            f"{attribution.broken.gain * 100:.0f} %, so each side is fitted alone"
        )
    if attribution is not None and attribution.shift.share:
        share = attribution.shift.share
        who = "CPU lags the times" if share > 0 else "the times lag CPU"
        notes.append(
            f"{who} by {abs(share) * 100:.0f} % of an interval: neighbouring intervals are mixed by as much, which lowers "
            f"the squared error by {attribution.shift.gain * 100:.0f} %"
        )
    if gauge.reasons and gauge.grade != "none":
        notes.append(f"trust {gauge.grade} ({gauge.score * 100:.0f} %): {'; '.join(gauge.reasons[:3])}")
    counted = work.metrics.get("cpu_us")
    if counted is not None and work.y_source != OWN and counted[work.used].any():
        own = float(counted[work.used].sum())
        notes.append(
            f"the server itself counted {own / 1e6:.1f} s of CPU by class ({own / measured * 100:.0f} % of the measured): "
            "see measured CPU"
        )
    if work.y_source == OWN:
        notes.append(
            f"the server itself counts {work.y_name} by class, which is exact: the estimate only shows how near it comes"
        )
    if len(work.classes) and "calls" not in work.metrics:
        notes.append("no call counts: costs per call cannot be told from costs per time")
    return notes


def note_on_earlier_fit(fitted: int, intervals: int) -> str:
    """That the costs are those of a fit of the first ``fitted`` of these ``intervals``."""
    return f"{intervals} intervals are being fitted: until then costs, ranges and trust are those of the first {fitted}"


def headline(
    work: Workload, used: np.ndarray, measured: float, attributed: float, gauge: Trust, seconds: float, method: str,
    fitted: int | None = None,
) -> tuple[Headline, ...]:  # fmt: skip
    """The numbers of the tab's header line; ``fitted``: of so many intervals only the costs in force were fitted."""
    count = int(used.sum())
    left = len(used) - count
    over = f"{count} intervals" + (f", {seconds:.0f} s" if math.isfinite(seconds) else "")
    items = []
    if math.isfinite(measured):
        share = attributed / measured * 100 if measured > 0 else math.nan
        resource, total = NAMES.get(work.y_name, work.y_name), f"{measured / 1e6:,.1f} s"
        explained = f"{share:.1f} %" if measured > 0 else "-"
        rest = f"{100 - share:.1f} %" if measured > 0 else "-"
        score = f"{gauge.score * 100:.0f} %"
        items += [
            Headline(resource, total, over, short=(resource, total)),
            Headline("attributed", explained, short=("attr.", explained)),
            Headline("unattributed", rest, short=("unattr.", rest)),
            Headline(
                "trust",
                f"{gauge.grade} {score}" if gauge.grade != "none" else "none",
                "; ".join(gauge.reasons[:3]),
                _level(gauge),
                short=("trust", score if gauge.grade != "none" else "none"),
            ),
        ]
    items.append(
        Headline(
            "intervals",
            f"{count} of {len(used)}",
            f"{left} left out" if left else "",
            "low" if left else "",
            short=("used", f"{count}, {left} left out"),
        )
    )
    if math.isfinite(measured):
        earlier = f"fit of {fitted} intervals, the next under way" if fitted is not None else ""
        items.append(Headline("method", method, earlier, "low" if earlier else ""))
    items.append(Headline("source", work.label))
    return tuple(items)


def _level(gauge: Trust) -> Level:
    if gauge is UNTESTED:
        return ""
    return "ok" if gauge.grade == "good" else "moderate" if gauge.grade == "fair" else "severe"


def findings(
    limit: float, work: Workload, total: np.ndarray, low: np.ndarray, measured: float, y_known: bool, method: str,
    high: np.ndarray,
) -> tuple[Finding, ...]:  # fmt: skip
    """Classes that surely take more than the share ``limit`` of everything measured."""
    if not y_known:
        return unanswered(limit, f"nothing can be attributed in {work.label}")
    if not limit or measured <= 0:
        return ()
    found = []
    for j in np.argsort(-np.nan_to_num(total), kind="stable"):
        surely = low[j] if math.isfinite(low[j]) else total[j]
        if surely / measured > limit:
            interval = (
                f" ({low[j] / measured * 100:.1f} to {high[j] / measured * 100:.1f} %)" if math.isfinite(low[j]) else ""
            )
            text = label(work.classes[j].query)
            said = f"{text}: " if text else ""
            found.append(
                Finding(
                    "severe",
                    work.classes[j].name,
                    f"{said}takes {total[j] / measured * 100:.1f} %{interval} of {measured / 1e6:.1f} s {work.y_name}, "
                    f"more than {limit * 100:g} %, by method {method}",
                )
            )
    return tuple(found)


def unanswered(limit: float, reason: str) -> tuple[Finding, ...]:
    """That the question for a class above ``limit`` has no answer, where it was asked: a check that knows nothing fails."""
    return (Finding("severe", "max-share", f"cannot be checked: {reason}"),) if limit else ()
