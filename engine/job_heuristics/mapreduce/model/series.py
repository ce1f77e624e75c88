"""Series inside tasks: progress splits as Hadoop packs them, and what they show of a side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.formats import json_text

_ARRAY = msgspec.json.Decoder(list[Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]])


def decode(progress: bytes | None) -> tuple[list[int], list[int], list[int], list[int]] | None:
    """Decode a value of column ``progress`` to its four arrays; None where there are none or they are damaged."""
    if not progress:
        return None
    try:
        parts = [_ARRAY.decode(part) if part else [] for part in progress.split(b";")]
    except json_text.ERRORS:
        return None
    return (parts[0], parts[1], parts[2], parts[3]) if len(parts) == 4 else None


BUCKETS = 12
"""Parts into which Hadoop divides the progress of an attempt."""
MOST = 400
"""Most attempts that are decoded, sampled evenly."""


@dataclass(frozen=True, slots=True)
class InTask:
    """One side's tasks by twelfths: mean physical MB and mean CPU per wall time (0-1); ``growing`` tasks whose memory
    rises to the end, ``stalled`` ones that used less than 10 % CPU for a third of their time; of ``seen`` attempts.
    ``words``: the same as a sentence."""

    side: str
    seen: int
    memory_mb: tuple[float, ...]
    cpu_share: tuple[float, ...]
    growing: int
    stalled: int
    words: str


def in_task(attempts: pl.DataFrame, side: str) -> InTask | None:
    """Describe one side of a job from its ATTEMPT_MODEL rows; None if the history has no such arrays."""
    mine = attempts.filter((pl.col("side") == side) & pl.col("chosen") & pl.col("progress").is_not_null())
    if not mine.height:
        return None
    picked = np.unique(np.linspace(0, mine.height - 1, min(MOST, mine.height)).astype(np.int64))
    decoded = [decode(data) for data in mine["progress"].gather(picked.tolist()).to_list()]
    rows = [four for four in decoded if four is not None and all(len(each) == BUCKETS for each in four)]
    if not rows:
        return None
    data = np.clip(np.array(rows, dtype=np.float64), 0, 2**52)
    clock, cpu, memory = data[:, 0], data[:, 1], data[:, 3] / 1024
    measured = memory[memory.max(axis=1) > 0]
    wall = clock.sum(axis=0)
    share = np.divide(cpu.sum(axis=0), wall, out=np.zeros(BUCKETS), where=wall > 0)
    growing = _growing(measured)
    stalled = _stalled(clock, cpu)
    words = f"{len(rows):,} of {mine.height:,} {'maps' if side == 'map' else 'reducers'} looked at: "
    words += f"{growing:,} grow in memory to their end" if growing else "none keeps growing in memory"
    words += (
        f", {stalled:,} stand still (under 10 % CPU) for a third of their time." if stalled else ", none stands still."
    )
    mean = measured.mean(axis=0) if len(measured) else np.zeros(BUCKETS)
    return InTask(
        side, len(rows), tuple(float(x) for x in mean), tuple(float(x) for x in share), growing, stalled, words
    )


def _growing(memory: NDArray[np.float64]) -> int:
    """Count attempts whose memory at the end is 1.3 times that of the middle and never falls by more than 2 % after it."""
    if not len(memory):
        return 0
    late = memory[:, BUCKETS // 2 :]
    rising = (np.diff(late, axis=1) >= -0.02 * late[:, :-1]).all(axis=1)
    return int((rising & (late[:, -1] >= 1.3 * np.maximum(late[:, 0], 1.0))).sum())


def _stalled(clock: NDArray[np.float64], cpu: NDArray[np.float64]) -> int:
    """Count attempts that spent a third of their time (at least 30 s) in twelfths with less than 10 % CPU, though the attempt
    as a whole used some."""
    total = clock.sum(axis=1)
    idle = np.where(cpu < 0.1 * clock, clock, 0).sum(axis=1)
    return int(((cpu.sum(axis=1) > 0) & (idle >= total / 3) & (idle >= 30_000)).sum())
