"""A fit carried over to the intervals that came after it: what is shown until the new one is made.

Fitting takes 0.1 to 1 s; what an interval's classes cost by the fit before is known at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.query_profile.estimators import design
from engine.query_profile.estimators.attribution import Attribution
from engine.query_profile.insight.fits import Fits

SHORTEST = 20
"""A fit of fewer intervals may change much with one more."""


@dataclass(frozen=True)
class Overlap:
    """``gone``: how many of the older fit's intervals are there no more; ``rows``: how many of them the newer one begins
    with; ``place`` (J,): the newer one's column of each class of the older one."""

    gone: int
    rows: int
    place: np.ndarray


def overlap(last: Fits, now: Fits) -> Overlap | None:
    """How the intervals of ``now`` go on from those of ``last``; None if they do not, or hardly."""
    column = {info: j for j, info in enumerate(now.work.classes)}
    if not len(now.y) or any(info not in column for info in last.work.classes):
        return None
    place = np.array([column[info] for info in last.work.classes], np.int64)
    fresh = np.setdiff1d(np.arange(len(column)), place)
    for gone in np.flatnonzero(last.y == now.y[0]).tolist():
        rows = len(last.y) - gone
        pairs = [(last.x, now.x[:, place]), (last.y, now.y), (last.seconds, now.seconds)]
        if last.calls is not None and now.calls is not None:
            pairs.append((last.calls, now.calls[:, place]))
        if (
            SHORTEST <= rows < len(now.y) <= 2 * rows
            and (last.calls is None) == (now.calls is None)
            and all(np.array_equal(before[gone:], after[:rows], equal_nan=True) for before, after in pairs)
            and not now.x[:rows, fresh].any()
        ):
            return Overlap(gone, rows, place)
    return None


def carry(last: Fits, now: Fits) -> int | None:
    """Give ``now`` the attribution and the trust of ``last``, with further intervals at the same costs. How many intervals
    of ``now`` were fitted; None, and nothing done, where ``now`` does not go on from ``last``."""
    if "default" not in last.kept or last.large or now.large:
        return None
    found = overlap(last, now)
    if found is None:
        return None
    now.kept["default"] = _attribution(last, now, found)
    if "trust" in last.kept:
        now.kept["trust"] = last.kept["trust"]
    return found.rows


def _attribution(last: Fits, now: Fits, found: Overlap) -> Attribution:
    old, place, classes = last.attribution(), found.place, now.x.shape[1]

    def placed(values: np.ndarray, otherwise: float = 0.0) -> np.ndarray:
        made = np.full(classes, otherwise)
        made[place] = values
        return made

    # a class that the fit did not know costs what an unknown one would be given
    shared = old.parts[-1].shared if old.parts else 0.0
    time, call = placed(old.time, shared if np.isfinite(shared) else 0.0), placed(old.call)
    x, seconds = np.maximum(now.x[found.rows :], 0.0), now.seconds[found.rows :]
    calls = None if now.calls is None else np.maximum(now.calls[found.rows :], 0.0)
    work = x * time if calls is None else x * time + calls * call
    predicted = last.predict("default", x[:, place], None if calls is None else calls[:, place], seconds)
    length = design.lengths(now.seconds)
    background = old.parts[-1].background * length[found.rows :] if old.parts else np.zeros(len(x))
    # past an elbow or with a lag a row's CPU is not the plain sum: the classes share it by that
    explained = work[:, place].sum(axis=1)
    share = np.divide(np.maximum(predicted - background, 0.0), explained, out=np.ones(len(x)), where=explained > 0)
    work[:, place] *= share[:, None]
    predicted = background + work.sum(axis=1)

    stayed = old.total
    stayed_background = old.background
    if found.gone:
        stayed = last.by_class("default")[last.used][found.gone :].sum(axis=0)
        stayed_background *= found.rows / len(last.y)
    total = placed(stayed) + work.sum(axis=0)
    was = placed(old.total)
    grown = np.divide(total, was, out=np.ones(classes), where=was > 0)
    broken = old.broken
    if broken is not None and broken.row > 0:
        broken = replace(broken, row=broken.row - found.gone if broken.row > found.gone else -1)
    return replace(
        old,
        total=total,
        low=np.minimum(placed(old.low) * grown, total),
        high=np.maximum(placed(old.high) * grown, total),
        predicted=np.concatenate([old.predicted[found.gone :], predicted]),
        time=time,
        call=call,
        background=stayed_background + float(background.sum()),
        broken=broken,
        draws=None,
    )
