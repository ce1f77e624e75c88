"""The four metrics of a job (fact sheet, section 3), by upstream's code and by the seed's description."""

from __future__ import annotations

import numpy as np
import polars as pl

from engine.job_heuristics.dr_elephant.side_stats import Array, Sides

HEADROOM = 1.5
"""Upstream leaves 50 % above the peak before it calls memory wasted."""
_LONG = 2**63 - 1


def compute(jobs: pl.DataFrame, sides: Sides, *, seed: bool = False) -> dict[str, list[int | None]]:
    """``used_mb_s``, ``wasted_mb_s``, ``wait_ms`` and ``runtime_ms`` of each job, in the order of ``jobs``.

    Jobs that did not end by themselves have neither wait nor run time. A sum beyond 64 bit is null.
    """

    def pick(name: str) -> tuple[Array, Array]:
        return sides[name][0::2], sides[name][1::2]

    containers = (jobs["map_memory_mb"].to_numpy(), jobs["reduce_memory_mb"].to_numpy())
    seconds, peak, finish, longest, timed = (
        pick(c) for c in ("seconds", "peak_mb", "last_finish_ms", "longest_ms", "timed")
    )
    used: list[int | None] = [0] * jobs.height
    wasted: list[int | None] = [0] * jobs.height
    exact, lost = pick("exact_ms"), pick("seed_wasted")
    for side in (0, 1):
        spare = containers[side] - np.trunc(peak[side] * HEADROOM).astype(np.int64)
        # Whole numbers of Python: a product beyond 64 bit must be seen, not wrapped.
        if seed:
            for j, (mb, ms, more) in enumerate(
                zip(containers[side].tolist(), exact[side].tolist(), lost[side].tolist(), strict=True)
            ):
                _add(used, j, mb * ms // 1000)
                _add(wasted, j, more)
        else:
            for j, (mb, free, s) in enumerate(
                zip(containers[side].tolist(), spare.tolist(), seconds[side].tolist(), strict=True)
            ):
                _add(used, j, mb * s)
                _add(wasted, j, free * s if free > 0 else 0)
    submit: list[int | None] = jobs["submit_ms"].to_list()
    begin: list[int | None] = jobs["launch_ms"].to_list() if seed else submit
    end: list[int | None] = jobs["finish_ms"].to_list()
    over = [state in ("SUCCEEDED", "FAILED") and at is not None for state, at in zip(jobs["state"], end, strict=True)]
    start = np.array([at or 0 for at in begin], dtype=np.int64)
    ideal = pick("slow_finish_ms")[0] if seed else finish[0]
    if seed:
        ideal = np.where(ideal > 0, ideal, start)
    floor = np.iinfo(np.int64).min if seed else 0
    map_wait = np.where(timed[0] > 0, np.maximum(floor, finish[0] - (start + longest[0])), 0)
    reduce_wait = np.where((timed[1] > 0) & (timed[0] > 0), np.maximum(floor, finish[1] - (ideal + longest[1])), 0)
    waits: list[int] = (map_wait + reduce_wait).tolist()
    return {
        "used_mb_s": used,
        "wasted_mb_s": wasted,
        "wait_ms": [w if o and b is not None else None for w, o, b in zip(waits, over, begin, strict=True)],
        "runtime_ms": [
            None if not o or a is None or b is None else b - a for o, a, b in zip(over, submit, end, strict=True)
        ],
    }


def _add(totals: list[int | None], j: int, value: int) -> None:
    have = totals[j]
    if have is None or abs(have + value) > _LONG:
        totals[j] = None
    else:
        totals[j] = have + value
