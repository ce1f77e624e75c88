"""``python -m tests.faults.keys``: random keys, resizes, and files that come and go, in all views, for a minute.

The dashboard runs without a terminal on the demo's folder. Nothing is expected of a screen but that the program goes on: an
exception in any handler or renderer ends it with exit code 1 and the last keys. A seed gives the same keys; what the session has
read when one arrives may differ.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import string
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from engine.own_files.settings import Settings, State
from sample_data.feed import NAMES, player
from tests.faults.soak import QUIET, differences, until
from tui.app import Dashboard
from tui.status_model import Source

KEYS = (
    *(key for key in string.ascii_letters + string.digits if key != "q"), *("up", "down", "left", "right") * 4,
    *("right_square_bracket", "left_square_bracket") * 8, "left_parenthesis", "right_parenthesis", "backslash", "question_mark",
    "home", "end", "pageup", "pagedown", "enter", "enter", "enter", "escape", "escape", "tab", "shift+tab", "space", "space",
    "slash", "colon", "comma", "full_stop", "less_than_sign", "greater_than_sign", "plus", "minus", "asterisk", "f5", "backspace",
)  # fmt: skip
PAUSES = (0.0, 0.0, 0.0, 0.01, 0.1)


def _hide_or_return(data: Path, away: Path, draw: random.Random) -> None:
    """Move a third of a view's files out of sight, or bring all back."""
    hidden = [path for path in away.rglob("*") if path.is_file()]
    if not hidden or draw.random() < 0.5:
        view = draw.choice([path for path in data.iterdir() if path.is_dir()])
        files = [path for path in sorted(view.rglob("*")) if path.is_file()]
        moves = [(path, away / path.relative_to(data)) for path in draw.sample(files, len(files) // 3)]
    else:
        moves = [(path, data / path.relative_to(away)) for path in hidden]
    for source, target in moves:
        target.parent.mkdir(parents=True, exist_ok=True)
        source.replace(target)


async def play(folder: Path, seconds: float, seed: int, *, compare: bool = False) -> tuple[int, list[str]]:
    """Press keys for some seconds, and 20 at least; return their number and, if asked for, what differs from a fresh start on
    the files as they then are, after a last change of each. Raises what the dashboard raised."""
    draw, data = random.Random(seed), folder / "data"
    players = [steps for name in NAMES if (steps := player(name, data)) is not None]
    for steps in players:
        next(steps)
    app = Dashboard(
        [data], Settings(folder / "config.toml", (QUIET,)), source=Source(demo=True), state=State(folder / "state.toml")
    )
    pressed, last, differ = 0, deque[str](maxlen=40), list[str]()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(lambda: len(app.tabs.views) == len(NAMES), pilot)
        end = time.monotonic() + seconds
        try:
            while (time.monotonic() < end or pressed < 20) and app._exception is None and app.is_running:
                what = draw.random()
                if what < 0.02:
                    width, height = draw.choice((40, 80, 120, 200)), draw.choice((10, 24, 60))
                    last.append(f"{width}x{height}")
                    await pilot.resize_terminal(width, height)
                elif what < 0.03:
                    last.append("files")
                    await asyncio.to_thread(_hide_or_return, data, folder / "away", draw)
                elif what < 0.05:
                    await asyncio.to_thread(next, draw.choice(players))
                else:
                    last.append(draw.choice(KEYS))
                    await pilot.press(last[-1])
                    pressed += 1
                await pilot.pause(draw.choice(PAUSES))
            if compare and app.client.session is not None:
                for steps in players:
                    await asyncio.to_thread(next, steps)
                await until(lambda: not app.client.busy, pilot)
                differ = await asyncio.to_thread(differences, app.client.session, data)
        except Exception:
            print("last keys:", *last)
            raise
    return pressed, differ


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="loadlens-keys-", ignore_cleanup_errors=True) as folder:
        os.environ.update(dict.fromkeys(("HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), folder))
        pressed, _ = asyncio.run(play(Path(folder), arguments.seconds, arguments.seed))
    print(f"{pressed} keys with seed {arguments.seed}: the dashboard goes on", flush=True)
    os._exit(0)  # threads may still compute


if __name__ == "__main__":
    sys.exit(main())
