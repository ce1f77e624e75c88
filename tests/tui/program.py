"""The dashboard on a fake session whose data change at a steady rate: ``python -m tests.tui.program HZ ROWS SHARE``.

A change moves the CPU of SHARE (0 to 1) of the rows. It goes through everything the real program has but the engine. With a
fourth word MOVES changes begin once a file ``go`` is in the home folder, and after MOVES of them all data are equal.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from tests.tui.terminal import ROOT  # noqa: F401  (the folder must be importable)


def main(hz: float, rows: float, share: float, moves: float | None = None, ignore_hangup: bool = False) -> None:
    from tui.process import lifecycle

    if ignore_hangup:
        import signal

        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    lifecycle.prepare(os.environ)
    import polars as pl

    from engine.own_files.settings import Settings
    from tests.tui.fakes import FakeSession, FakeView, frame
    from tui import textual_internals
    from tui.app import Dashboard

    view = FakeView()
    view.frame = frame(int(rows))
    session = FakeSession([view])
    count = [0]

    def change() -> None:
        session.watching.wait()
        while moves is not None and not (Path.home() / "go").exists():
            time.sleep(0.02)
        while True:
            time.sleep(1 / hz)
            count[0] += 1
            step = count[0]
            every = max(round(1 / share), 1) if share else 0
            if every and (moves is None or step <= moves):
                moved = (pl.int_range(pl.len()) + step) % every == 0
                view.frame = view.frame.with_columns(
                    pl.when(moved).then((pl.col("cpu") * 7 + step) % 80).otherwise(pl.col("cpu")).alias("cpu"),
                    pl.when(moved).then(pl.col("size") + step * 1000).otherwise(pl.col("size")).alias("size"),
                )
            session.change()

    if hz:
        threading.Thread(target=change, daemon=True).start()
    from tests.tui.fakes import ENTRIES

    textual_internals.tolerate_bad_bytes()
    with lifecycle.restored_terminal():
        app = Dashboard(
            [Path("/data")],
            Settings(Path("/nowhere")),
            view="fake-view",
            guards=True,
            opener=lambda roots, settings, *_names: (session, session.views, {}),
            entries=ENTRIES,
            clock=lambda: 1_767_225_600.0,
        )
        app.run(mouse=False)
    os._exit(app.return_code or 0)  # as the command line does


if __name__ == "__main__":
    numbers = [float(word) for word in sys.argv[1:] if word != "nohup"]
    main(*numbers, ignore_hangup="nohup" in sys.argv)
