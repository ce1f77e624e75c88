"""``python -m tests.faults.soak``: a day of the demo in minutes, with every tab in use.

The dashboard runs without a terminal on the demo's folder. In each round all played systems make one change, keys are pressed
and another tab is shown. Memory, threads and descriptors are noted; at random moments every view's result is compared with that
of a session that starts on the same files. An hour is ten rounds, as the played cluster counts it. The exit code is 1 if a result
differs or anything keeps growing.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from engine.live.options import LiveSettings
from engine.live.session import Session
from engine.own_files.settings import Settings, State
from sample_data.feed import NAMES, player
from tui.app import Dashboard
from tui.status_model import Source

ROUNDS_AN_HOUR = 10
KEYS = (
    "up", "down", "left", "right", "home", "end", "pageup", "pagedown", "enter", "escape", "tab", "s", "space",
    "left_square_bracket", "right_square_bracket", "left_parenthesis", "backslash", "question_mark", "f5",
)  # fmt: skip
NOW_MS = 1_800_000_000_000
QUIET = LiveSettings(cache=False)


@dataclass
class Usage:
    """What the process uses: MB of memory, MB of what Python and the collector hold, threads, descriptors."""

    rss_mb: float
    objects: int
    threads: int
    descriptors: int


@dataclass
class Outcome:
    """``usage`` after each round that was measured; ``differences`` from fresh sessions; ``checks`` made."""

    usage: list[Usage] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    checks: int = 0

    def growth(self) -> list[str]:
        """Return what the last third of the run used clearly more of than the middle third."""
        third = len(self.usage) // 3
        if not third:
            return ["too few rounds to tell"]
        middle, last = self.usage[third : 2 * third], self.usage[-third:]
        found = []
        for name, slack in (("rss_mb", 25.0), ("objects", 30_000), ("threads", 2), ("descriptors", 3)):
            before, after = (median(getattr(each, name) for each in part) for part in (middle, last))
            if after > before * 1.1 + slack:
                found.append(f"{name} grew from {before:,.0f} to {after:,.0f}")
        return found


def usage() -> Usage:
    """Measure this process, after a garbage collection."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Usage(
        pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20),
        len(gc.get_objects()),
        threading.active_count(),
        len(os.listdir("/proc/self/fd")),  # noqa: PTH208  (its own descriptor is closed again)
    )


def differences(session: Session, folder: Path) -> list[str]:
    """Compare every view's result with that of a fresh session; return what differs."""
    session.scan(final=True)
    fresh = Session([folder], list(session.views.values()), settings=QUIET)
    fresh.scan(final=True)
    found = []
    for name, view in session.views.items():
        parameters = view.parameters()
        kept, cold = (each.compute(name, parameters, now_ms=NOW_MS) for each in (session, fresh))
        if kept.summary != cold.summary:
            found.append(f"{name}: summary")
        found += [f"{name}: {table}" for table, frame in cold.tables.items() if not frame.equals(kept.tables[table])]
        if [problem.reason for problem in kept.problems] != [problem.reason for problem in cold.problems]:
            found.append(f"{name}: problems")
    fresh.close()
    return found


async def replay(folder: Path, rounds: int, *, checks: int, seed: int = 1) -> Outcome:
    """Play ``rounds`` changes of every system below ``folder`` with the dashboard on it; compare ``checks`` times."""
    outcome, rng = Outcome(), random.Random(seed)
    moments = {rng.randrange(rounds * part // checks, rounds * (part + 1) // checks) for part in range(checks)}
    data = folder / "data"
    players: dict[str, Iterator[float]] = {}
    for name in NAMES:
        steps = player(name, data)
        if steps is not None:
            next(steps)
            players[name] = steps
    app = Dashboard(
        [data],
        Settings(folder / "config.toml", (QUIET,)),
        source=Source(demo=True),
        state=State(folder / "state.toml"),
    )
    async with app.run_test(size=(140, 40)) as pilot:
        await until(lambda: len(app.tabs.views) == len(NAMES), pilot)
        await pilot.press("1")  # the overview is first, which has no result of its own
        await until(lambda: app.pane is not None and app.pane.result is not None, pilot)
        for number in range(rounds):
            for steps in players.values():
                await asyncio.to_thread(next, steps)
            while len(app.screen_stack) > 1:
                await pilot.press("escape")
            await pilot.press(str(1 + number % len(NAMES)))
            for _ in range(2):
                await pilot.press(rng.choice(KEYS))
            await until(lambda: not app.client.busy, pilot)
            if number in moments and app.client.session is not None:
                outcome.checks += 1
                found = await asyncio.to_thread(differences, app.client.session, data)
                outcome.differences += [f"round {number}: {what}" for what in found]
            if number % max(1, rounds // 48) == 0:
                outcome.usage.append(usage())
    return outcome


async def until(true: Any, pilot: Any, seconds: float = 120.0) -> None:
    """Wait. Raises TimeoutError."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError("the dashboard did not come to rest")
        await pilot.pause(0.02)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=24.0, help="of the played systems")
    parser.add_argument("--checks", type=int, default=10, help="comparisons with a fresh start")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(words)
    rounds = max(arguments.checks, round(arguments.hours * ROUNDS_AN_HOUR))
    with tempfile.TemporaryDirectory(prefix="loadlens-soak-") as folder:
        outcome = asyncio.run(replay(Path(folder), rounds, checks=arguments.checks, seed=arguments.seed))
    for number, each in enumerate(outcome.usage):
        if number % max(1, len(outcome.usage) // 12) == 0 or number == len(outcome.usage) - 1:
            print(f"{number * max(1, rounds // 48) / ROUNDS_AN_HOUR:5.1f} h  {each.rss_mb:5.0f} MB  {each.objects:9,} objects"
                  f"  {each.threads:3} threads  {each.descriptors:3} descriptors")  # fmt: skip
    wrong = outcome.differences + outcome.growth()
    print(f"{rounds} rounds, {outcome.checks} comparisons, {len(wrong)} wrong", *wrong, sep="\n  ", flush=True)
    os._exit(int(bool(wrong)))  # threads may still compute


if __name__ == "__main__":
    sys.exit(main())
