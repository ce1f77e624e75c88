"""Play the sample as a CI: a run starts, its reports arrive one by one, it finishes, and the next one starts.

After a while the simulated side slows down for some runs (a regression that is fixed later); now and then a run fails or a
report is still half written when it is looked at.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from sample_data.run_comparison.make import FIRST, JOBS, START, STEP, Mood, finished, reports, started
from sample_data.whole_files import put

KEEP = 16
"""Runs per job on disk; older ones are deleted, as by a CI."""
SLOW = range(14, 20)
"""Days of the regression, of each round of ``ROUND``."""
ROUND = 30
FIRST_DAY = 9


def steps(target: Path) -> Iterator[float]:
    """Write the starting files below ``target``, then make one change per ``next()``; yields seconds to wait. Never ends."""
    files = Path(__file__).parent / "files"
    shutil.copytree(files, target, dirs_exist_ok=True)
    yield 2.0
    rng = random.Random(77)
    day = FIRST_DAY
    while True:
        for side in (0, 1):
            yield from _run(target, side, day, rng)
        day += 1


def _run(target: Path, side: int, day: int, rng: random.Random) -> Iterator[float]:
    number, seconds = FIRST + day * STEP + side * 1_111, START + day * 86_400 + side * 1_800
    turn = day % ROUND
    mood = Mood(1.6 if side and turn in SLOW else 1.0, "FAILURE" if turn in (11, 23) and not side else "SUCCESS")
    folder = target / JOBS[side] / str(number)
    (folder / "artifacts").mkdir(parents=True, exist_ok=True)
    put({folder / "started.json": started(seconds)})
    yield 8.0
    found = reports(side, number, seconds, mood, rng)
    for at, (name, text) in enumerate(found.items()):
        path = folder / "artifacts" / name
        if at == 1:
            path.write_text(text[: len(text) // 2])  # caught while being written
            yield 6.0
        put({path: text})
        if at % 3 == 2:
            yield 6.0
    put({folder / "finished.json": finished(seconds + 3600, mood.result or "SUCCESS")})
    old = sorted(path for path in (target / JOBS[side]).iterdir() if path.is_dir())
    for gone in old[:-KEEP]:
        shutil.rmtree(gone, ignore_errors=True)
    yield 10.0
