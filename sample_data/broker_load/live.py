"""Plays the sample as a running cluster: a scrape of every broker per step; a broker dies and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sample_data.broker_load.cluster import Simulation, put_documents, put_scrapes
from sample_data.broker_load.make import write
from sample_data.whole_files import put

STEP_S = 20.0
"""Seconds between two scrapes."""
KEEP = 30
"""Scrapes kept of each exporter: three hours of cluster time."""
DIES, RETURNS, ROUND = 4, 9, 15
"""Steps at which a broker dies and returns, and the length of the story."""
VICTIM = 3
TICK_S = 360
"""Seconds that pass in the cluster from one scrape to the next."""


def steps(target: Path) -> Iterator[float]:
    """Write the starting files below ``target``, then make one change per ``next()``; yields seconds to wait. Never ends."""
    simulation = write(target)
    yield 1.0
    number = 0
    while True:
        number += 1
        turn = number % ROUND
        simulation.advance(TICK_S)
        if turn == DIES:
            simulation.fail(VICTIM)
            _describe(simulation, target)
        elif turn == RETURNS:
            simulation.recover(VICTIM)
            _describe(simulation, target)
        put_scrapes(simulation, target)
        _forget(target)
        yield STEP_S


def _describe(simulation: Simulation, target: Path) -> None:
    put_documents(simulation, target)
    for old in sorted(target.glob("topics-describe-*.txt"))[:-1]:  # afterwards: without any the cluster has no topology
        old.unlink()
    rows = (target / "brokers.csv").read_text().splitlines()
    marks = {str(broker) for broker in simulation.down}
    shown = [row[: -len("true")] + "false" if row.split(",")[0] in marks else row for row in rows]
    put({target / "brokers.csv": "\n".join(shown) + "\n"})


def _forget(target: Path) -> None:
    for folder in (target / "scrape").iterdir():
        for old in sorted(folder.glob("*.prom"))[:-KEEP]:
            old.unlink()
